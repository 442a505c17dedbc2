"""Refinement through image-text sources, where the head is folded to (dimension, classes)."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import yoro
from clip_models import write_clip
from photos import write_folder
from yoro.mappings.affine import AffineMapping

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the torch extra is not installed"),
]
NAMES = ("cat", "coffee", "rocket")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("image-text")
    return tuple(
        write_folder(place / part, count=count, seed=seed, names=NAMES)
        for part, count, seed in (("train", 6, 0), ("val", 4, 1), ("new", 4, 2))
    )


@pytest.fixture(params=[("conse", "default"), ("open_clip", "paper")], ids=lambda pair: pair[0])
def opened(request, tmp_path):
    """A source, and the protocol to refine by."""
    name, protocol = request.param
    if name == "conse":
        return "embedded:conse", protocol
    pytest.importorskip("open_clip")
    return f"open_clip:local-dir:{write_clip(tmp_path / 'clip')}", protocol


@pytest.mark.long
def test_a_prompt_is_trained_through_the_folded_head(opened, folders, tmp_path, monkeypatch):
    from yoro.refining.few_pass import refine
    from yoro.refining.settings import RefineSettings

    (source, protocol), (train, val, new) = opened, folders
    fitted = yoro.fit(train, source=source, attributes="names")
    monkeypatch.setattr("yoro.refining.loop.is_best", lambda *_: True)  # the last epoch, whatever it gained
    settings = RefineSettings(epochs=2, protocol=protocol, learning_rate=0.01, epoch_zero=False)
    refined, refinement = refine(fitted, train, val, settings=settings)
    assert refinement.kept
    assert refinement.epoch == 2
    assert np.isfinite([record.loss for record in refinement.records[1:]]).all()
    mapping = refined.model.mapping
    assert isinstance(mapping, AffineMapping)
    assert mapping.weights.shape == (fitted.model.statistics.width, len(NAMES))  # not a row for each sentence
    assert np.abs(refined.pipeline.prompt.current_program()).max() > 0
    refined.save(tmp_path / "n.yoro")
    loaded = yoro.load(tmp_path / "n.yoro")
    assert loaded.predict(new) == yoro.Classifier(refined.model, pipeline=refined.pipeline).predict(new)
    right = refinement.records[2].correct
    assert loaded.evaluate(val).accuracy * 12 == pytest.approx(right, abs=1.01)  # an image on the edge
