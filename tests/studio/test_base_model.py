"""Work that begins with a model: its sums go on, its photos are not there unless they are given."""

from __future__ import annotations

import io
import shutil
import zipfile

import numpy as np
import pytest

import yoro
from studios import API, studio_at
from yoro import limits
from yoro.errors import InputError
from yoro.http.uploads import Upload
from yoro.model.store import OWN, read_model
from yoro.studio.base_model import base_of, check_openable, sent_model
from yoro.studio.workspace import Workspace

NAMES = ("cat", "coffee", "rocket")


def some(photos, folder, count=5, names=NAMES):
    """A folder with the first photos of classes."""
    for name in names:
        (folder / name).mkdir(parents=True)
        for file in sorted((photos / name).iterdir())[:count]:
            shutil.copy(file, folder / name)
    return folder


def zipped(path, name="m.yoro"):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for part in path.iterdir():
            archive.write(part, f"{name}/{part.name}")
    return stream.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory, photos):
    return some(photos, tmp_path_factory.mktemp("some") / "photos")


@pytest.fixture(scope="module", params=["whole", "sample"])
def fitted(request, tmp_path_factory, folder):
    """A model that keeps every response, and one that keeps some of them; each saved."""
    path = tmp_path_factory.mktemp(request.param) / "m.yoro"
    yoro.fit(folder, read="logits", reservoir=8192 if request.param == "whole" else 10).save(path)
    return path


def shares(studio, files):
    """What the studio answers, as probabilities in the order of the classes."""
    bars = [{bar["name"]: bar["probability"] for bar in studio.tried(file.read_bytes())["bars"]} for file in files]
    return np.array([[one[name] for name in sorted(one)] for one in bars])


@pytest.mark.long
def test_a_model_goes_on_as_update_forget_and_relabel_would(fitted, tmp_path, photos, folder):
    others = [photos / name / "005.jpg" for name in NAMES]
    near = {"abs": 2e-6}  # the page is told six digits
    with studio_at(tmp_path / "work", fitted) as studio:
        state = studio.settled()
        assert [(c["name"], c["count"], c["unseen"]) for c in state["classes"]] == [(n, 0, 5) for n in NAMES]
        assert (state["model"], state["photos"]) == ({"name": "m", "unseen": 15}, 0)
        model = yoro.load(fitted)
        kept = len(model.model.reservoir)
        assert state["measured"] == kept
        assert shares(studio, others) == pytest.approx(model.predict_proba(others), **near)

        studio.add("astronaut", sorted((photos / "astronaut").iterdir())[:4])
        added = studio.settled()
        assert added["measured"] <= kept + 4
        model.update([(str(file), "astronaut") for file in sorted((photos / "astronaut").iterdir())[:4]])
        assert shares(studio, others) == pytest.approx(model.predict_proba(others), **near)

        studio.post("classes/1/name", name="tiger")
        assert studio.settled()["classes"][0]["name"] == "tiger"
        model.relabel({"cat": "tiger"})
        assert shares(studio, others) == pytest.approx(model.predict_proba(others), **near)
        for _ in range(3):
            studio.post("undo")
        assert [c["name"] for c in studio.settled()["classes"]] == list(NAMES)
        assert shares(studio, others) == pytest.approx(yoro.load(fitted).predict_proba(others), **near)
        studio.kill()
    with studio_at(tmp_path / "work", folder) as studio:  # the model is in the work folder; its photos are given now
        state = studio.settled()
        assert [(c["name"], c["count"], c["unseen"]) for c in state["classes"]] == [(n, 5, 0) for n in NAMES]
        assert state["measured"] == kept  # none counts twice
        assert shares(studio, others) == pytest.approx(yoro.load(fitted).predict_proba(others), **near)
        first = studio.photos(1)[0]
        studio.post("remove", photos=[first["digest"]])
        less = studio.settled()
        assert (less["classes"][0]["count"], less["classes"][0]["unseen"]) == (4, 0)
        model = yoro.load(fitted)
        model.forget([(str(folder / "cat" / first["name"]), "cat")])
        assert shares(studio, others) == pytest.approx(model.predict_proba(others), **near)
        assert studio.send([folder / "cat" / first["name"]], belongs=2)["moved"] == 1  # it comes back as coffee
        studio.settled()
        model.update([(str(folder / "cat" / first["name"]), "coffee")])
        assert shares(studio, others) == pytest.approx(model.predict_proba(others), **near)
        answer = studio.client.get(f"{API}/studio.yoro.zip")
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            archive.extractall(tmp_path / "home")
        home = yoro.load(tmp_path / "home" / "studio.yoro")
        assert home.predict_proba(others) == pytest.approx(model.predict_proba(others), abs=1e-9)
        assert [step["verb"] for step in home.model.history] == ["fit", "studio"]
        assert "Fit: 3 classes" in studio.client.get(f"{API}/studio.html").text


def test_a_class_of_a_model_goes_if_its_responses_are_kept(fitted, tmp_path, photos):
    whole = base_of("", read_model(fitted)).whole
    with studio_at(tmp_path / "work", fitted) as studio:
        studio.settled()
        answer = studio.client.post(f"{API}/classes/3/remove")
        if not whole:
            assert answer.status_code == 422
            assert "keeps no responses" in answer.json()["error"]
            return
        assert answer.status_code == 200
        state = studio.settled()
        assert [(c["name"], c["unseen"]) for c in state["classes"]] == [("cat", 5), ("coffee", 5)]
        assert state["measured"] == 10
        two = yoro.fit(some(photos, tmp_path / "two", names=NAMES[:2]), read="logits")
        other = photos / "cat" / "005.jpg"
        assert shares(studio, [other]) == pytest.approx(two.predict_proba([other]), abs=2e-6)
        studio.post("undo")
        assert studio.settled()["measured"] == 15


def test_a_page_opens_a_model_and_every_tab_hears_of_it(studio, fitted, photos):
    version = studio.settled()["version"]
    send = {"files": [("files", ("m.yoro.zip", zipped(fitted), "application/zip"))]}
    assert studio.client.post(f"{API}/model", **send).json() == {"new": True}
    heard = studio.get("state", after=version)
    assert heard["model"]["name"] == "m"
    assert studio.settled()["learned"]
    assert studio.client.post(f"{API}/model", **send).json() == {"new": False}
    assert studio.post("undo")["what"] == "Open the model m"
    state = studio.settled()
    assert (state["model"], state["classes"], state["learned"]) == (None, [], False)
    studio.post("redo")
    assert studio.settled()["learned"]
    studio.post("undo")


def test_what_is_no_model_or_another_kind_of_model_is_refused(studio, fitted, tmp_path, folder):
    yoro.fit(folder, read="features").save(tmp_path / "features.yoro")
    damaged = bytearray(zipped(fitted))
    damaged[len(damaged) // 2] ^= 1
    for name, content, said in (
        ("other.yoro.zip", zipped(tmp_path / "features.yoro"), "differ in"),
        ("photos.zip", zipped(folder / "cat"), "No model"),
        ("no.zip", b"no archive", "cannot be read as an archive"),
        ("damaged.zip", bytes(damaged), ""),
    ):
        answer = studio.client.post(f"{API}/model", files=[("files", (name, content, "application/zip"))])
        assert answer.status_code == 422, name
        assert said in answer.json()["error"]
        assert "/tmp" not in answer.json()["error"]
    assert studio.get("state")["model"] is None
    given = np.random.default_rng(0).normal(size=(8, 4)), ["a", "b"] * 4
    with pytest.raises(InputError, match="on responses"):
        check_openable(yoro.fit(*given).model, "numbers")


def test_an_archive_that_unpacks_beyond_all_use_is_not_unpacked(monkeypatch, fitted):
    monkeypatch.setattr(limits, "STUDIO_MODEL_BYTES", 1000)
    with pytest.raises(InputError, match="more than 1,000 bytes"):
        sent_model([Upload("m.yoro.zip", zipped(fitted))])
    parts = [Upload(f"a/b/m.yoro/{name}", (fitted / name).read_bytes()) for name in OWN if (fitted / name).exists()]
    model, name = sent_model([*parts, Upload("../../evil.py", b"x")])
    assert (name, model.statistics.total) == ("m", 15)


def test_two_models_cannot_be_begun_with(fitted, tmp_path, folder):
    work = Workspace(tmp_path / "work")
    assert work.open(read_model(fitted), "m")
    assert not work.open(read_model(fitted), "again")
    other = yoro.fit(folder, read="logits", shrinkage=0.5).model
    with pytest.raises(InputError, match="already open"):
        work.open(other, "other")
    work.close()
