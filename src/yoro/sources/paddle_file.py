"""PP-LCNetV2 from a Paddle inference model, as an ONNX graph: the program is translated operator by operator.

Such a model is a protobuf message with the program, and beside it the parameters in the order of their names. Both are
checked by their digest before they are read.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from yoro.errors import SourceError
from yoro.sources.graph_builder import ConvolutionalBuilder
from yoro.sources.protocol import Reading
from yoro.sources.torch_file import Weights

SIMPLE = {"relu": "Relu", "sigmoid": "Sigmoid", "elementwise_mul": "Mul", "pool2d": "GlobalAveragePool"}
NORM = ("Scale", "Bias", "Mean", "Variance")  # the order of ONNX


@dataclass(frozen=True)
class Operator:
    """One step of a program; `inputs` and `outputs` are names of tensors and weights by their roles."""

    kind: str
    inputs: dict[str, str]
    outputs: dict[str, str]
    attributes: dict[str, list[Any]]


@dataclass
class _Translation(ConvolutionalBuilder):
    tensors: dict[str, str] = field(default_factory=dict)  # names in the graph by names in the program

    def run(self, step: Operator) -> None:
        taken = [self.tensors[name] for name in step.inputs.values() if name in self.tensors]
        if step.kind in SIMPLE:
            made = self.node(SIMPLE[step.kind], *taken)
        elif step.kind in ("conv2d", "depthwise_conv2d"):
            padding, (groups,) = step.attributes["paddings"], step.attributes["groups"]
            kernel, strides = self.weights[step.inputs["Filter"]], step.attributes["strides"]
            made = self.node("Conv", *taken, kernel, group=groups, pads=[*padding, *padding], strides=strides)
        elif step.kind == "batch_norm":
            weights = [self.weights[step.inputs[role]] for role in NORM]
            made = self.node("BatchNormalization", *taken, *weights, epsilon=step.attributes["epsilon"][0])
        elif step.kind == "elementwise_add":
            bias = self.weights.get(step.inputs["Y"])
            made = self.node("Add", *taken, *([] if bias is None else [bias.reshape(-1, 1, 1)]))
        else:
            raise SourceError(f"The network has the operator {step.kind!r}, which is not known here.")
        (name,) = (step.outputs[role] for role in ("Out", "Output", "Y") if role in step.outputs)
        self.tensors[name] = made


def build_graph(
    program: list[Operator], weights: Weights, pixels: type[np.generic], *, side: int, read: Reading
) -> onnx.ModelProto:
    """The network from "images" (n, side, side, 3) to "responses" (n, width); pixels as in `with_preprocessing`."""
    network = _Translation(weights)
    for step in program:
        if step.kind == "feed":
            network.tensors[step.outputs["Out"]] = "pixels"
        elif step.kind == "dropout":  # what follows are the classifier and its softmax
            break
        else:
            network.run(step)
    # When it was trained, dropout did not scale up what it kept, so it scales down afterwards.
    kernel = (1 - step.attributes["dropout_prob"][0]) * weights["linear_0.w_0"].T.astype(np.float64)
    network.weights = {"last.weight": kernel, "last.bias": weights["linear_0.b_0"]}
    tensor = network.classify(network.tensors[step.inputs["X"]], "last", read)
    width = kernel.shape[0 if read == "logits" else 1]
    return network.finish_from("pixels", tensor, "pplcnet-v2", side, width, pixels)


def read_paddle(path: Path, expected: str) -> tuple[list[Operator], Weights, str]:
    """The program beside a file of parameters, the parameters, and the sha256 of both, which must be the expected."""
    program, parameters = path.with_suffix(".pdmodel").read_bytes(), path.read_bytes()
    digest = hashlib.sha256(program + parameters).hexdigest()
    if digest != expected:
        raise SourceError(
            f"{path} and the program beside it have an unexpected sha256: {digest[:12]}..., not {expected[:12]}.... "
            "Reinstall its package from a source you trust."
        )
    block = _fields(_fields(program)[1][0])
    variables = [_fields(variable) for variable in block[3]]
    names = sorted(str(item[1][0], "utf-8") for item in variables if item[3] == [1])  # those that are kept
    weights = _parameters(parameters, [name for name in names if name not in ("feed", "fetch")])
    return [_operator(_fields(step)) for step in block[4]], weights, digest


def _operator(parts: dict[int, list[Any]]) -> Operator:
    inputs, outputs = (
        {str(slot[1][0], "utf-8"): str(slot[2][0], "utf-8") for slot in map(_fields, parts[number]) if slot[2]}
        for number in (1, 2)
    )
    attributes = {str(item[1][0], "utf-8"): item[3] + item[4] + item[6] for item in map(_fields, parts[4])}
    return Operator(str(parts[3][0], "utf-8"), inputs, outputs, attributes)  # numbers: 3 whole, 4 real, 6 several


def _parameters(data: bytes, names: list[str]) -> Weights:
    """Tensors one after the other: versions, the length of a description, the description, float32 values."""
    weights, at = {}, 0
    for name in names:
        *_, length = struct.unpack_from("<IQIi", data, at)
        at += struct.calcsize("<IQIi")
        shape = _fields(data[at : at + length])[2]
        weights[name] = np.frombuffer(data, "<f4", math.prod(shape), at + length).reshape(shape)
        at += length + 4 * math.prod(shape)
    return weights


def _fields(message: bytes) -> defaultdict[int, list[Any]]:
    """The values of a protobuf message by the number of their field: whole numbers, floats, or bytes."""
    found, at = defaultdict[int, list[Any]](list), 0

    def number() -> int:
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
            if byte < 128:
                return value

    while at < len(message):
        key = number()
        if key & 7 == 0:
            found[key >> 3].append(number())
            continue
        length = {1: 8, 5: 4}.get(key & 7) or number()
        value, at = message[at : at + length], at + length
        found[key >> 3] += struct.unpack("<f", value) if key & 7 == 5 else [value]
    return found
