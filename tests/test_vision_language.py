"""Classifiers on image-text sources, from fit to export, on real photographs and without a network."""

from __future__ import annotations

import hashlib
import json
import warnings

import numpy as np
import pytest
from PIL import Image

import yoro
from clip_models import write_clip
from command_line import run
from photos import PHOTOS, write_folder
from yoro.data.find import find
from yoro.data.roles import to_fit
from yoro.discriminant.calibration import log_probabilities
from yoro.discriminant.solve import solve_mapping
from yoro.errors import DegenerateWarning, InputError, SourceError, StoreError
from yoro.model.onnx_export import checked_export
from yoro.model.settings import USUAL, PipelineSettings
from yoro.model.store import _config_digest, read_model
from yoro.reports.evaluation import fit_report
from yoro.research.peers.shared_responses import Reader
from yoro.research.presets import read_with_presets

CONSE = "embedded:conse"
BANK = {
    "astronaut": ["a person in an orange space suit", "the portrait of an astronaut before a flag"],
    "cat": ["the face of a cat with whiskers", "an orange cat with green eyes", "soft striped fur"],
    "Coffee": ["a cup of coffee on a wooden table", "a white cup on a saucer with a spoon"],
    "rocket": ["a rocket on its launch pad at night", "a tall white rocket with boosters", "a steel tower"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("photos") / "train", count=6)


@pytest.fixture(scope="module")
def new(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("photos") / "new", count=4, seed=1)


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    pytest.importorskip("open_clip")
    return f"open_clip:local-dir:{write_clip(tmp_path_factory.mktemp('clip'))}"


def vectors(classifier, folder):
    batches = list(classifier.pipeline.stream(list(find(folder)), USUAL))
    return np.concatenate([b.responses for b in batches]), [label for b in batches for label in b.labels]


@pytest.fixture(scope="module")
def noisy(tmp_path_factory):
    """A CLIP whose image vectors say little, while its blocks see the image."""
    pytest.importorskip("open_clip")
    return f"open_clip:local-dir:{write_clip(tmp_path_factory.mktemp('noisy'), blind=True)}"


@pytest.mark.torch
def test_layers_of_an_image_tower_answer_only_if_they_are_better_beyond_noise(folder, noisy, clip, new):
    blind = yoro.fit(folder, source=noisy)
    weights = {part.name: part.weight for part in blind.model.choice.parts}
    assert weights["features"] < 0.5
    assert blind.evaluate(new).accuracy > yoro.fit(folder, source=f"{noisy}?layers=no").evaluate(new).accuracy
    # A random tower has nothing in its blocks that its image vectors have not: these answer alone, as without layers.
    seeing, off = yoro.fit(folder, source=clip), yoro.fit(folder, source=f"{clip}?layers=no")
    assert {part.name for part in seeing.model.choice.parts if part.weight > 0} == {"features"}
    np.testing.assert_allclose(seeing.predict_proba(new), off.predict_proba(new), atol=1e-3)


@pytest.mark.torch
def test_a_model_of_an_image_tower_s_layers_changes_and_answers_like_any_other(folder, noisy, new, tmp_path):
    whole, path = yoro.fit(folder, source=noisy), tmp_path / "m.yoro"
    grown = yoro.fit(folder, source=noisy, shots=0)
    assert np.isfinite(grown.evaluate(new).log_loss)
    grown.save(path)
    assert yoro.load(path).predict(new) == grown.predict(new)
    grown.update(folder)
    np.testing.assert_allclose(grown.predict_proba(new), whole.predict_proba(new), atol=1e-7)
    grown.save(path, force=True)
    again = yoro.load(path)
    np.testing.assert_array_equal(again.predict_proba(new), grown.predict_proba(new))
    assert [part.alpha for part in again.model.choice.parts] == [part.alpha for part in grown.model.choice.parts]
    again.forget(folder / "rocket")  # known by its sentences from then on, which only the image vectors know of
    assert {part.name for part in again.model.choice.parts if part.weight > 0} == {"features"}
    assert np.isfinite(np.log(again.predict_proba(new))).all()
    assert checked_export(whole)[1] < 1e-3
    assert whole.explain(sorted(new.rglob("*.jpg"))[:1])
    assert whole.explain_classes("cat")


@pytest.mark.torch
def test_other_methods_are_compared_on_the_image_vectors(folder, noisy):
    reader = Reader(pipeline=PipelineSettings(noisy))
    for names in (("yoro",), ()):
        shared = read_with_presets(names, folder, reader)
        assert shared.width == shared.words.vectors.shape[1]
        assert all(preset.read().width > shared.width for preset in shared.presets)


def test_class_names_alone_make_a_classifier(new, tmp_path, socket_disabled):
    classifier = yoro.fit(classes=["cat", "coffee", "rocket", "astronaut"], shots=0, source=CONSE)
    assert classifier.model.statistics.total == 0
    assert classifier.evaluate(new).accuracy > 0.7
    classifier.save(tmp_path / "m.yoro")
    assert yoro.load(tmp_path / "m.yoro").predict(new) == classifier.predict(new)
    assert set(json.loads((tmp_path / "m.yoro" / "bank.json").read_text())) == set(PHOTOS)


def test_names_may_come_from_the_folders(folder):
    assert yoro.fit(folder, shots=0, source=CONSE, attributes="names").classes == tuple(sorted(PHOTOS))


def test_images_added_to_a_zero_shot_model_give_the_model_of_a_fit(folder, new):
    grown = yoro.fit(folder, shots=0, source=CONSE)
    grown.update(folder)
    fitted = yoro.fit(folder, source=CONSE)
    assert np.allclose(grown.model.mapping.weights, fitted.model.mapping.weights, atol=1e-9)
    assert grown.evaluate(new).accuracy > 0.8


@pytest.mark.long
def test_a_black_box_of_similarities_gives_the_same_classifier(folder, new):
    classifier = yoro.fit(folder, source=CONSE, attributes=BANK, shrinkage=0.1, zero_shot=False)
    words = classifier.model.words
    v, labels = vectors(classifier, folder)
    responses = words.scale * v.astype(np.float64) @ words.vectors.T
    statistics = yoro.ResponseStatistics()
    statistics.update(responses, labels)
    unseen = vectors(classifier, new)[0]
    dense = solve_mapping(statistics, 0.1)(words.scale * unseen.astype(np.float64) @ words.vectors.T)
    low = classifier.model.mapping(unseen)
    assert np.abs(low - dense).max() / np.abs(dense).max() < 1e-10


def test_a_class_without_images_is_answered_beside_classes_that_have_some(folder, new, tmp_path):
    part = tmp_path / "part"
    for name in ("cat", "rocket", "astronaut"):
        part.mkdir(exist_ok=True)
        (part / name).symlink_to(folder / name)
    classifier = yoro.fit(part, classes=["coffee"], source=CONSE, attributes=BANK)
    evaluation = classifier.evaluate(new)
    recall = {figures.name: figures.recall for figures in evaluation.per_class}
    assert recall["coffee"] >= 0.5  # of crops that show a corner of the table, too
    assert recall["cat"] == 1.0
    assert np.isfinite(np.log(classifier.predict_proba(new))).all()


@pytest.mark.long
@pytest.mark.parametrize("shots", [1, 2, 4])
def test_few_shots_are_never_below_their_own_zero_shot_head(folder, new, shots):
    zero = yoro.fit(folder, shots=0, source=CONSE, attributes=BANK).evaluate(new).accuracy
    for seed in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateWarning)
            few = yoro.fit(folder, shots=shots, seed=seed, source=CONSE, attributes=BANK)
        assert few.model.statistics.counts.tolist() == [shots] * 4
        assert few.evaluate(new).accuracy >= zero


def test_the_paper_s_protocol_lets_no_sentence_vote(folder):
    classifier = yoro.fit(folder, source=CONSE, attributes=BANK, protocol="paper")
    assert classifier.model.choice.alpha == 0.0
    assert classifier.model.choice.rule == "validation"
    assert not classifier.model.words.votes
    with pytest.raises(InputError, match="data for 0 classes"):
        yoro.fit(folder, shots=0, source=CONSE, protocol="paper")


def test_a_validation_split_beside_other_validation_images_is_spoken_of(folder, new, tmp_path):
    (tmp_path / "train").symlink_to(folder)
    (tmp_path / "val").symlink_to(new)
    _, held, notes = to_fit(tmp_path, new, rule="validation", seed=0)
    assert len(held) == 16
    assert any("16 images of the data's own validation split are not used" in note for note in notes)


def test_validation_images_beside_a_draw_are_at_most_four_a_class(folder):
    (train,), held, _ = to_fit(folder, None, rule="validation", seed=0, shots=3)
    assert (len(train), len(held)) == (12, 12)
    assert {e.name for e in train}.isdisjoint(e.name for e in held)
    (train,), held, _ = to_fit(folder, None, rule="loo", seed=0, shots=3)
    assert (len(train), len(held)) == (12, 0)


def test_a_saved_model_carries_its_sentences(folder, tmp_path):
    classifier = yoro.fit(folder, source=CONSE, attributes=BANK, sentences=2)
    classifier.save(tmp_path / "m.yoro")
    model = read_model(tmp_path / "m.yoro")
    assert model.words.bank == classifier.model.words.bank
    assert all(len(items) == 2 for items in model.words.bank.sentences.values())
    assert set(model.words.bank.sentences["coffee"]) == set(BANK["Coffee"])
    assert json.loads((tmp_path / "m.yoro" / "config.json").read_text())["format"] == 2
    (tmp_path / "m.yoro" / "bank.json").write_text("{}")
    with pytest.raises(StoreError, match=r"bank.json is damaged or was changed"):
        yoro.load(tmp_path / "m.yoro")


@pytest.mark.parametrize("content", [b"[" * 100_000, b"\xff", b'{"cat": 3}', b"[]", b'{"cat": ["a cat"]}'])
def test_a_stranger_s_bank_is_an_error_not_a_crash(folder, tmp_path, content):
    yoro.fit(folder, source=CONSE, attributes="names").save(tmp_path / "m.yoro")
    file = tmp_path / "m.yoro" / "config.json"
    config = json.loads(file.read_text())
    (tmp_path / "m.yoro" / "bank.json").write_bytes(content)
    config["digests"]["bank.json"] = hashlib.sha256(content).hexdigest()
    config["digest"] = _config_digest(config)
    file.write_text(json.dumps(config))
    with pytest.raises(StoreError, match="damaged"):
        yoro.load(tmp_path / "m.yoro")


@pytest.mark.long
def test_a_new_class_needs_sentences_of_the_kind_the_model_has(folder, tmp_path):
    classifier = yoro.fit(folder, source=CONSE, attributes=BANK)
    (tmp_path / "dog").mkdir()
    Image.fromarray(PHOTOS["coffee"]()[:200, :200]).save(tmp_path / "dog" / "1.png")
    before = classifier.model
    with pytest.raises(InputError, match="no sentences for the new 'dog'"):
        classifier.update(tmp_path)
    assert classifier.model is before
    classifier.update(tmp_path, attributes="templates")
    assert "dog" in classifier.classes
    assert len(classifier.model.words.bank.sentences["dog"]) == 20


def test_forgetting_the_last_image_leaves_the_class_to_its_sentences(folder, new, tmp_path):
    classifier = yoro.fit(folder, source=CONSE)
    only = tmp_path / "only"
    only.mkdir()
    (only / "coffee").symlink_to(folder / "coffee")
    change = classifier.forget(only)
    assert "only its sentences" in change.notes[0]
    assert dict(zip(classifier.classes, classifier.model.statistics.counts, strict=True))["coffee"] == 0
    assert classifier.evaluate(new).accuracy > 0.8


@pytest.mark.long
def test_models_merge_where_their_sentences_agree(folder, new, tmp_path):
    halves = []
    for part in (("cat", "coffee"), ("coffee", "rocket", "astronaut")):
        place = tmp_path / part[0]
        place.mkdir()
        for name in part:
            (place / name).symlink_to(folder / name)
        halves.append(yoro.fit(place, source=CONSE))
    halves[0].merge(halves[1])
    assert halves[0].classes == tuple(sorted(PHOTOS))
    assert halves[0].evaluate(new).accuracy > 0.8
    other = yoro.fit(folder, source=CONSE, attributes=BANK)
    with pytest.raises(InputError, match="different sentences"):
        halves[0].merge(other)
    halves[0].relabel({"rocket": "craft", "astronaut": "craft"})
    assert halves[0].classes == ("cat", "coffee", "craft")
    assert len(halves[0].model.words.bank.sentences["craft"]) == 40


def test_features_need_no_sentences(folder, new):
    classifier = yoro.fit(folder, source=CONSE, read="features")
    assert classifier.model.words is None
    assert classifier.evaluate(new).accuracy > 0.8


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"source": "embedded:lite0", "attributes": BANK}, SourceError, "no text tower, which --attributes"),
        ({"source": "embedded:lite0", "shots": 0}, SourceError, "no text tower, which --shots 0"),
        ({"source": CONSE, "attributes": {"cat": ["a cat"]}}, InputError, "no sentences for 'astronaut', 'coffee'"),
        ({"source": CONSE, "attributes": BANK | {"cat": ["word " * 300]}}, InputError, "302 tokens"),
        ({"source": CONSE, "attributes": {}}, InputError, "no sentences for"),
    ],
)
def test_what_cannot_be_says_why(folder, options, error, message):
    with pytest.raises(error, match=message):
        yoro.fit(folder, **options)
    with pytest.raises(InputError, match="No data"):
        yoro.fit(source=CONSE)


@pytest.mark.long
@pytest.mark.torch
def test_open_clip_from_fit_to_export_without_a_network(clip, folder, new, tmp_path, monkeypatch, socket_disabled):
    monkeypatch.setenv("YORO_CACHE", str(tmp_path / "cache"))
    classifier = yoro.fit(folder, source=clip, attributes=BANK, prompt="padding")
    assert classifier.model.origin.transform["fit"] == "crop"
    assert classifier.evaluate(new).accuracy > 0.5  # random weights still tell these photographs apart
    classifier.save(tmp_path / "m.yoro")
    loaded = yoro.load(tmp_path / "m.yoro")
    assert np.allclose(loaded.predict_proba(new), classifier.predict_proba(new), atol=1e-12)
    loaded.update(new)
    assert loaded.model.statistics.total == 40
    graph, difference = checked_export(loaded)
    assert difference < 1e-4
    assert len(graph) > 1000
    assert fit_report(classifier, [], "photos") is not None


def test_the_report_of_a_fit_counts_the_head(folder):
    classifier = yoro.fit(folder, source=CONSE, attributes=BANK)
    v = classifier.model.reservoir.members().responses
    scores = classifier.model.mapping(v)
    assert np.isfinite(log_probabilities(scores, classifier.model.choice.temperature)).all()
    assert "Fit: 4 classes" in fit_report(classifier, [], "photos")


def test_the_verbs_speak_of_sentences(folder, new, tmp_path):
    (tmp_path / "bank.json").write_text(json.dumps(BANK))
    (tmp_path / "names.txt").write_text("cat\ncoffee\nrocket\nastronaut\n")
    done = run("fit", "--shots", 0, "--classes", "names.txt", "--source", CONSE, "--out", "z.yoro", cwd=tmp_path)
    assert "zero-shot" in done.stderr
    assert json.loads(run("evaluate", "z.yoro", new, "--json", cwd=tmp_path).stdout)["accuracy"] > 0.7
    words = ("--source", CONSE, "--attributes", "bank.json")
    run("fit", folder, *words, "--shots", 4, "--out", "m.yoro", cwd=tmp_path)
    shown = run("inspect", "m.yoro", cwd=tmp_path).stdout
    assert "from bank.json; weight of the zero-shot head" in shown
    run("respond", folder, *words, "--out", "z.npz", cwd=tmp_path)
    assert np.load(tmp_path / "z.npz")["responses"].shape == (24, 4 * 2)  # the third sentences are stubs
    run("respond", folder, "--attributes", "bank.json", "--out", "y.npz", cwd=tmp_path, code=1)
    run("fit", "--out", "x.yoro", cwd=tmp_path, code=2)
    run("fit", folder, *words, "--protocol", "paper", "--out", "p.yoro", cwd=tmp_path)


def test_the_attributes_verb_shows_checks_and_draws(folder, tmp_path):
    (tmp_path / "bank.json").write_text(json.dumps(BANK | {"cat": ["."] * 3}))
    shown = run("attributes", "show", "bank.json", "--class", "coffee", cwd=tmp_path).stdout
    assert shown.splitlines()[0] == "Coffee"
    assert "a cup of coffee on a wooden table" in shown
    checked = run("attributes", "check", "bank.json", "--data", folder, cwd=tmp_path, code=1)
    assert "none" in next(line for line in checked.stdout.splitlines() if line.startswith("cat"))
    (tmp_path / "bank.json").write_text(json.dumps(BANK))
    assert "0 with fewer" in run("attributes", "check", "bank.json", "--sentences", 2, cwd=tmp_path).stderr
    run("attributes", "draw", "bank.json", "--out", "d.json", "--sentences", 2, "--data", folder, cwd=tmp_path)
    drawn = json.loads((tmp_path / "d.json").read_text())
    assert set(drawn) == set(PHOTOS)
    assert yoro.fit(folder, source=CONSE, attributes=BANK, sentences=2).model.words.bank.sentences == {
        name: tuple(items) for name, items in drawn.items()
    }
    run("attributes", "draw", "bank.json", "--out", "d.json", cwd=tmp_path, code=1)
    run("attributes", "show", "templates", cwd=tmp_path, code=2)
