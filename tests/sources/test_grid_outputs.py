"""Means over the cells of a grid, as further readings of an embedded network."""

from __future__ import annotations

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from yoro.discriminant.readings import Layout
from yoro.errors import SourceError
from yoro.model.onnx_export import trial_images
from yoro.sources import open_source
from yoro.sources.grid_outputs import block_ends, with_grid_outputs


def test_a_grid_holds_the_mean_of_every_cell():
    plain = open_source("embedded:lite0?side=128", read="all")
    grids = open_source("embedded:lite0?side=128&grids=yes", read="all")
    images = trial_images(128)
    found = grids.respond(images)
    np.testing.assert_allclose(found[:, : plain.width], plain.respond(images), rtol=1e-4, atol=1e-4)
    assert grids.layout.names == (*plain.layout.names, "grid-69", "grid-93")

    model = plain.onnx_model()
    ends = block_ends(model)
    assert [channels for _, channels, _ in ends][-5:] == [192, 192, 192, 192, 320]
    (tensor, channels, side), step = ends[10], 2
    assert (channels, side) == (112, 8)
    model.graph.output.append(helper.make_tensor_value_info(tensor, TensorProto.FLOAT, None))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    whole = session.run([tensor], {"images": images.astype(np.float32) / 255})[0]
    cells = whole.reshape(len(images), channels, 4, step, 4, step).mean(axis=(3, 5))
    part = grids.layout.slices[grids.layout.names.index("grid-69")]
    np.testing.assert_allclose(found[:, part], cells.reshape(len(images), -1), rtol=1e-3, atol=1e-3)


def test_grids_may_stand_in_place_of_the_other_layers():
    every = open_source("embedded:lite0?side=64&grids=yes", read="all")
    some = open_source("embedded:lite0?side=64&grids=only", read="all")
    assert some.layout.names == ("features", "grid-69", "grid-93")
    images = trial_images(64)
    whole, parts = every.respond(images), every.layout.slices
    expected = np.concatenate([whole[:, parts[every.layout.names.index(name)]] for name in some.layout.names], axis=1)
    np.testing.assert_allclose(some.respond(images), expected, rtol=1e-4, atol=1e-4)
    graph = onnxruntime.InferenceSession(some.onnx_model().SerializeToString())
    exported = graph.run(None, {"images": images.astype(np.float32) / 255})[0]
    np.testing.assert_allclose(exported, expected, rtol=1e-4, atol=1e-4)


def test_a_network_without_such_layers_and_a_small_input_have_no_grids():
    model = open_source("embedded:pplcnet-v2?side=32").onnx_model()
    layout = Layout.of(1000)
    assert with_grid_outputs(model, layout) == (model, layout)
    small = open_source("embedded:lite0?side=32&grids=yes", read="all").layout.names
    assert not any(name.startswith("grid") for name in small)


def test_an_odd_value_is_refused():
    with pytest.raises(SourceError, match="'grids' is 'yes', 'only', or left out"):
        open_source("embedded:lite0?grids=4")
