from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest
from PIL import Image

import yoro
from command_line import invoke
from photos import write_folder
from refining_cases import digit_examples
from yoro.errors import InputError, SkippedWarning, SourceError

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="the torch extra is not installed"),
]
SOURCE = "embedded:lite0?side=32"


def settings(**changes):
    from yoro.refining.settings import RefineSettings

    return RefineSettings(**{"epochs": 1, "flip": False, **changes})


@pytest.fixture(scope="module")
def train():
    return digit_examples(0, 60)


@pytest.fixture(scope="module")
def held():
    return digit_examples(120, 60)


@pytest.fixture(scope="module")
def fitted(train):
    return yoro.fit(train, source=SOURCE, read="logits")


@pytest.fixture(scope="module")
def refined(fitted, train, held):
    """Digits are far from photographs, so that refinement helps within a few epochs."""
    from yoro.refining.few_pass import refine
    from yoro.refining.settings import RefineRun

    told = []
    chosen = settings(epochs=4, batch_size=16, augment=False)
    return *refine(fitted, train, held, chosen, RefineRun(tell=told.append)), told


def test_refinement_of_digits_is_kept_and_says_what_it_gained(refined, fitted):
    classifier, refinement, told = refined
    assert refinement.kept
    assert refinement.epoch > 0
    found = refinement.to_json()
    assert found["validation"][refinement.epoch] == max(found["validation"]) > found["validation"][0]
    assert len(told) == 8
    assert told[2].startswith("Epoch 0, before training")
    assert "points against epoch 0" in told[3]
    assert told[-1].startswith("Refinement is kept: epoch")
    assert classifier.model.origin.prompt["trained"]
    assert [entry["verb"] for entry in classifier.model.history] == ["fit", "refine"]
    assert fitted.model.origin.prompt_arrays == {}
    assert found["loss"][-1] < found["loss"][1]


def test_who_has_few_images_hears_it_before_the_work(refined):
    told = refined[2]
    (place,) = [i for i, note in enumerate(told) if "A gain is unlikely" in note]
    assert "times as long as the fit" in told[place]
    assert place < min(i for i, note in enumerate(told) if note.startswith("Epoch"))


def test_many_images_go_without_a_warning():
    from yoro.refining.settings import prospects

    recipe = settings(epochs=20).recipe(SOURCE, 1.0)
    assert prospects(39_000, recipe.epochs, recipe.batch_size) == []
    assert prospects(860, recipe.epochs, recipe.batch_size) != []


def test_the_saved_model_answers_on_the_normal_path_as_it_was_validated(refined, held, tmp_path):
    from yoro.model.onnx_export import checked_export

    classifier, refinement, _ = refined
    classifier.save(tmp_path / "refined.yoro")
    loaded = yoro.load(tmp_path / "refined.yoro")
    best = refinement.records[refinement.epoch]
    assert loaded.evaluate(held).accuracy == pytest.approx(best.accuracy, abs=1 / len(held))  # an image on the edge
    assert checked_export(loaded)[1] < 1e-4
    assert (tmp_path / "refined.yoro" / "prompt.safetensors").is_file()


def test_a_refined_model_can_be_changed_exactly(refined, train, held):
    from copy import copy

    classifier = copy(refined[0])
    before = classifier.model.statistics
    classifier.update(held)
    assert classifier.model.statistics.total == len(train) + len(held)
    classifier.forget(held)
    np.testing.assert_allclose(classifier.model.statistics.parts[0].means, before.parts[0].means, atol=1e-6)


def test_without_gain_the_model_comes_back_unchanged(fitted, train, held):
    from yoro.refining.few_pass import refine
    from yoro.refining.settings import RefineRun

    told = []
    same, refinement = refine(
        fitted, train, held, settings(learning_rate=0.0, mapping="frozen"), RefineRun(tell=told.append)
    )
    assert same is fitted
    assert not refinement.kept
    assert refinement.epoch == 0
    assert told[-1].endswith("The model is returned unchanged.")
    none, nothing = refine(fitted, train, held, settings=settings(epochs=0))
    assert none is fitted
    assert len(nothing.records) == 1
    np.testing.assert_array_equal(none.model.mapping.weights, fitted.model.mapping.weights)


def test_epoch_0_is_the_one_pass_model_of_the_training_images(fitted, train, held):
    from yoro.refining.few_pass import refine

    _, refinement = refine(fitted, train, held, settings=settings(epochs=0))
    right = round(fitted.evaluate(held).accuracy * len(held))
    assert abs(refinement.records[0].correct - right) <= 1  # torch and ONNX Runtime differ in the last digits
    assert refinement.given == right


def test_training_images_do_not_validate(fitted, train, held):
    from yoro.refining.few_pass import refine
    from yoro.refining.settings import RefineRun

    told = []
    _, refinement = refine(fitted, train, [*held, train[3]], settings(epochs=0), RefineRun(tell=told.append))
    assert "1 of 61 validation images are also training images and are left out of the validation." in told
    assert refinement.records[0].total == 60
    with pytest.raises(InputError, match="60 of 60 validation images are also training images"):
        refine(fitted, train, train, settings=settings())


@pytest.mark.parametrize("reservoir", [8192, 0])
def test_what_a_default_fit_fitted_is_taken_out_exactly_before_it_is_compared(train, held, reservoir):
    from yoro.refining.few_pass import _rival, refine
    from yoro.refining.settings import RefineRun

    rule = {} if reservoir else {"shrinkage": 0.1, "reservoir": 0}
    both = yoro.fit([*train, *held], source=SOURCE, **rule)
    alone = yoro.fit(train, source=SOURCE, **rule)
    rival, _ = _rival(both, held, RefineRun())
    np.testing.assert_allclose(rival.mapping.weights, alone.model.mapping.weights, atol=1e-6)
    told = []
    _, refinement = refine(both, train, held, settings(epochs=0), RefineRun(tell=told.append))
    assert any(note.startswith("60 of 60 validation images were used to fit this model; it is") for note in told)
    assert refinement.given == round(alone.evaluate(held).accuracy * len(held))
    assert both.model.statistics.total == 120


def test_refinement_needs_images_and_validation(fitted, train):
    from yoro.refining.few_pass import refine

    with pytest.raises(InputError, match="needs validation images"):
        refine(fitted, train[:2])
    with pytest.raises(InputError, match="not on responses"):
        refine(fitted, (np.ones((4, 3)), np.array(list("abab"))), train)
    responses = yoro.fit((np.random.default_rng(0).normal(size=(40, 4)), np.array(["a", "b"] * 20)))
    with pytest.raises(SourceError, match="fitted on responses"):
        refine(responses, train, train)


def test_a_model_of_a_black_box_says_why_it_cannot_be_refined(fitted, train, held):
    from dataclasses import replace

    from yoro.model.open_model import OpenModel
    from yoro.refining.few_pass import refine

    origin = replace(fitted.model.origin, source={**fitted.model.origin.source, "name": "onnx:a.onnx"})
    other = OpenModel(replace(fitted.model, origin=origin))
    with pytest.raises(SourceError, match="gives no gradients"):
        refine(other, train, held, settings=settings())


def test_another_canvas_keeps_the_width_of_the_frame(train, held):
    from yoro.refining.few_pass import refine
    from yoro.refining.trainable_pipeline import open_twin

    padded = yoro.fit(train, source="embedded:lite0?side=96", prompt="padding", read="logits")
    twin, pipeline = open_twin(padded.model.origin, None, 64, "cpu")
    assert (twin.side, pipeline.prompt.image_side, pipeline.geometry.side) == (64, 32, 32)
    _, refinement = refine(padded, train, held, settings=settings(canvas=64))
    assert refinement.records[1].loss > 0
    with pytest.raises(InputError, match="too small for a frame of 32"):
        open_twin(padded.model.origin, None, 32, "cpu")


def test_the_paper_means_the_paper():
    from yoro.refining.settings import RefineSettings

    paper = RefineSettings(protocol="paper")
    recipe = paper.recipe("torchvision:resnet18/IMAGENET1K_V1", 7.0)
    assert (recipe.epochs, recipe.batch_size, recipe.learning_rate, recipe.temperature) == (20, 256, 0.01, 1.0)
    assert (recipe.schedule, recipe.optimiser, recipe.warm_up, paper.beta) == ("none", "adam", 0.0, 0.9)
    assert paper.recipe("timm:resnext101_32x8d.fb_wsl_ig1b_ft_in1k", 7.0).batch_size == 64
    assert RefineSettings().recipe("embedded:lite0", 7.0).temperature == 7.0
    with pytest.raises(InputError, match="remove the options"):
        RefineSettings(protocol="paper", warm_up=1.0)
    with pytest.raises(InputError, match="Unknown protocol"):
        RefineSettings(protocol="other")


@pytest.mark.parametrize("options", [{"warm_up": 1.0}, {"augmented_start": True}, {"protocol": "paper"}])
def test_what_may_mend_a_wild_start_runs(fitted, train, held, options):
    from yoro.refining.few_pass import refine

    _, refinement = refine(fitted, train[:60], held[:30], settings=settings(**options))
    assert len(refinement.records) == 2


def test_fitting_and_refining_in_one_go_holds_images_out(train):
    told = []
    classifier = yoro.fit(train, source=SOURCE, refine=1, tell=told.append)
    assert any("holding out" in note for note in told)
    assert "Refinement is" in told[-1]
    assert classifier.model.statistics.total == (51 if classifier.model.origin.prompt["trained"] else 60)


def test_a_fit_whose_refinement_is_not_kept_is_the_fit(folders):
    """All validation images are right at once, so that nothing can be better."""
    options = {"source": "embedded:lite0?side=64"}
    with pytest.warns(SkippedWarning):
        plain, tried = yoro.fit(folders, **options), yoro.fit(folders, **options, refine=1)
    assert not tried.model.origin.prompt["trained"]
    assert (tried.model.statistics.width, tried.model.statistics.total) == (plain.model.statistics.width, 20)
    np.testing.assert_array_equal(tried.model.mapping.weights, plain.model.mapping.weights)
    assert tried.model.choice == plain.model.choice
    assert tried.model.ledger.entries() == plain.model.ledger.entries()


def test_what_cannot_be_refined_fails_before_the_pass(train):
    with pytest.raises(SourceError, match="gives no gradients"):
        yoro.fit(train, source="onnx:nowhere.onnx", refine=1)
    with pytest.raises(InputError, match="not on responses"):
        yoro.fit((np.ones((4, 3)), np.array(list("abab"))), refine=1)
    with pytest.raises(InputError, match="zero-shot"):
        yoro.fit(train, source=SOURCE, shots=0, refine=1)
    with pytest.raises(InputError, match="too small to hold any out"):
        yoro.fit(train[:2], source="embedded:lite0", refine=1)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    place = tmp_path_factory.mktemp("refine")
    write_folder(place / "train", count=6, names=("cat", "coffee"))
    write_folder(place / "val", count=4, names=("cat", "coffee"), seed=1)
    (place / "val" / "cat" / "broken.jpg").write_bytes(b"no picture")
    return place


def test_the_verb_writes_a_model_and_prints_what_happened(folders):
    done = invoke(
        "fit", "train", "--out", "m.yoro", "--read", "logits", "--source", "embedded:lite0?side=64", cwd=folders
    )
    assert done.code == 0, done.stderr
    words = ("refine", "m.yoro", "train", "--val", "val", "--epochs", "1", "--canvas", "48", "--out", "n.yoro")
    done = invoke(*words, "--html", "n.html", "--json", cwd=folders)
    assert done.code == 1, done.stderr  # a broken file is named and skipped
    assert "broken.jpg" in done.stderr
    found = json.loads(done.stdout)
    assert set(found) >= {"kept", "epoch", "validation", "loss", "why"}
    assert len(found["validation"]) == 2
    assert not list(folders.glob(".n.yoro*"))
    page = (folders / "n.html").read_text()
    assert "Training loss" in page
    assert "http" not in page.replace("http-equiv", "")
    if not found["kept"]:
        assert (folders / "n.yoro" / "mapping.safetensors").read_bytes() == (
            folders / "m.yoro" / "mapping.safetensors"
        ).read_bytes()
    again = invoke(*words, cwd=folders)
    assert "exists already" in again.stderr
    wrong = invoke("refine", "m.yoro", "train", "--val", "train", "--out", "o.yoro", cwd=folders)
    assert wrong.code == 1
    assert "12 of 12 validation images are also training images" in wrong.stderr
    assert invoke(*words[:-1], "o.yoro", "--temperature", "cold", cwd=folders).code == 2


def test_a_default_fit_of_a_folder_with_splits_is_refined(folders):
    """The README's way: the default fits the validation split too."""
    done = invoke("fit", ".", "--out", "d.yoro", "--source", "embedded:lite0?side=64", cwd=folders)
    assert done.code == 1, done.stderr
    words = ("refine", "d.yoro", ".", "--val", ".", "--epochs", "1", "--out", "e.yoro")
    done = invoke(*words, cwd=folders)
    assert "8 of 9 validation images were used to fit this model" in done.stderr
    assert "the model, unchanged" in done.stderr
    one, two = (yoro.load(folders / name).model for name in ("d.yoro", "e.yoro"))
    np.testing.assert_array_equal(one.mapping.weights, two.mapping.weights)
    assert one.ledger.entries() == two.ledger.entries()


def test_the_learned_prompt_is_drawn_before_and_after(refined, tmp_path):
    classifier = refined[0]
    classifier.save(tmp_path / "r.yoro")
    for name in ("prompt.png", "prompt.html"):
        done = invoke("inspect", "r.yoro", "--prompt", name, cwd=tmp_path)
        assert done.code == 0, done.stderr
    with Image.open(tmp_path / "prompt.png") as picture:
        assert picture.size[0] > picture.size[1] > 32
        assert len(np.unique(np.asarray(picture).reshape(-1, 3), axis=0)) > 100
    assert "Validation accuracy" in (tmp_path / "prompt.html").read_text()
    bad = invoke("inspect", "r.yoro", "--prompt", "prompt.txt", cwd=tmp_path)
    assert bad.code == 1
    assert ".png or .html" in bad.stderr
