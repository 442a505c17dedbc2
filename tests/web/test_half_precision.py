from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from yoro.model.onnx_export import run_graph
from yoro.web.page_export import halve_weights

WIDTH = 64


def graph_with(weights: np.ndarray) -> onnx.ModelProto:
    """Images (n, 64) times a matrix."""
    nodes = [
        helper.make_node("Cast", ["images"], ["pixels"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["pixels", "weights"], ["found"]),
    ]
    given = helper.make_tensor_value_info("images", TensorProto.UINT8, ["n", WIDTH])
    found = helper.make_tensor_value_info("found", TensorProto.FLOAT, ["n", weights.shape[1]])
    graph = helper.make_graph(nodes, "g", [given], [found], [numpy_helper.from_array(weights, "weights")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def stored(model: onnx.ModelProto) -> int:
    return model.graph.initializer[0].data_type


def test_weights_are_stored_in_half_the_bytes_and_multiplied_as_before():
    weights = np.random.default_rng(0).normal(size=(WIDTH, 100)).astype(np.float32)
    whole, half = graph_with(weights), graph_with(weights)
    halve_weights(half)
    onnx.checker.check_model(half)
    assert stored(half) == TensorProto.FLOAT16
    assert half.ByteSize() < 0.55 * whole.ByteSize()
    images = np.random.default_rng(1).integers(0, 256, (5, WIDTH), dtype=np.uint8)
    rounded = images.astype(np.float64) @ weights.astype(np.float16).astype(np.float64)
    assert np.allclose(run_graph(half, images, ["found"])[0], rounded, rtol=1e-4, atol=1e-2)
    assert np.allclose(run_graph(half, images, ["found"])[0], run_graph(whole, images, ["found"])[0], atol=2.0)


@pytest.mark.parametrize("scale", [1e6, 1e-7, np.nan])
def test_weights_that_half_precision_cannot_hold_stay_as_they_are(scale):
    model = graph_with(np.full((WIDTH, 100), scale, np.float32) * np.linspace(0.1, 1, 100, dtype=np.float32))
    halve_weights(model)
    assert stored(model) == TensorProto.FLOAT
    assert [node.op_type for node in model.graph.node] == ["Cast", "MatMul"]


def test_a_small_tensor_as_of_the_first_layers_stays_as_it_is():
    model = graph_with(np.ones((WIDTH, 60), np.float32))
    halve_weights(model)
    assert stored(model) == TensorProto.FLOAT
