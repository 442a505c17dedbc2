"""Several networks in one model: one pass, one mapping, the same verbs as with one."""

from __future__ import annotations

import shutil
from types import SimpleNamespace

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

import yoro
from command_line import run
from photos import PHOTOS, crops, write_folder
from services import running
from yoro.errors import InputError, SourceError
from yoro.model.onnx_export import trial_images
from yoro.sources import open_source
from yoro.sources.names import short_names
from yoro.sources.open import needs_consent
from yoro.sources.protocol import Calls

SMALL, LARGE = "embedded:lite0?side=64", "embedded:lite2?side=96"
BOTH = f"{SMALL}+{LARGE}"

FUNCTIONS = """
import numpy as np
from pathlib import Path

def noise(images):
    with Path(__file__).with_name("asked").open("a") as file:
        file.write(f"{len(images)} ")
    values = np.asarray(images, np.float64).reshape(len(images), -1)
    return np.sin(1e4 * values[:, :12] + values.sum(axis=1, keepdims=True))
noise.side, noise.width = 32, 12
"""


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("networks")
    write_folder(folder / "photos", 8)
    write_folder(folder / "new", 2, seed=5)
    classifier = yoro.fit(folder / "photos", source=[SMALL, LARGE])
    classifier.save(folder / "m.yoro")
    return SimpleNamespace(folder=folder, classifier=classifier, model=folder / "m.yoro", new=folder / "new")


@pytest.fixture
def noise(tmp_path, monkeypatch):
    """The name of a function of noise; the file `asked` beside it tells how often it ran."""
    name = f"networks_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{name}.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    return f"callable:{name}:noise"


def test_responses_stand_side_by_side_named_by_network():
    both, alone = open_source(BOTH, read="all"), open_source(LARGE, read="all")
    assert both.side == 96
    assert both.layout.names[:2] == ("lite0-64/logits", "lite0-64/features")
    images = trial_images(96)
    found = both.respond(images)
    np.testing.assert_array_equal(found[:, -alone.width :], alone.respond(images))
    # Bilinear with antialiasing, as Pillow resizes, which rounds to whole grey levels in between.
    smaller = np.stack([np.asarray(Image.fromarray(one).resize((64, 64), Image.Resampling.BILINEAR)) for one in images])
    expected = open_source(SMALL, read="all").respond(smaller)
    part = found[:, : expected.shape[1]]
    assert np.abs(part - expected).max() < 0.05 * np.abs(expected).max()


def test_one_graph_holds_all_networks_that_are_run():
    both, images = open_source(BOTH, read="all"), trial_images(96)
    for source in (both, both.only(["lite2-96"])):
        graph = onnxruntime.InferenceSession(source.onnx_model().SerializeToString())
        found = graph.run(None, {"images": images.astype(np.float32) / 255})[0]
        np.testing.assert_allclose(found, source.respond(images), rtol=1e-4, atol=1e-4)
    assert not both.only(["lite2-96"]).respond(images)[:, :5256].any()


def test_update_forget_and_merge_equal_a_fresh_fit(work, tmp_path):
    names = tuple(PHOTOS)
    images = {name: crops(name, 9, seed=3) for name in names}

    def data(which):
        chosen = [(images[name][i], name) for name in names for i in which]
        return [one for one, _ in chosen], [label for _, label in chosen]

    options = {"source": BOTH, "read": "features"}
    whole = yoro.fit(*data(range(9)), **options).predict_proba(work.new)
    grown = yoro.fit(*data(range(5)), **options)
    grown.update(*data(range(5, 9)))
    np.testing.assert_allclose(grown.predict_proba(work.new), whole, atol=1e-9)
    first, second, merged = (yoro.fit(*data(which), **options) for which in (range(5), range(5, 9), range(5)))
    merged.merge(second)
    np.testing.assert_allclose(merged.predict_proba(work.new), whole, atol=1e-9)
    grown.forget(*data(range(5, 9)))
    np.testing.assert_allclose(grown.predict_proba(work.new), first.predict_proba(work.new), atol=1e-9)


def test_a_receipt_of_what_was_forgotten_holds(work, tmp_path):
    shutil.copytree(work.folder / "photos", tmp_path / "photos")
    gone = sorted((tmp_path / "photos").rglob("*.*"))[:3]
    (tmp_path / "gone" / gone[0].parent.name).mkdir(parents=True)
    for path in gone:
        path.rename(tmp_path / "gone" / path.parent.name / path.name)
    left, receipt = tmp_path / "left.yoro", tmp_path / "r.json"
    run("forget", work.model, tmp_path / "gone", "--out", left, "--receipt", receipt)
    run("forget", left, tmp_path / "photos", "--verify", receipt)  # fits again without them, and compares
    assert not work.classifier.verify(receipt).holds  # it still has them


def test_every_door_answers_alike(work, tmp_path):
    classifier, saved = yoro.fit(work.folder / "photos", source=BOTH, shots=2), tmp_path / "m.yoro"
    assert classifier.model.answering == {"lite0-64", "lite2-96"}  # with so few images the features of both answer
    classifier.save(saved)
    expected = classifier.predict_proba(work.new)
    np.testing.assert_array_equal(yoro.load(saved).predict_proba(work.new), expected)
    files = sorted(path for path in work.new.rglob("*.jpg"))
    with running(saved, log=tmp_path / "log") as service:
        sent = [("images", (file.name, file.read_bytes())) for file in files]
        found = service.client.post("/v1/predict", files=sent).json()["predictions"]
    assert [one["probability"] for one in found] == pytest.approx(expected.max(axis=1).tolist(), abs=1e-5)
    exported = tmp_path / "m.onnx"
    assert run("export", saved, "--onnx", exported).code == 0
    answers = onnxruntime.InferenceSession(exported.read_bytes())
    pixels = np.stack([np.asarray(Image.open(file).resize((96, 96), Image.Resampling.BILINEAR)) for file in files])
    np.testing.assert_allclose(answers.run(["probabilities"], {"images": pixels})[0], expected, atol=0.02)


def test_a_response_file_of_several_networks_fits_alike(work, tmp_path):
    out = tmp_path / "r.npz"
    assert run("respond", work.folder / "photos", "--source", BOTH, "--out", out).code == 0
    fitted = yoro.fit(out)
    fitted.save(tmp_path / "m.yoro")
    assert yoro.load(tmp_path / "m.yoro").model.statistics.layout == work.classifier.model.statistics.layout
    np.testing.assert_allclose(fitted.model.mapping.weights, work.classifier.model.mapping.weights, atol=1e-6)


def test_a_network_without_worth_is_not_run_at_prediction(work, noise, tmp_path, caplog):
    caplog.set_level("INFO", "yoro")
    classifier = yoro.fit(work.folder / "photos", source=f"{SMALL}+{noise}")
    assert classifier.model.answering == {"lite0-64"}
    assert "no gain from noise" in caplog.text
    asked = (tmp_path / "asked").read_text()
    probabilities = classifier.predict_proba(work.new)
    assert (tmp_path / "asked").read_text() == asked
    classifier.update(work.new)  # the statistics take part in it all the same
    assert (tmp_path / "asked").read_text() != asked
    assert probabilities.argmax(axis=1).tolist() == sorted(probabilities.argmax(axis=1).tolist())


def test_what_needs_consent_needs_it_among_others(work, noise, tmp_path):
    assert needs_consent(f"{SMALL}+{noise}") == "runs code"
    yoro.fit(work.folder / "photos", source=f"{SMALL}+{noise}").save(tmp_path / "m.yoro")
    with pytest.raises(SourceError, match="runs code"):
        yoro.load(tmp_path / "m.yoro").predict(work.new)


def test_a_changed_network_is_refused(work):
    with pytest.raises(SourceError, match="not what this model was fitted on"):
        yoro.load(work.model, source=f"{SMALL}+embedded:lite1?side=96").predict(work.new)


def test_a_network_among_others_may_have_moved_under_another_name(work, tmp_path):
    first, other = tmp_path / "a" / "first.onnx", tmp_path / "b" / "other.onnx"
    for path in (first, other):
        path.parent.mkdir()
        onnx.save(open_source(SMALL).onnx_model(), path)
    at = {path: f"onnx:{path}?side=64&mean=0,0,0&std=1,1,1+{SMALL}" for path in (first, other)}
    one, two = (yoro.fit(work.folder / "photos", source=at[path], shots=4) for path in (first, other))
    one.save(tmp_path / "m.yoro")
    moved = yoro.load(tmp_path / "m.yoro", source=at[other])
    np.testing.assert_array_equal(moved.predict_proba(work.new), one.predict_proba(work.new))
    moved.update(work.new)
    one.merge(two)  # another machine's, where the file is elsewhere
    assert one.model.statistics.total == 2 * two.model.statistics.total
    with pytest.raises(InputError, match="differ") as refused:
        one.merge(yoro.fit(work.folder / "photos", source=BOTH, shots=4))
    assert "digest" in str(refused.value)
    assert len(str(refused.value)) < 500


def test_an_endpoint_among_others_is_refused_with_a_budget_too():
    with pytest.raises(SourceError, match="cannot be combined"):
        open_source(f"{SMALL}+https://example.org", calls=Calls(budget=3))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (f"{SMALL}+https://example.org", "asked over the network"),
        ("embedded:lite0+lite2", "joined as in"),
        (f"{SMALL}+embedded:lite9", "lite9"),
        ("+".join([SMALL] * 9), "at most 8"),
    ],
)
def test_what_cannot_be_combined_is_said(source, said):
    with pytest.raises(SourceError, match=said):
        open_source(source)


def test_the_same_network_twice_has_two_names():
    assert open_source(f"{SMALL}+{SMALL}").layout.names == ("lite0-64/logits", "lite0-64~2/logits")


def test_networks_are_called_as_their_makers_call_them():
    names = ["torchvision:resnet18/IMAGENET1K_V1", "open_clip:ViT-B-32/openai", "open_clip:local-dir:nets/mine"]
    assert short_names(names) == ["resnet18", "ViT-B-32", "mine"]


def test_refinement_wants_one_network(work):
    with pytest.raises((SourceError, InputError), match="several networks"):
        yoro.fit(work.folder / "photos", source=BOTH, refine=1)
