"""ONNX graphs under construction."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper

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
