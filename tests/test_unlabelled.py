"""Unlabelled images in a model: fitted, changed, dropped, forgotten, saved and answered together, as a user does it."""

from __future__ import annotations

import json

import numpy as np
import pytest

import yoro
from command_line import run
from photos import write_folder
from yoro.errors import InputError, StoreError
from yoro.model.model import Model

pytestmark = pytest.mark.filterwarnings("ignore::yoro.errors.DegenerateWarning", "ignore::yoro.errors.LabelWarning")

CLASSES = np.array(["ant", "bee", "cat", "dog"])


def drawn(seed: int, each: int) -> tuple[np.ndarray, np.ndarray]:
    means = np.random.default_rng(7).normal(size=(4, 30)) * 1.2
    rng, truth = np.random.default_rng(seed), np.repeat(np.arange(4), each)
    return (means[truth] + 1.6 * rng.normal(size=(len(truth), 30))).astype(np.float32), CLASSES[truth]


@pytest.fixture(scope="module")
def labelled() -> tuple[np.ndarray, np.ndarray]:
    return drawn(1, 3)


@pytest.fixture(scope="module")
def pile() -> np.ndarray:
    return drawn(2, 60)[0]


@pytest.fixture(scope="module")
def both(labelled, pile):
    return yoro.fit(labelled, unlabelled=pile)


def same(one: Model, two: Model) -> None:
    np.testing.assert_allclose(one.mapping.weights, two.mapping.weights, rtol=0, atol=1e-9)
    np.testing.assert_allclose(one.mapping.bias, two.mapping.bias, rtol=0, atol=1e-9)
    assert (one.choice.shrinkage, one.choice.pile) == (two.choice.shrinkage, two.choice.pile)


def test_a_pile_raises_the_accuracy_and_the_notes_say_what_it_was_worth(labelled, pile):
    notes: list[str] = []
    asked, wanted = drawn(3, 100)
    plain, more = yoro.fit(labelled), yoro.fit(labelled, unlabelled=pile, tell=notes.append)
    assert more.score(asked, wanted) > plain.score(asked, wanted)
    assert any("240 unlabelled images" in note and "expected accuracy" in note for note in notes)


def test_dropping_the_pile_leaves_exactly_the_fit_without(labelled, both):
    dropped = yoro.fit(labelled, unlabelled=drawn(2, 60)[0])
    dropped.drop_unlabelled()
    same(dropped.model, yoro.fit(labelled).model)
    assert dropped.model.gathered.pile is None
    assert both.model.uses_pile


def test_a_pile_added_later_is_the_pile_of_a_fit(labelled, pile, both):
    later = yoro.fit(labelled)
    later.update(unlabelled=pile[:100])
    later.update(unlabelled=pile[100:])
    same(later.model, both.model)


def test_labels_added_and_forgotten_beside_a_pile_are_those_of_a_fit(labelled, pile, both):
    more = drawn(4, 2)
    changed = yoro.fit(labelled, unlabelled=pile)
    changed.update(*more)
    every = tuple(np.concatenate(pair) for pair in zip(labelled, more, strict=True))
    same(changed.model, yoro.fit(every, unlabelled=pile).model)
    changed.forget(*more)
    same(changed.model, both.model)


def test_pile_images_are_forgotten_with_a_receipt(labelled, pile, tmp_path):
    changed = yoro.fit(labelled, unlabelled=pile)
    change = changed.forget_unlabelled(pile[:50])
    same(changed.model, yoro.fit(labelled, unlabelled=pile[50:]).model)
    assert change.receipt is not None
    assert len(change.receipt.removed) == 50
    change.receipt.save(tmp_path / "r.json")
    assert changed.verify(tmp_path / "r.json").holds
    assert changed.verify(tmp_path / "r.json", *labelled).holds
    assert not yoro.fit(labelled, unlabelled=pile).verify(tmp_path / "r.json").holds
    again = changed.forget_unlabelled(pile[:50])
    assert "50 images not among the unlabelled" in " ".join(again.notes)


def test_a_saved_pile_is_loaded_and_held_out_figures_stay(both, tmp_path):
    both.save(tmp_path / "m.yoro")
    loaded = yoro.load(tmp_path / "m.yoro")
    same(loaded.model, both.model)
    assert len(loaded.model.gathered.pile) == 240
    assert loaded.left_out().accuracy == both.left_out().accuracy == pytest.approx(both.model.choice.pile.after)
    config = json.loads((tmp_path / "m.yoro" / "config.json").read_text())
    assert config["format"] == 4
    (tmp_path / "m.yoro" / "pile.safetensors").write_bytes(b"nothing")
    with pytest.raises(StoreError, match="damaged"):
        yoro.load(tmp_path / "m.yoro")


def test_two_models_with_piles_merge(labelled, pile, both):
    one = yoro.fit((labelled[0][::2], labelled[1][::2]), unlabelled=pile[:120])
    two = yoro.fit((labelled[0][1::2], labelled[1][1::2]), unlabelled=pile[120:])
    one.merge(two)
    same(one.model, both.model)


def test_labelled_images_and_repeats_are_not_in_the_pile(labelled, pile, both):
    found = yoro.fit(labelled, unlabelled=np.concatenate([pile, labelled[0], pile[:9]]))
    assert len(found.model.gathered.pile) == 240
    same(found.model, both.model)


def test_images_answered_together_learn_from_each_other(labelled, pile):
    plain = yoro.fit(labelled)
    asked, wanted = drawn(5, 80)
    alone, together = (plain.to_frame(asked, together=how)["label"].to_numpy() for how in (False, True))
    assert (together == wanted).mean() > (alone == wanted).mean()
    assert plain.model.gathered.pile is None


def test_unlabelled_responses_of_another_width_are_refused(labelled, pile):
    narrow, plain = pile[:, :7], yoro.fit(labelled)
    for take in (
        lambda: yoro.fit(labelled, unlabelled=narrow),
        lambda: plain.update(unlabelled=narrow),
        lambda: plain.together(narrow),
    ):
        with pytest.raises(InputError, match="Unlabelled responses have width 7, labelled ones 30"):
            take()


def test_sets_of_a_model_with_a_pile_cover_about_what_was_asked(both):
    asked, wanted = drawn(6, 100)
    sets = both.predict_sets(asked, 0.8)
    assert 0.6 < np.mean([label in found for label, found in zip(wanted, sets, strict=True)]) <= 1
    with pytest.raises(InputError, match="jackknife"):
        both.predict_sets(asked, 0.8, by="jackknife+")


def test_the_verbs_take_a_folder_of_unlabelled_photos(tmp_path):
    photos = write_folder(tmp_path / "photos", count=3)
    heap = tmp_path / "heap"
    heap.mkdir()
    for folder in sorted(write_folder(tmp_path / "more", count=14).iterdir()):
        for photo in sorted(folder.iterdir())[3:]:
            photo.rename(heap / f"{folder.name}-{photo.name}")
    (heap / "broken.jpg").write_bytes(b"no image")
    model = tmp_path / "m.yoro"
    done = run("fit", photos, "--unlabelled", heap, "--out", model, code=1)  # because of the broken one
    assert "unlabelled images" in done.stderr
    assert "broken.jpg" in done.stderr
    done = run("predict", model, heap, "--together", "--quiet", code=1)
    assert done.stdout.count("\n") == 45
    run("update", model, "--drop-unlabelled")
    plain = yoro.fit(photos)
    np.testing.assert_allclose(yoro.load(model).model.mapping.weights, plain.model.mapping.weights, atol=1e-9)
    for words in (["--drop-unlabelled", heap], []):
        run("update", model, *words, code=2)
