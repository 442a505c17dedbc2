"""What cannot be right is an error or is said, in every verb: NaN, other sources, numbers too large, lost digits."""

from __future__ import annotations

import json
import os
import warnings

import numpy as np
import pytest
from PIL import Image

import yoro
from command_line import invoke
from photos import write_folder
from yoro.errors import InputError, NonFiniteError, PrecisionWarning, StoreError
from yoro.model.store import write_model

SOURCE = """
import numpy as np

def respond(images):
    z = images.reshape(len(images), 4, 56, 4, 56, 3).mean(axis=(2, 4)).reshape(len(images), -1) / 255
    return np.where((images.max(axis=(1, 2, 3)) == 0)[:, None], np.nan, z)

def other(images):
    return respond(images)[:, ::-1] + 0
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Photos, a source that answers a black image with NaN, a model, and a folder with such an image."""
    write_folder(tmp_path / "photos", count=6)
    write_folder(tmp_path / "odd", count=2, seed=3)
    (tmp_path / "mine.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert invoke("fit", "photos", "--out", "m.yoro", "--source", "callable:mine:respond", "--workers", 0).code == 0
    Image.new("RGB", (50, 50)).save(tmp_path / "odd" / "cat" / "black.png")
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [
        ["fit", "odd", "--out", "x.yoro"], ["predict", "m.yoro", "odd"], ["evaluate", "m.yoro", "odd"],
        ["update", "m.yoro", "odd"], ["forget", "m.yoro", "odd"], ["respond", "odd", "--out", "x.npz"],
        ["compare", "odd", "--methods", "ncm"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_a_nan_response_is_an_error_that_names_the_image(place, words):
    before = sorted(path.name for path in place.iterdir())
    ended = invoke(*words, "--source", "callable:mine:respond", "--workers", 0)
    assert ended.code == 1
    assert "contain NaN" in ended.stderr
    assert "cat/black.png" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert sorted(path.name for path in place.iterdir()) == before


def test_response_files_of_another_source_of_the_same_width_are_refused(place):
    for name, source in (("same", "respond"), ("other", "other")):
        assert invoke("respond", "photos", "--out", f"{name}.npz", "--source", f"callable:mine:{source}").code == 0
    identity = json.loads(np.load(place / "same.npz")["identity"].item())
    assert identity["source"]["name"] == "callable:mine:respond"
    assert invoke("fit", "same.npz", "--out", "r.yoro").code == 0
    for verb in ("predict", "evaluate", "update", "forget"):
        ended = invoke(verb, "r.yoro", "other.npz", *(["--out", "x.csv"] if verb == "predict" else []))
        assert ended.code == 1, verb
        assert "holds responses of another backbone" in ended.stderr
    assert invoke("evaluate", "r.yoro", "same.npz").code == 0
    assert "differ in" in invoke("fit", "same.npz", "--val", "other.npz", "--out", "x.yoro").stderr
    assert "come from different sources" in invoke("compare", "same.npz", "--test", "other.npz").stderr
    assert yoro.load("r.yoro").model.origin.made_by == identity


def test_files_that_do_not_say_where_they_come_from_are_taken_with_a_note(place):
    assert invoke("respond", "photos", "--out", "z.npz", "--source", "callable:mine:respond").code == 0
    assert invoke("fit", "z.npz", "--out", "r.yoro").code == 0
    arrays = dict(np.load("z.npz"))
    del arrays["identity"]
    np.savez("plain.npz", **arrays)
    for verb in ("predict", "evaluate", "update"):
        ended = invoke(verb, "r.yoro", "plain.npz")
        assert ended.code == 0
        assert "does not say where its responses come from" in ended.stderr
    assert invoke("fit", "plain.npz", "--out", "p.yoro").code == 0
    assert "does not say" not in invoke("evaluate", "p.yoro", "plain.npz").stderr  # nor does the model


def test_padded_and_plain_images_are_not_mixed(place):
    kinds = {"plain": [], "padded": ["--prompt", "padding"], "black": ["--prompt", "padding", "--frame", "black"]}
    for name, words in kinds.items():
        done = invoke("respond", "photos", "--out", f"{name}.npz", "--source", "embedded:lite0?side=64", *words)
        assert done.code == 0
    invoke("fit", "padded.npz", "--out", "p.yoro")
    assert "side of their transform: 32 and 64" in invoke("evaluate", "p.yoro", "plain.npz").stderr
    assert "frame of their prompt: 'grey' and 'black'" in invoke("evaluate", "p.yoro", "black.npz").stderr


def test_similarities_to_other_sentences_are_other_responses(place):
    for name, bank in (("one", "names"), ("two", "templates")):
        words = ["--source", "embedded:conse", "--attributes", bank, "--sentences", 1]
        assert invoke("respond", "photos", "--out", f"{name}.npz", *words).code == 0
    invoke("fit", "one.npz", "--out", "s.yoro")
    assert "the sentences that images were compared with" in invoke("evaluate", "s.yoro", "two.npz").stderr


def test_numbers_too_large_to_be_squared_are_refused(digits):
    responses, labels = digits
    with pytest.raises(NonFiniteError, match=r"beyond 1e"):
        yoro.fit((responses[:100] * 1e155, labels[:100]))
    classifier = yoro.fit((responses[:100], labels[:100]))
    with pytest.raises(NonFiniteError):
        classifier.update((responses[:10] * 1e155, labels[:10]))
    assert classifier.model.statistics.total == 100


def test_a_model_that_could_not_be_loaded_is_not_saved(digits, tmp_path):
    model = yoro.fit((digits[0][:100], digits[1][:100])).model
    model.mapping.weights[0, 0] = np.inf
    with pytest.raises(StoreError, match="is not saved"):
        write_model(model, tmp_path / "m.yoro")
    assert list(tmp_path.iterdir()) == []


def test_digits_lost_by_forgetting_large_numbers_are_spoken_of(digits):
    responses, labels = digits[0][:300], digits[1][:300]
    huge = responses[:20] * 1e7
    both = np.concatenate([responses, huge]), np.concatenate([labels, labels[:20]])
    classifier = yoro.fit(both, shrinkage="oas", reservoir=0)  # with all responses at hand nothing is lost
    with pytest.warns(PrecisionWarning, match=r"has only about [0-3] right digits"):
        classifier.forget((huge, labels[:20]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classifier.forget((responses[:20], labels[:20]))


def test_a_class_folder_that_cannot_be_read_is_an_error_not_a_smaller_model(tmp_path, monkeypatch):
    write_folder(tmp_path / "photos", count=2)
    real = os.scandir

    def closed(path):
        if str(path).endswith("cat"):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr("yoro.data.file_trees.os.scandir", closed)
    with pytest.raises(InputError, match=r"class folder 'cat' cannot be opened: Permission denied"):
        yoro.fit(tmp_path / "photos")
