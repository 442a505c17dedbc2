"""An embedded network in whole numbers of eight bits."""

from __future__ import annotations

from collections import Counter

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

from yoro.errors import SourceError
from yoro.sources import open_source
from yoro.sources.open import check_gradients
from yoro.sources.quantised import Spread

ROUNDED = "embedded:lite0?grids=yes&int8=yes"


def test_every_reading_is_nearly_that_in_floating_point(photos):
    exact, rounded = (open_source(name, read="all") for name in ("embedded:lite0?grids=yes", ROUNDED))
    assert rounded.layout == exact.layout
    images = photos(224)
    pairs = exact.respond(images), rounded.respond(images)
    for reading, columns in zip(exact.layout.readings, exact.layout.slices, strict=True):
        one, other = (response[:, columns] for response in pairs)
        cosines = (one * other).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
        assert cosines.min() > 0.98, reading.name


def test_an_answer_depends_on_nothing_but_the_image_and_an_export_gives_the_same(photos):
    source = open_source(ROUNDED, read="all")
    images = photos(224)
    responses = source.respond(images)
    np.testing.assert_array_equal(responses[1:2], source.respond(images[1:2]))
    exported = onnxruntime.InferenceSession(source.onnx_model().SerializeToString())
    found = exported.run(None, {"images": images.astype(np.float32) / 255})[0]
    np.testing.assert_allclose(found, responses, atol=1e-5)


def test_every_layer_is_computed_in_whole_numbers_that_cannot_overflow(tmp_path):
    model = open_source("embedded:lite0?side=64&grids=yes&int8=yes", read="all").onnx_model()
    weights = [numpy_helper.to_array(tensor) for tensor in model.graph.initializer if tensor.data_type == 3]
    assert max(int(np.abs(values).max()) for values in weights) == 63
    assert 2 * 63 * 255 < 2**15  # of two products, which some processors add in 16 bits
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(tmp_path / "fused.onnx"), 4
    onnxruntime.InferenceSession(model.SerializeToString(), options)
    kinds = Counter(node.op_type for node in onnx.load(tmp_path / "fused.onnx").graph.node)
    assert kinds["QLinearConv"] == 49
    assert kinds["Conv"] == 1  # the classifier


def test_the_mean_of_a_clipped_spread_is_that_of_draws():
    spread = Spread(np.array([-1.0, 3.0, 5.5]), np.array([1.0, 0.0, 2.0]), clipped=True)
    draws = np.random.default_rng(0).normal(spread.mean, spread.deviation, (100_000, 3)).clip(0, 6)
    np.testing.assert_allclose(spread.expected, draws.mean(axis=0), atol=0.02)
    assert spread.range == (0, 6)


def test_it_is_another_source_than_the_exact_network():
    one, other = (open_source(name).describe()["digest"] for name in ("embedded:lite0", "embedded:lite0?int8=yes"))
    assert one != other


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("embedded:lite0?int8=no", "option 'int8' is 'yes', or left out"),
        ("embedded:mobilenet-v2?int8=yes", "8-bit arithmetic is there for lite0, lite1, lite2"),
        ("embedded:pplcnet-v2?int8=yes", "8-bit arithmetic is there for lite0, lite1, lite2"),
    ],
)
def test_what_cannot_be_is_refused(name, message):
    with pytest.raises(SourceError, match=message):
        open_source(name)


def test_no_prompt_is_trained_through_it():
    with pytest.raises(SourceError, match="8-bit arithmetic has none"):
        check_gradients("embedded:lite0?int8=yes")
