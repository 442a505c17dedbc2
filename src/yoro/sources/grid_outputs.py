"""Where in the image something is: activations averaged over the cells of a coarse grid, as further readings.

They are taken at the ends of blocks, before an activation, where MobileNets and EfficientNets have few channels: a mean
for every cell is as wide there as one mean of all positions elsewhere. A network without such layers has no grids.
"""

from __future__ import annotations

from collections import defaultdict

import onnx
from onnx import helper

from yoro.discriminant.readings import FEATURES, Layout, Reading
from yoro.sources.graph_builder import GraphBuilder, rename_output, set_output

GRIDS = ((0.69, 4), (0.93, 2))  # how far through the network, and cells along a side
PREFIX = "grid_"
LINEAR = frozenset({"Conv", "Add"})  # what a block ends with; a batch norm is folded into the convolution
ROUNDING = frozenset({"QuantizeLinear", "DequantizeLinear"})


def with_grid_outputs(
    model: onnx.ModelProto, layout: Layout, *, instead: bool = False
) -> tuple[onnx.ModelProto, Layout]:
    """The graph, which is changed, with means over the cells of grids beside its "responses", and their layout.

    They stand `instead` of all other readings but the features, where that is wanted.
    """
    blocks, builder, found = block_ends(model), GraphBuilder(prefix=PREFIX), []
    parts = []
    for depth, cells in GRIDS if blocks else ():
        tensor, channels, side = blocks[round(depth * (len(blocks) - 1))]
        if side >= cells:
            step = side // cells  # neighbouring cells overlap where the side is no multiple of them
            kernel = side - (cells - 1) * step
            pooled = builder.node("AveragePool", tensor, kernel_shape=[kernel, kernel], strides=[step, step])
            parts.append(builder.node("Flatten", pooled))
            found.append(Reading(f"grid-{round(100 * depth)}", channels * cells**2, "unit"))
    if not found:
        return model, layout
    kept = layout.places(FEATURES) if instead else []
    if kept:
        last = next(node for node in model.graph.node if "responses" in node.output)  # it joins the readings
        parts = [*(last.input[place] for place in kept), *parts]
        model.graph.node.remove(last)
    else:
        parts.insert(0, rename_output(model.graph))
    whole = Layout((*(layout.readings[place] for place in kept or range(len(layout.readings))), *found), layout.views)
    set_output(model.graph, builder, helper.make_node("Concat", parts, ["responses"], axis=1), whole.width)
    return model, whole


def block_ends(model: onnx.ModelProto) -> list[tuple[str, int, int]]:
    """Tensors that one convolution begins with and no activation has made, with their channels and side, in order."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    shapes = {value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in graph.value_info}
    users: dict[str, set[str]] = defaultdict(set)
    rounded = {}
    for node in graph.node:
        for name in node.input:
            users[name].add(node.op_type)
        if node.op_type in ROUNDING:
            rounded[node.input[0]] = node.output[0]
    ends = []
    for node in graph.node:
        tensor = node.output[0]
        while node.op_type in LINEAR and users[tensor] <= ROUNDING and tensor in rounded:
            tensor = rounded[tensor]
        shape = shapes.get(tensor, [])
        if node.op_type in LINEAR and "Conv" in users[tensor] <= LINEAR and len(shape) == 4:
            _, channels, height, width = shape
            if channels > 0 and height == width > 0:
                ends.append((tensor, channels, width))
    return ends
