"""Logits, features and intermediate layers of one forward pass, side by side in the output of an ONNX graph.

They are found from the graph alone, so that it works for any network. The features are the input of the last linear
layer. Layers are pooled activations at three depths: those after spatial convolutions, or else the residual sums. In a
transformer these are the outputs of blocks under its final normalisation: the class token, and the mean of the patches.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isqrt

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

from yoro.discriminant.readings import FEATURES, LOGITS, Layout, Reading
from yoro.sources.graph_builder import GraphBuilder, opset_of, rename_output, set_output
from yoro.sources.runtime import open_session

DEPTHS = (1.0, 0.8, 0.69)  # of the way through the network: the farther the task from the source's, the earlier helps
FEWEST_LAYERS = 4  # with fewer there are no depths to tell apart
PREFIX = "reading_"

ACTIVATIONS = frozenset({"Relu", "Clip", "LeakyRelu", "PRelu", "HardSwish", "Gelu", "Elu", "Selu", "Mish", "Tanh"})
PASSED = frozenset({"BatchNormalization", "Add", "Identity", "Dropout"})  # between a convolution and its activation
AFTER_LOGITS = frozenset({"Identity", "Softmax", "LogSoftmax", "Flatten", "Reshape", "Squeeze", "Cast", "Dropout"})
POOLING = frozenset({"GlobalAveragePool", "ReduceMean", "Flatten", "Reshape", "Squeeze", "Identity", "Dropout"}) | {
    "QuantizeLinear",
    "DequantizeLinear",
}
STEPS = 8  # longest chain of nodes that is followed

ATTENTION = frozenset({"Softmax", "Attention", "MultiHeadAttention"})
PICKING = frozenset({"Gather", "Slice", "Squeeze", "Identity"})  # of one token
NORMALISING = frozenset({"ReduceMean", "Sub", "Pow", "Mul", "Add", "Sqrt", "Reciprocal", "Div", "Cast"})
MOST_EXTRA_TOKENS = 17  # a class token and 16 registers


@dataclass(frozen=True)
class LayerOutput:
    """A tensor of the graph to be read: its width, its number of axes, and whether it is never negative.

    With three axes it holds tokens, of which those from `start` are averaged, or one is taken, the class token. `norm`
    are the nodes of the normalisation that they pass before.
    """

    tensor: str
    width: int
    rank: int
    positive: bool
    start: int = 0
    takes_one: bool = False
    norm: tuple[onnx.NodeProto, ...] = ()


def with_layer_outputs(
    model: onnx.ModelProto, first: str = LOGITS, batch: int | None = None
) -> tuple[onnx.ModelProto, Layout]:
    """The graph whose "responses" hold the logits, the features and some layers side by side, and their layout.

    If nothing is found besides the logits, these are all there is. `first` says what the graph gives by itself:
    logits, or features if it has no classifier. `batch` is the number of images that it takes, None for any.
    """
    result = onnx.ModelProto()
    result.CopyFrom(model)
    layers = _Graph(model, batch).layers(first)
    own = model.graph.output[0].type.tensor_type.shape.dim[1].dim_value
    head = Reading(first, own, "plain" if first == LOGITS else "unit")
    read = (Reading(name, layer.width, "root" if layer.positive else "unit") for name, layer in layers.items())
    layout = Layout((head, *read))
    if not layers:
        return result, layout
    builder, opset = GraphBuilder(prefix=PREFIX), opset_of(model)
    parts = [rename_output(result.graph), *(_pooled(builder, layer, opset) for layer in layers.values())]
    set_output(result.graph, builder, helper.make_node("Concat", parts, ["responses"], axis=1), layout.width)
    return result, layout


def with_pooled_output(model: onnx.ModelProto, shape: Sequence[int]) -> onnx.ModelProto:
    """The graph with its output pooled to (n, width): the class token, else the mean over positions.

    The `shape` of the output is (n, tokens, width) or (n, width, height, width).
    """
    rank = len(shape)
    tokens = LayerOutput(rename_output(model.graph), shape[2] if rank == 3 else shape[1], rank, False)
    builder = GraphBuilder(prefix=f"{PREFIX}pooled_")
    chosen = next(_token_readings(tokens, shape[1]))[1] if rank == 3 else tokens
    pooled = _pooled(builder, chosen, opset_of(model))
    set_output(model.graph, builder, helper.make_node("Identity", [pooled], ["responses"]), tokens.width)
    return model


def _token_readings(layer: LayerOutput, tokens: int) -> Iterator[tuple[str, LayerOutput]]:
    """The class token where there is one, and the mean of the patches, by name.

    Patches form a square, before which stand the class token and registers, which come in fours.
    """
    extra = tokens - isqrt(tokens) ** 2
    if extra > MOST_EXTRA_TOKENS:  # no patches of an image
        extra = 0
    if extra % 4:
        yield "class", replace(layer, takes_one=True)
    yield "patches", replace(layer, start=extra)


def _pooled(builder: GraphBuilder, layer: LayerOutput, opset: int) -> str:
    """The class token, or the mean over positions, (n, width)."""
    if layer.rank == 4:
        return builder.node("Flatten", builder.node("GlobalAveragePool", layer.tensor))
    if layer.rank == 2:
        return layer.tensor

    def whole(*numbers: int) -> str:
        return builder.constant(np.array(numbers, np.int64))

    if layer.takes_one:
        first = builder.constant(np.array(0, np.int64))
        return _normalised(builder, builder.node("Gather", layer.tensor, first, axis=1), layer.norm)
    start, end = whole(layer.start), whole(2**31 - 1)
    tokens = builder.node("Slice", layer.tensor, start, end, whole(1)) if layer.start else layer.tensor
    tokens = _normalised(builder, tokens, layer.norm)
    if opset >= 18:
        return builder.node("ReduceMean", tokens, whole(1), keepdims=0)
    return builder.node("ReduceMean", tokens, axes=[1], keepdims=0)


def _normalised(builder: GraphBuilder, tensor: str, norm: Iterable[onnx.NodeProto]) -> str:
    """The tensor under a copy of a normalisation, whose first input it is."""
    names: dict[str, str] = {}
    for node in norm:
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        names = names or {node.input[0]: tensor}
        copy.input[:] = [names.get(name, name) for name in node.input]
        copy.output[:] = [f"{builder.prefix}norm_{next(builder.names)}" for _ in node.output]
        names |= dict(zip(node.output, copy.output, strict=True))
        copy.name = copy.output[0]
        builder.nodes.append(copy)
        tensor = copy.output[0]
    return tensor


class _Graph:
    """A graph with the makers and users of its tensors."""

    def __init__(self, model: onnx.ModelProto, batch: int | None) -> None:
        self._model, self._batch = model, batch
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

    def layers(self, first: str) -> dict[str, LayerOutput]:
        """What is read besides the output itself, which is `first`, by name."""
        found: dict[str, LayerOutput] = {}
        behind = self._features() if first == LOGITS else None
        if behind is not None:
            found[FEATURES] = behind
        taken = {behind.tensor, self._unpooled(behind.tensor)} if behind is not None else set[str]()
        every = self._activations()
        if len(every) >= FEWEST_LAYERS and every[-1].rank == 3:
            return found | self._token_layers(self._block_ends(every), behind.tensor if behind else "responses")
        way = [layer for layer in every if layer.tensor not in taken]
        if len(way) < FEWEST_LAYERS:
            return found
        for depth, layer in _at_depths(way):
            if all(layer.tensor != other.tensor for other in found.values()):
                found[f"layer-{depth}"] = layer
        return found

    def _token_layers(self, blocks: Sequence[LayerOutput], features: str) -> dict[str, LayerOutput]:
        """Tokens at the end of some blocks of a transformer, except those that are the features already."""
        norm = self._norm_after(blocks[-1].tensor)
        last = norm[-1].output[0] if norm else blocks[-1].tensor
        known = self._known_tokens(features, last)
        found: dict[str, LayerOutput] = {}
        for depth, block in _at_depths(blocks):
            fits = block.width == blocks[-1].width  # an earlier stage may be narrower
            for name, layer in _token_readings(replace(block, norm=norm if fits else ()), self._length(block.tensor)):
                if depth < 100 or name != known:
                    found[f"{name}-{depth}"] = layer
        return found

    def _length(self, tensor: str) -> int:
        """How many tokens there are; 0 if that is not known."""
        return ((self.shapes.get(tensor) or ())[1:2] or (0,))[0] or 0

    def _known_tokens(self, features: str, last: str) -> str:
        """Which tokens the features are, by the nodes between them and the last tokens of all."""
        between = set[str]()
        for _ in range(STEPS):
            node = self.makers.get(features)
            if features == last:
                return "patches" if "ReduceMean" in between else "class" if between & PICKING else ""
            if node is None or node.op_type not in POOLING | PICKING:
                break
            between.add(node.op_type)
            features = node.input[0]
        return ""

    def _block_ends(self, sums: Sequence[LayerOutput]) -> list[LayerOutput]:
        """The last sum of each block: what follows it begins with attention; without any attention, all sums."""
        places = {name: i for i, node in enumerate(self.nodes) for name in node.output}
        attention = [i for i, node in enumerate(self.nodes) if node.op_type in ATTENTION]
        ends = [places[layer.tensor] for layer in sums]
        after = [
            any(start < i < end for i in attention)
            for start, end in zip(ends, [*ends[1:], len(self.nodes)], strict=True)
        ]
        return [sums[i] for i in range(len(sums)) if after[i] or i == len(sums) - 1 or not any(after)]

    def _norm_after(self, tensor: str) -> tuple[onnx.NodeProto, ...]:
        """The nodes that normalise a tensor, or the token that is picked from it first."""
        for _ in range(STEPS):
            users = self.users[tensor]
            whole = [node for node in users if node.op_type == "LayerNormalization" and self._over_width(node)]
            if whole:
                return (whole[0],)
            steps = self._steps_of_norm(tensor)
            if steps:
                return steps
            picked = [node for node in users if node.op_type in PICKING]
            if len(picked) != 1:
                break
            tensor = picked[0].output[0]
        return ()

    def _steps_of_norm(self, tensor: str) -> tuple[onnx.NodeProto, ...]:
        """A normalisation that is written as arithmetic, as it is before opset 17."""
        made, steps = {tensor}, list[onnx.NodeProto]()
        for node in self.nodes:
            inputs = {name for name in node.input if not self._is_constant(name)}
            if inputs and inputs <= made and node.op_type in NORMALISING and self._over_width(node):
                made |= set(node.output)
                steps.append(node)
        means = any(node.op_type == "ReduceMean" for node in steps)
        return tuple(steps) if means and steps[0].input[0] == tensor else ()

    def _over_width(self, node: onnx.NodeProto) -> bool:
        """Whether a node takes means over the last axis alone, or none."""
        if node.op_type not in ("ReduceMean", "LayerNormalization"):
            return True
        axes = [axis for item in node.attribute if item.name == "axes" for axis in item.ints]
        axes += [item.i for item in node.attribute if item.name == "axis"]
        if len(node.input) > 1 and node.op_type == "ReduceMean":
            values = self._value(node.input[1])
            axes = [] if values is None else values.reshape(-1).tolist()
        return axes == [-1] or (not axes and node.op_type == "LayerNormalization")

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
        if len(spatial) >= FEWEST_LAYERS:
            return spatial
        sums = [node for node in self.nodes if node.op_type == "Add" and not any(map(self._is_constant, node.input))]
        self._learn_shapes({name for node in sums for name in (*node.input, *node.output)})
        found = list(self._residual(sums))
        return [layer for layer in found if layer.rank == found[-1].rank]  # others are inside of a block

    def _learn_shapes(self, names: set[str]) -> None:
        """Shapes that cannot be inferred, from a grey image."""
        missing = sorted(name for name in names if None in (self.shapes.get(name) or (None, None))[1:])
        if not missing:
            return
        model = onnx.ModelProto()
        model.CopyFrom(self._model)
        model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in missing)
        images = model.graph.input[0].type.tensor_type
        side = images.shape.dim[1].dim_value
        dtype = helper.tensor_dtype_to_np_dtype(images.elem_type)
        grey = np.ones((self._batch or 2, side, side, 3), dtype)  # two, to tell an axis of images from one of length 1
        outputs = open_session(model, None, "this graph").run(missing, {model.graph.input[0].name: grey})
        for name, output in zip(missing, outputs, strict=True):
            first = [None] if output.shape[:1] == grey.shape[:1] else output.shape[:1]
            self.shapes[name] = (*first, *output.shape[1:])

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

    def _residual(self, sums: Sequence[onnx.NodeProto]) -> Iterator[LayerOutput]:
        for node in sums:
            shapes = [self.shapes.get(name) for name in node.input]
            layer, shape = self._output(node.output[0], False), shapes[0]
            if layer is None or layer.rank not in (3, 4) or shape is None or shape != shapes[1]:
                continue
            if shape[0] in (None, self._batch):  # the axis of images comes first
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
        low = self._value(node.input[1]) if node.op_type == "Clip" and len(node.input) > 1 else None
        return low is not None and bool((low >= 0).all())

    def _value(self, name: str) -> npt.NDArray[np.floating] | npt.NDArray[np.integer] | None:
        """The value of a constant; None if it is none, or is computed."""
        maker, tensor = self.makers.get(name), self.constants.get(name)
        if tensor is None and maker is not None:
            tensor = next((item.t for item in maker.attribute if item.name == "value"), None)
        return None if tensor is None else numpy_helper.to_array(tensor)

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


def _at_depths(way: Sequence[LayerOutput]) -> Iterator[tuple[int, LayerOutput]]:
    """Layers at some depths, in percent of the way through the network, none twice."""
    seen = set[int]()
    for depth in DEPTHS:
        place = round(depth * (len(way) - 1))
        if place not in seen:
            seen.add(place)
            yield round(100 * depth), way[place]


def _shape(value: onnx.ValueInfoProto) -> tuple[int | None, ...] | None:
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return None
    return tuple(dim.dim_value if dim.dim_value > 0 else None for dim in tensor.shape.dim)
