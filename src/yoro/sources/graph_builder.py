"""ONNX graphs under construction, and how pixels enter them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, compose, helper, numpy_helper

from yoro.sources.contract import Colour

OPSET = 17
IR_VERSION = 8  # the one of opset 17, so that older runtimes read the graph too

Array = npt.NDArray[np.generic]


@dataclass
class GraphBuilder:
    """Nodes and constants; every method returns the name of its output."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    names: count[int] = field(default_factory=count)
    prefix: str = ""  # before every name, where a graph is prolonged that has names of its own

    def constant(self, values: Array) -> str:
        """A constant tensor."""
        name = f"{self.prefix}constant_{next(self.names)}"
        self.constants.append(numpy_helper.from_array(values.copy(order="C"), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: object) -> str:
        """One operator."""
        name = f"{self.prefix}{kind.lower()}_{next(self.names)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))  # type: ignore[arg-type]
        return name

    def finish(
        self, tensor: str, name: str, source: onnx.ValueInfoProto, result: onnx.ValueInfoProto
    ) -> onnx.ModelProto:
        """The model from `source` to `tensor`, which is given the name of `result`."""
        self.nodes.append(helper.make_node("Identity", [tensor], [result.name]))
        graph = helper.make_graph(self.nodes, name, [source], [result], self.constants)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="yoro")


PREFIX = "source/"  # set before every name of the inner graph, so that ours cannot clash with them


@dataclass(frozen=True)
class Entrance:
    """What the inner graph takes and gives: tensor names, layout, element and normalisation."""

    tensor: str
    output: str
    side: int
    channels_first: bool
    takes_bytes: bool  # uint8 from 0 to 255, not normalised
    mean: Colour
    std: Colour


def with_entrance(
    inner: onnx.ModelProto, entrance: Entrance, pixels: type[np.generic], width: int | None = None
) -> onnx.ModelProto:
    """The graph from "images" (n, side, side, 3) to "responses"; pixels as in `build_graph` of efficientnet.

    Where the inner graph takes bytes, float pixels are rounded to the nearest one and clipped.
    """
    model = compose.add_prefix(inner, PREFIX)
    graph = model.graph
    nodes, constants = _front(entrance, pixels)
    nodes[-1].output[0] = PREFIX + entrance.tensor
    inner_nodes = list(graph.node)
    del graph.node[:], graph.input[:], graph.output[:]
    graph.node.extend(nodes)
    graph.node.extend(inner_nodes)
    graph.node.append(helper.make_node("Identity", [PREFIX + entrance.output], ["responses"]))
    graph.initializer.extend(constants)
    element = TensorProto.UINT8 if pixels is np.uint8 else TensorProto.FLOAT
    graph.input.append(helper.make_tensor_value_info("images", element, ["n", entrance.side, entrance.side, 3]))
    graph.output.append(helper.make_tensor_value_info("responses", TensorProto.FLOAT, ["n", width]))
    return model


def _front(entrance: Entrance, pixels: type[np.generic]) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    """Nodes from "images" to the inner input, whose name the last one still lacks."""
    steps: list[tuple[str, npt.NDArray[np.generic] | None, dict[str, object]]] = []
    if entrance.takes_bytes and pixels is not np.uint8:
        steps += [("Mul", _row(255), {}), ("Round", None, {})]
        steps += [("Max", _row(0), {}), ("Min", _row(255), {}), ("Cast", None, {"to": TensorProto.UINT8})]
    if not entrance.takes_bytes:
        if pixels is np.uint8:
            steps += [("Cast", None, {"to": TensorProto.FLOAT}), ("Div", _row(255), {})]
        # Colours last: (3,) broadcasts along the channels of (n, side, side, 3).
        steps += [("Sub", _row(*entrance.mean), {}), ("Div", _row(*entrance.std), {})]
    if entrance.channels_first:
        steps.append(("Transpose", None, {"perm": [0, 3, 1, 2]}))
    nodes, constants, tensor = [], [], "images"
    for index, (kind, operand, attributes) in enumerate(steps or [("Identity", None, {})]):
        inputs = [tensor]
        if operand is not None:
            constants.append(numpy_helper.from_array(operand, f"pixel_constant_{index}"))
            inputs.append(f"pixel_constant_{index}")
        tensor = f"pixels_{index}"
        nodes.append(helper.make_node(kind, inputs, [tensor], **attributes))  # type: ignore[arg-type]
    return nodes, constants


def _row(*values: float) -> npt.NDArray[np.float32]:
    return np.array(values, np.float32)
