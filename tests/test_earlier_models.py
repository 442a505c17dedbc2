"""Models that earlier commits saved still load and answer as they did; `expected.json` holds the answers of then."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import yoro

MODELS = Path(__file__).parent / "models"
EXPECTED = json.loads((MODELS / "expected.json").read_text())
TINY = f"onnx:{MODELS / 'tiny.onnx'}?mean=0,0,0&std=1,1,1"
EXACT = {"rtol": 0, "atol": 1e-12}  # the same sums in the same order
COLOURS = {"bright": (190, 190, 190), "dark": (60, 60, 60), "red": (190, 60, 60)}


def pictures(seed: int, count: int, names: tuple[str, ...] = tuple(COLOURS)) -> list[tuple[np.ndarray, str]]:
    """Noise about three colours, as it was fitted."""
    rng = np.random.default_rng(seed)
    noise = [rng.normal(list(COLOURS.values())[i % 3], 60, (40, 30, 3)) for i in range(count)]
    return [(np.clip(values, 0, 255).astype(np.uint8), names[i % 3]) for i, values in enumerate(noise)]


NEW = [image for image, _ in pictures(1, 9)]


def test_the_first_format_still_loads_and_can_be_changed(digits):
    responses, labels = digits
    classifier = yoro.load(MODELS / "format-1.yoro")
    assert classifier.evaluate((responses[600:], labels[600:])).accuracy > 0.85
    classifier.update((responses[600:700], labels[600:700]))


@pytest.mark.parametrize("name", ["grouped", "bare", "paper"])
def test_models_of_responses_answer_as_before(name):
    probe = np.random.default_rng(12).normal(size=(8, 7))
    np.testing.assert_allclose(yoro.load(MODELS / f"{name}.yoro").predict_proba(probe), EXPECTED[name], **EXACT)


@pytest.mark.parametrize("name", ["images", "prompted"])
def test_models_of_images_answer_as_before(name):
    classifier = yoro.load(MODELS / f"{name}.yoro", source=TINY)
    # the network runs in float32, whose last digits depend on the processor
    np.testing.assert_allclose(classifier.predict_proba(NEW), EXPECTED[name], rtol=0, atol=1e-5)


def test_a_model_of_images_is_changed_as_before():
    classifier = yoro.load(MODELS / "images.yoro", source=TINY)
    classifier.update(pictures(2, 30))
    classifier.relabel({"red": "rouge"})
    expected = EXPECTED["images changed"]
    assert classifier.model.choice.shrinkage == expected["shrinkage"]
    assert classifier.model.choice.temperature == pytest.approx(expected["temperature"], rel=1e-4)
    np.testing.assert_allclose(classifier.predict_proba(NEW), expected["proba"], rtol=0, atol=1e-5)


def test_models_with_sentences_answer_as_before():
    vectors = np.random.default_rng(13).normal(size=(6, 48))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    spoken, zero = (yoro.load(MODELS / f"{name}.yoro") for name in ("sentences", "zero-shot"))
    np.testing.assert_allclose(spoken.predict_proba(vectors), EXPECTED["sentences"]["proba"], **EXACT)
    assert spoken.model.choice.alpha == EXPECTED["sentences"]["alpha"]
    np.testing.assert_allclose(zero.predict_proba(vectors), EXPECTED["zero-shot"], **EXACT)
