"""The out-of-distribution score as a further output of an exported graph."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto

from yoro.model.onnx_export import RESPONSES, unit_rows
from yoro.sources.graph_builder import GraphBuilder, Tensor, opset_of
from yoro.trust.detector_choice import CENTRED, HELLINGER
from yoro.trust.out_of_distribution import Distances, Metric, OutOfDistributionScore

OUTPUT = "strangeness"


def add_strangeness(model: onnx.ModelProto, measure: OutOfDistributionScore) -> None:
    """Give the graph an output "strangeness" (n,): the out-of-distribution score.

    The bases are kept in float32, which halves what is downloaded; sums are in float64.
    """
    builder, opset = GraphBuilder(prefix="strange_"), opset_of(model)
    whole = builder.node("Sum", *(_term(builder, term, opset) for term in measure.terms))
    flat = builder.node("Reshape", whole, np.array([-1], np.int64))
    builder.rename(builder.node("Cast", flat, to=TensorProto.FLOAT), OUTPUT)
    model.graph.node.extend(builder.nodes)
    model.graph.initializer.extend(builder.constants)
    model.graph.output.append(Tensor(OUTPUT, ("n",)).info)


def _term(builder: GraphBuilder, term: Distances, opset: int) -> str:
    """One term (n, 1) of the score: `Distances.__call__` in operators."""
    columns = np.arange(term.part.start, term.part.stop, dtype=np.int64)
    mine = _transformed(builder, builder.node("Gather", RESPONSES, columns, axis=1), term, len(columns))
    within = _distances(builder, mine, term.within)
    if opset >= 18:
        nearest = builder.node("ReduceMin", within, np.array([1], np.int64))
    else:  # there the axes were an attribute
        nearest = builder.node("ReduceMin", within, axes=[1])
    relative = builder.node("Sub", nearest, _distances(builder, mine, term.whole))
    pair = builder.node("Sub", builder.node("Concat", nearest, relative, axis=1), term.centres)
    return builder.node("MatMul", pair, (np.array(term.weights) / term.spreads)[:, None])


def _transformed(builder: GraphBuilder, mine: str, term: Distances, width: int) -> str:
    """`transformed` in operators."""
    if term.transform == HELLINGER:
        return builder.node("Sqrt", builder.node("Softmax", mine, axis=1))
    if term.transform == CENTRED:
        level = builder.node("Sub", mine, builder.node("MatMul", mine, np.full((width, 1), 1.0 / width)))
        return unit_rows(builder, level, width, np.float64)
    return mine


def _distances(builder: GraphBuilder, mine: str, metric: Metric) -> str:
    """Squared distances (n, known classes): `Metric.__call__` in operators."""
    statistics, spectrum = metric.statistics, metric.spectrum
    known = statistics.counts > 0
    centre = statistics.counts @ statistics.means / statistics.total
    values, delta = spectrum.regularised(metric.rho)
    basis = (spectrum.basis / np.sqrt(values)).astype(np.float32)  # (width, rank)
    means = (statistics.means[known] - centre) @ basis.astype(np.float64)
    moved = builder.node("Sub", mine, centre)
    rows = builder.node("MatMul", moved, builder.node("Cast", basis, to=TensorProto.DOUBLE))
    products = builder.node("MatMul", rows, -2.0 * means.T)
    squares = builder.node("Mul", rows, rows)
    lengths = builder.node("MatMul", squares, np.ones((len(values), 1)))
    distances = builder.node("Add", builder.node("Add", products, (means**2).sum(axis=1)), lengths)
    if spectrum.target == "identity" and len(values) < len(centre):  # what lies outside the span
        outside = metric.rho * spectrum.trace / spectrum.width + delta
        inside = builder.node("MatMul", squares, values[:, None])
        whole = builder.node("MatMul", builder.node("Mul", moved, moved), np.ones((len(centre), 1)))
        rest = builder.node("Max", builder.node("Sub", whole, inside), np.zeros(1))
        scaled = builder.node("Div", rest, np.array([outside if outside > 0 else 1.0]))
        distances = builder.node("Add", distances, scaled)
    return builder.node("Mul", distances, np.array([metric.scale]))
