"""Building ONNX graphs, and preprocessing of pixels in front of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, compose, helper, numpy_helper

from yoro.sources.protocol import IMAGENET_COLOURS, Colour, Reading

OPSET = 17
IR_VERSION = 8  # the one of opset 17, so that older runtimes read the graph too

CLIPPED = 6  # where activations end

Array = npt.NDArray[np.generic]
Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Tensor:
    """An input or output of a graph, with "n" for an axis of any length."""

    name: str
    shape: Sequence[int | str | None]
    element: int = TensorProto.FLOAT

    @property
    def info(self) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(self.name, self.element, self.shape)


def image_tensor(side: int, pixels: type[np.generic]) -> Tensor:
    """Images (n, side, side, 3) of bytes, or of floats in [0, 1]."""
    return Tensor("images", ("n", side, side, 3), TensorProto.UINT8 if pixels is np.uint8 else TensorProto.FLOAT)


@dataclass
class GraphBuilder:
    """Nodes and constants of a graph under construction; every method returns the name of its output.

    Inputs are names of tensors, or arrays, which become constants.
    """

    weights: Mapping[str, Array] = field(default_factory=dict)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    names: count[int] = field(default_factory=count)
    prefix: str = ""  # before every name, where a graph is prolonged that has names of its own
    opset: int = OPSET

    def constant(self, values: Array) -> str:
        name = f"{self.prefix}constant_{next(self.names)}"
        self.constants.append(numpy_helper.from_array(values.copy(order="C"), name))
        return name

    def node(self, kind: str, *inputs: str | Array, **attributes: object) -> str:
        taken = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        name = f"{self.prefix}{kind.lower()}_{next(self.names)}"
        self.nodes.append(helper.make_node(kind, taken, [name], name=name, **attributes))  # type: ignore[arg-type]
        return name

    def rename(self, tensor: str, name: str) -> None:
        """Give a tensor another name."""
        self.nodes.append(helper.make_node("Identity", [tensor], [name]))

    def finish(self, tensor: str, name: str, source: Tensor, result: Tensor) -> onnx.ModelProto:
        """The model from `source` to `tensor`, which is given the name of `result`."""
        self.rename(tensor, result.name)
        graph = helper.make_graph(self.nodes, name, [source.info], [result.info], self.constants)
        opsets = [helper.make_opsetid("", self.opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="yoro")


@dataclass
class ConvolutionalBuilder(GraphBuilder):
    """The layers of a small convolutional network, named as its weights are."""

    epsilon: float = 1e-5  # of the batch norms
    same: bool = False  # TensorFlow's padding, the odd pixel to the bottom and the right; else half a kernel all round

    def convolve(self, tensor: str, layer: str, norm: str, *, stride: int = 1) -> str:
        """Convolution with its batch norm folded in, in float64."""
        kernel = self.weights[f"{layer}.weight"].astype(np.float64)  # (out, in / groups, k, k)
        scale = self._norm(norm, "weight") / np.sqrt(self._norm(norm, "running_var") + self.epsilon)
        bias = self._norm(norm, "bias") - self._norm(norm, "running_mean") * scale
        padding = {"auto_pad": "SAME_UPPER"} if self.same else {"pads": [kernel.shape[2] // 2] * 4}
        return self.node(
            "Conv",
            tensor,
            *self._layer_constants(tensor, kernel * scale[:, None, None, None], bias),
            group=len(kernel) if kernel.shape[1] == 1 else 1,
            kernel_shape=list(kernel.shape[2:]),
            strides=[stride, stride],
            **padding,
        )

    def _layer_constants(self, tensor: str, kernel: Numbers, bias: Numbers) -> tuple[str | Array, str | Array]:
        """Kernel and bias of a convolution of the tensor."""
        return kernel.astype(np.float32), bias.astype(np.float32)

    def clip(self, tensor: str) -> str:
        return self.node("Clip", tensor, np.array(0, np.float32), np.array(CLIPPED, np.float32))

    def add(self, one: str, other: str) -> str:
        return self.node("Add", one, other)

    def settle(self, tensor: str) -> str:
        """The tensor as the next layers take it, after a convolution without an activation."""
        return tensor

    def classify(self, pooled: str, last: str, read: Reading) -> str:
        """Of pooled features (n, width, 1, 1): these as (n, width), or the logits (n, classes) of the layer `last`.

        The last layer is a 1 x 1 convolution: unlike a matrix product over the batch, it adds up every
        image in the same order whatever its batch-mates are.
        """
        if read == "logits":
            kernel = self.weights[f"{last}.weight"].astype(np.float32)[:, :, None, None]
            bias = self.weights[f"{last}.bias"].astype(np.float32)
            pooled = self.node("Conv", pooled, kernel, bias)
        return self.node("Flatten", pooled)

    def finish_from(
        self, start: str, tensor: str, name: str, side: int, width: int, pixels: type[np.generic]
    ) -> onnx.ModelProto:
        """The model from "images" to "responses" of layers that `start` from ImageNet's colours, these first."""
        inner = self.finish(tensor, name, Tensor(start, ("n", 3, side, side)), Tensor("out", ("n", width)))
        mean, std = IMAGENET_COLOURS["mean"], IMAGENET_COLOURS["std"]
        form = GraphInput(start, "out", side, channels_first=True, takes_bytes=False, mean=mean, std=std)
        return with_preprocessing(inner, form, pixels, width)

    def _norm(self, norm: str, part: str) -> Numbers:
        return self.weights[f"{norm}.{part}"].astype(np.float64)


def opset_of(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operators in a graph."""
    return max(int(item.version) for item in model.opset_import if item.domain in ("", "ai.onnx"))


def rename_output(graph: onnx.GraphProto) -> str:
    """A new name for what the graph gives as "responses", so that what is made of it can have that name."""
    name = f"before_{len(graph.node)}"
    for node in graph.node:
        node.output[:] = [name if output == "responses" else output for output in node.output]
    return name


def set_output(graph: onnx.GraphProto, builder: GraphBuilder, last: onnx.NodeProto, width: int) -> None:
    """Prolong a graph by nodes, the last of which gives "responses" (n, width)."""
    graph.node.extend([*builder.nodes, last])
    graph.initializer.extend(builder.constants)
    del graph.output[:]
    graph.output.append(Tensor("responses", ("n", width)).info)


def enclose(
    graph: onnx.GraphProto, front: GraphBuilder, back: GraphBuilder, source: Tensor, results: Sequence[Tensor]
) -> None:
    """Put nodes before and after those of a graph, between another input and other outputs."""
    inner = list(graph.node)
    del graph.node[:], graph.input[:], graph.output[:]
    graph.node.extend([*front.nodes, *inner, *back.nodes])
    graph.initializer.extend([*front.constants, *back.constants])
    graph.input.append(source.info)
    graph.output.extend(result.info for result in results)


PREFIX = "source/"  # set before every name of the inner graph, so that ours cannot clash with them


@dataclass(frozen=True)
class GraphInput:
    """What the inner graph takes and gives: tensor names, layout, element and normalisation."""

    tensor: str
    output: str
    side: int
    channels_first: bool
    takes_bytes: bool  # uint8 from 0 to 255, not normalised
    mean: Colour
    std: Colour
    flipped: bool = False  # whether it takes blue first


def with_preprocessing(
    inner: onnx.ModelProto, form: GraphInput, pixels: type[np.generic], width: int | None = None
) -> onnx.ModelProto:
    """The graph from "images" (n, side, side, 3) to "responses"; pixels as in `build_graph` of efficientnet.

    Where the inner graph takes bytes, float pixels are rounded to the nearest one and clipped.
    """
    model = compose.add_prefix(inner, PREFIX)
    front, back = GraphBuilder(prefix="pixels_"), GraphBuilder()
    front.rename(_preprocessed(front, form, pixels), PREFIX + form.tensor)
    back.rename(PREFIX + form.output, "responses")
    enclose(model.graph, front, back, image_tensor(form.side, pixels), [Tensor("responses", ("n", width))])
    return model


def _preprocessed(graph: GraphBuilder, form: GraphInput, pixels: type[np.generic]) -> str:
    """The pixels as the inner graph takes them."""
    tensor, white = "images", np.array([255], np.float32)
    if form.flipped:
        tensor = graph.node("Gather", tensor, np.array([2, 1, 0]), axis=3)
    if form.takes_bytes and pixels is not np.uint8:
        rounded = graph.node("Round", graph.node("Mul", tensor, white))
        clipped = graph.node("Min", graph.node("Max", rounded, np.zeros(1, np.float32)), white)
        tensor = graph.node("Cast", clipped, to=TensorProto.UINT8)
    if not form.takes_bytes:
        if pixels is np.uint8:
            tensor = graph.node("Div", graph.node("Cast", tensor, to=TensorProto.FLOAT), white)
        # Colours last: (3,) broadcasts along the channels of (n, side, side, 3).
        mean, std = np.array(form.mean, np.float32), np.array(form.std, np.float32)
        tensor = graph.node("Div", graph.node("Sub", tensor, mean), std)
    return graph.node("Transpose", tensor, perm=[0, 3, 1, 2]) if form.channels_first else tensor
