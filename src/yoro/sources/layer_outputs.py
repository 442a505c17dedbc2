"""Logits, features and intermediate layers of one forward pass, side by side in the output of an ONNX graph.

They are found from the graph alone, so that it works for any network. The features are the input of the last linear
layer. Layers are pooled activations at three depths: those after spatial convolutions, or else the residual sums.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from yoro.discriminant.readings import FEATURES, LOGITS, Layout, Reading
from yoro.sources.graph_builder import GraphBuilder, opset_of

DEPTHS = (1.0, 0.8, 0.69)  # of the way through the network: the farther the task from the source's, the earlier helps
FEWEST_LAYERS = 4  # with fewer there are no depths to tell apart
PREFIX = "reading_"

ACTIVATIONS = frozenset({"Relu", "Clip", "LeakyRelu", "PRelu", "HardSwish", "Gelu", "Elu", "Selu", "Mish", "Tanh"})
PASSED = frozenset({"BatchNormalization", "Add", "Identity", "Dropout"})  # between a convolution and its activation
AFTER_LOGITS = frozenset({"Identity", "Softmax", "LogSoftmax", "Flatten", "Reshape", "Squeeze", "Cast", "Dropout"})
POOLING = frozenset({"GlobalAveragePool", "ReduceMean", "Flatten", "Reshape", "Squeeze", "Identity", "Dropout"})
STEPS = 8  # longest chain of nodes that is followed


@dataclass(frozen=True)
class LayerOutput:
    """A tensor of the graph to be read: its width, its number of axes, and whether it is never negative."""

    tensor: str
    width: int
    rank: int
    positive: bool


def with_layer_outputs(model: onnx.ModelProto) -> tuple[onnx.ModelProto, Layout]:
    """The graph whose "responses" hold the logits, the features and some layers side by side, and their layout.

    If nothing is found besides the logits, these are all there is.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    layers = _Graph(model).layers()
    own = model.graph.output[0].type.tensor_type.shape.dim[1].dim_value
    layout = Layout((Reading(LOGITS, own), *(_reading(name, layer) for name, layer in layers.items())))
    if not layers:
        return result, layout
    graph, builder = result.graph, GraphBuilder(prefix=PREFIX)
    first = f"{PREFIX}{LOGITS}"
    for node in graph.node:
        node.output[:] = [first if name == "responses" else name for name in node.output]
    opset = opset_of(model)
    parts = [first, *(_pooled(builder, layer, opset) for layer in layers.values())]
    builder.nodes.append(helper.make_node("Concat", parts, ["responses"], name=f"{PREFIX}all", axis=1))
    graph.node.extend(builder.nodes)
    graph.initializer.extend(builder.constants)
    del graph.output[:]
    graph.output.append(helper.make_tensor_value_info("responses", TensorProto.FLOAT, ["n", layout.width]))
    return result, layout


def _reading(name: str, layer: LayerOutput) -> Reading:
    return Reading(name, layer.width, "root" if layer.positive else "unit")


def _pooled(builder: GraphBuilder, layer: LayerOutput, opset: int) -> str:
    """The mean over positions, (n, width)."""
    if layer.rank == 4:
        return builder.node("Flatten", builder.node("GlobalAveragePool", layer.tensor))
    if layer.rank == 2:
        return layer.tensor
    if opset >= 18:
        return builder.node("ReduceMean", layer.tensor, builder.constant(np.array([1], np.int64)), keepdims=0)
    return builder.node("ReduceMean", layer.tensor, axes=[1], keepdims=0)


class _Graph:
    """A graph with the makers and users of its tensors."""

    def __init__(self, model: onnx.ModelProto) -> None:
        graph = onnx.shape_inference.infer_shapes(model).graph
        self.nodes = list(graph.node)
        self.makers = {name: node for node in self.nodes for name in node.output}
        self.users: dict[str, list[onnx.NodeProto]] = defaultdict(list)
        for node in self.nodes:
            for name in node.input:
                self.users[name].append(node)
        self.constants = {tensor.name: tensor for tensor in graph.initializer}
        values = (*graph.value_info, *graph.input, *graph.output)
        self.shapes = {value.name: _shape(value) for value in values}

    def layers(self) -> dict[str, LayerOutput]:
        """What is read besides the logits, by name."""
        found: dict[str, LayerOutput] = {}
        behind = self._features()
        if behind is not None:
            found[FEATURES] = behind
        taken = {behind.tensor, self._unpooled(behind.tensor)} if behind is not None else set[str]()
        way = [layer for layer in self._activations() if layer.tensor not in taken]
        if len(way) >= FEWEST_LAYERS:
            for depth in DEPTHS:
                layer = way[round(depth * (len(way) - 1))]
                if all(layer.tensor != other.tensor for other in found.values()):
                    found[f"layer-{round(100 * depth)}"] = layer
        return found

    def _features(self) -> LayerOutput | None:
        """The input of the last linear layer."""
        tensor = self._back("responses", AFTER_LOGITS | {"Add", "GlobalAveragePool", "ReduceMean"})
        node = self.makers.get(tensor)
        if node is None or node.op_type not in ("Gemm", "MatMul", "Conv") or not self._is_constant(node.input[1]):
            return None
        return self._output(node.input[0], self._cannot_be_negative(self._unpooled(node.input[0])))

    def _unpooled(self, tensor: str) -> str:
        return self._back(tensor, POOLING)

    def _back(self, tensor: str, through: frozenset[str]) -> str:
        """The tensor that a chain of such nodes starts from."""
        for _ in range(STEPS):
            node = self.makers.get(tensor)
            if node is None or node.op_type not in through:
                break
            inputs = [name for name in node.input if not self._is_constant(name)]
            if len(inputs) != 1:
                break
            tensor = inputs[0]
        return tensor

    def _activations(self) -> list[LayerOutput]:
        """Activations through the network, in order."""
        spatial = list(self._convolved())
        return spatial if len(spatial) >= FEWEST_LAYERS else list(self._residual())

    def _convolved(self) -> Iterator[LayerOutput]:
        seen = set()
        for node in self.nodes:
            if node.op_type != "Conv" or not any(size > 1 for size in self._kernel(node)):
                continue
            end = self._activated(node.output[0])
            if end is not None and end not in seen:
                seen.add(end)
                layer = self._output(end, self._cannot_be_negative(end))
                if layer is not None and layer.rank == 4:
                    yield layer

    def _kernel(self, node: onnx.NodeProto) -> tuple[int, ...]:
        """Size of a convolution's kernel along each axis."""
        if node.input[1] in self.constants:
            return tuple(self.constants[node.input[1]].dims[2:])
        return tuple(size or 1 for size in (self.shapes.get(node.input[1]) or ())[2:])

    def _residual(self) -> Iterator[LayerOutput]:
        for node in self.nodes:
            if node.op_type != "Add" or any(self._is_constant(name) for name in node.input):
                continue
            shapes = [self.shapes.get(name) for name in node.input]
            layer = self._output(node.output[0], False)
            if layer is not None and layer.rank in (3, 4) and shapes[0] is not None and shapes[0] == shapes[1]:
                yield layer

    def _activated(self, tensor: str) -> str | None:
        """The activation after a convolution, past normalisation and the like."""
        for _ in range(STEPS):
            users = self.users[tensor]
            for user in users:
                if user.op_type in ACTIVATIONS:
                    return str(user.output[0])
                gated = [
                    other for other in self.users[user.output[0]] if other.op_type == "Mul" and tensor in other.input
                ]
                if user.op_type in ("Sigmoid", "HardSigmoid") and gated:
                    return str(gated[0].output[0])
            if len(users) != 1 or users[0].op_type not in PASSED:
                return None
            tensor = users[0].output[0]
        return None

    def _cannot_be_negative(self, tensor: str) -> bool:
        node = self.makers.get(tensor)
        if node is None:
            return False
        if node.op_type in ("Relu", "Sigmoid", "Softmax"):
            return True
        low = self.constants.get(node.input[1]) if node.op_type == "Clip" and len(node.input) > 1 else None
        if low is None and node.op_type == "Clip" and len(node.input) > 1:
            maker = self.makers.get(node.input[1])
            values = [item.t for item in maker.attribute if item.name == "value"] if maker is not None else []
            low = values[0] if values else None
        return low is not None and bool((numpy_helper.to_array(low) >= 0).all())

    def _is_constant(self, name: str) -> bool:
        maker = self.makers.get(name)
        if maker is not None and maker.op_type in ("Identity", "Transpose", "DequantizeLinear", "Cast"):
            return self._is_constant(maker.input[0])
        return name in self.constants or (maker is not None and maker.op_type == "Constant")

    def _output(self, tensor: str, positive: bool) -> LayerOutput | None:
        shape = self.shapes.get(tensor)
        if shape is None or len(shape) not in (2, 3, 4):
            return None
        width = shape[2] if len(shape) == 3 else shape[1]
        return None if width is None or width < 2 else LayerOutput(tensor, width, len(shape), positive)


def _shape(value: onnx.ValueInfoProto) -> tuple[int | None, ...] | None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.dim_value > 0 else None for dim in tensor.shape.dim)
