"""The out-of-distribution score as a further output of an exported graph."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from yoro.model.onnx_export import Chain
from yoro.sources.graph_builder import opset_of
from yoro.trust.detector_choice import CENTRED, HELLINGER
from yoro.trust.out_of_distribution import Distances, Metric, OutOfDistributionScore

OUTPUT = "strangeness"
RESPONSES = "responses"  # the tensor that the graph's mapping takes, in float64


def add_strangeness(model: onnx.ModelProto, measure: OutOfDistributionScore) -> None:
    """Give the graph an output "strangeness" (n,): the out-of-distribution score.

    The bases are kept in float32, which halves what is downloaded; sums are in float64.
    """
    chain, sums = Chain(RESPONSES), []
    for i, term in enumerate(measure.terms):
        _add_term(chain, term, f"term{i}", opset_of(model))
        sums.append(chain.tensor)
    chain.join("Sum", "terms_sum", *sums)
    chain.then("Reshape", "terms_flat", np.array([-1], np.int64))
    chain.then("Cast", OUTPUT, to=TensorProto.FLOAT)
    model.graph.node.extend(chain.nodes)
    model.graph.initializer.extend(chain.constants)
    model.graph.output.append(helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["n"]))


def _add_term(chain: Chain, term: Distances, name: str, opset: int) -> None:
    """One term (n, 1) of the score: `Distances.__call__` in operators."""
    chain.tensor = RESPONSES
    chain.then("Gather", f"{name}_measured", np.arange(term.part.start, term.part.stop, dtype=np.int64), axis=1)
    _transform(chain, term, name)
    mine = chain.tensor
    _distances(chain, mine, term.within, f"{name}_within")
    if opset >= 18:
        chain.then("ReduceMin", f"{name}_nearest", np.array([1], np.int64))
    else:  # there the axes were an attribute
        chain.then("ReduceMin", f"{name}_nearest", axes=[1])
    _distances(chain, mine, term.whole, f"{name}_whole")
    chain.join("Sub", f"{name}_relative", f"{name}_nearest", chain.tensor)
    chain.join("Concat", f"{name}_pair", f"{name}_nearest", f"{name}_relative", axis=1)
    chain.then("Sub", f"{name}_pair_centred", term.centres)
    chain.then("MatMul", f"{name}_pair_sum", (np.array(term.weights) / term.spreads)[:, None])


def _transform(chain: Chain, term: Distances, name: str) -> None:
    """`transformed` in operators."""
    width = term.part.stop - term.part.start
    mine = chain.tensor
    if term.transform == HELLINGER:
        chain.then("Softmax", f"{name}_shares", axis=1)
        chain.then("Sqrt", f"{name}_roots")
    elif term.transform == CENTRED:
        chain.then("MatMul", f"{name}_mean", np.full((width, 1), 1.0 / width))
        chain.join("Sub", f"{name}_level", mine, chain.tensor)
        chain.join("Mul", f"{name}_level_squares", f"{name}_level", f"{name}_level")
        chain.then("MatMul", f"{name}_square", np.ones((width, 1)))
        chain.then("Max", f"{name}_positive", np.array([np.finfo(np.float64).tiny]))
        chain.then("Sqrt", f"{name}_length")
        chain.join("Div", f"{name}_unit", f"{name}_level", chain.tensor)


def _distances(chain: Chain, mine: str, metric: Metric, name: str) -> None:
    """Squared distances (n, known classes): `Metric.__call__` in operators."""
    statistics, spectrum = metric.statistics, metric.spectrum
    known = statistics.counts > 0
    centre = statistics.counts @ statistics.means / statistics.total
    values, delta = spectrum.regularised(metric.rho)
    basis = (spectrum.basis / np.sqrt(values)).astype(np.float32)  # (width, rank)
    means = (statistics.means[known] - centre) @ basis.astype(np.float64)
    chain.tensor = mine
    chain.then("Sub", f"{name}_moved", centre)
    chain.constants.append(numpy_helper.from_array(basis, f"{name}_basis"))
    chain.join("Cast", f"{name}_wide_basis", f"{name}_basis", to=TensorProto.DOUBLE)
    chain.join("MatMul", f"{name}_rows", f"{name}_moved", f"{name}_wide_basis")
    chain.then("MatMul", f"{name}_products", -2.0 * means.T)
    chain.then("Add", f"{name}_crossed", (means**2).sum(axis=1))
    chain.join("Mul", f"{name}_squares", f"{name}_rows", f"{name}_rows")
    chain.then("MatMul", f"{name}_length", np.ones((len(values), 1)))
    chain.join("Add", f"{name}_distances", f"{name}_crossed", f"{name}_length")
    if spectrum.target == "identity" and len(values) < len(centre):  # what lies outside the span
        outside = metric.rho * spectrum.trace / spectrum.width + delta
        chain.tensor = f"{name}_squares"
        chain.then("MatMul", f"{name}_inside", values[:, None])
        chain.join("Mul", f"{name}_moved_squares", f"{name}_moved", f"{name}_moved")
        chain.then("MatMul", f"{name}_moved_length", np.ones((len(centre), 1)))
        chain.join("Sub", f"{name}_signed_rest", f"{name}_moved_length", f"{name}_inside")
        chain.then("Max", f"{name}_rest", np.zeros(1))
        chain.then("Div", f"{name}_scaled_rest", np.array([outside if outside > 0 else 1.0]))
        chain.join("Add", f"{name}_all_distances", f"{name}_distances", chain.tensor)
    chain.then("Mul", f"{name}_scaled", np.array([metric.scale]))
