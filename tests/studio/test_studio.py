"""A classifier by hand: what the page asks of the studio, asked by a client."""

from __future__ import annotations

import io
import json
import shutil
import threading
import zipfile

import numpy as np
import onnxruntime
import pytest
from PIL import Image

import yoro
from child import wait_until
from command_line import run
from studios import API, studio_at
from yoro.data.decoding import decode
from yoro.data.geometry import Geometry
from yoro.studio.page_data import OUTLIERS, TWINS
from yoro.trust.label_issues import find_issues


def test_photos_become_a_classifier_that_yoro_predict_answers_like(tmp_path, photos):
    with studio_at(tmp_path / "work") as studio:
        state = studio.settled()
        assert (state["learned"], state["accuracy"]) == (False, None)
        assert "at least two classes" in state["said"]
        for name in ("cat", "coffee", "rocket"):
            studio.add(name, sorted((photos / name).iterdir())[:5])
        state = studio.settled()
        assert [(c["name"], c["count"]) for c in state["classes"]] == [("cat", 5), ("coffee", 5), ("rocket", 5)]
        assert (state["learned"], state["measured"], state["needs"] in (1, 2, 3)) == (True, 15, True)
        assert state["interval"][0] <= state["accuracy"] <= state["interval"][1]
        assert [point[0] for point in state["curve"]][-1] == 15
        others = [photos / name / "005.jpg" for name in ("cat", "coffee", "rocket")]
        tried = [studio.tried(path.read_bytes()) for path in others]
        answer = studio.client.get(f"{API}/studio.yoro.zip")
        with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
            archive.extractall(tmp_path)
        rows = [
            json.loads(line)
            for line in run(
                "predict", tmp_path / "studio.yoro", *others, "--format", "jsonl", "--top", 3
            ).stdout.splitlines()
        ]
        assert [row["label"] for row in rows] == [one["label"] for one in tried] == ["cat", "coffee", "rocket"]
        assert [row["probability"] for row in rows] == pytest.approx(
            [t["bars"][0]["probability"] for t in tried], abs=2e-6
        )
        for name in ("cat", "coffee", "rocket"):
            (tmp_path / "same" / name).mkdir(parents=True)
            for file in sorted((photos / name).iterdir())[:5]:
                shutil.copy(file, tmp_path / "same" / name)
        fitted = yoro.fit(tmp_path / "same", read="logits").predict_proba(others)
        assert fitted.max(axis=1) == pytest.approx([row["probability"] for row in rows], abs=1e-6)
        session = onnxruntime.InferenceSession(studio.client.get(f"{API}/studio.onnx").content)
        page = studio.client.get(f"{API}/studio-web.zip")
        if page.status_code == 200:  # not where the package was built without npm
            with zipfile.ZipFile(io.BytesIO(page.content)) as archive:
                assert {"studio-web/index.html", "studio-web/model.packed", "studio-web/ort.packed"} <= set(
                    archive.namelist()
                )
        else:
            assert "built without the browser's runtime" in page.json()["error"]
        images = np.stack([decode(path, Geometry(224)) for path in others])
        found = session.run(["label"], {session.get_inputs()[0].name: images})[0]
        names = json.loads(session.get_modelmeta().custom_metadata_map["yoro.classes"])
        assert [names[i] for i in found] == ["cat", "coffee", "rocket"]
        report = studio.client.get(f"{API}/studio.html")
        assert "attachment" in report.headers["content-disposition"]
        assert "15 of 15 fitted" in report.text


def test_an_answer_says_why_and_what_is_unknown(taught, photos):
    answer = taught.tried((photos / "cat" / "001.jpg").read_bytes())
    assert (answer["label"], answer["unknown"]) == ("cat", False)
    assert answer["nearest"][0]["label"] == "cat"
    assert answer["nearest"][0]["similarity"] == pytest.approx(1.0)
    assert [part["reading"] for part in answer["parts"]] == ["logits"]
    assert answer["judged"]
    stream = io.BytesIO()
    Image.effect_noise((200, 200), 120).convert("RGB").save(stream, "PNG")
    assert taught.tried(stream.getvalue())["unknown"]


def test_removing_and_undoing_is_as_if_nothing_had_been(taught, photos):
    cat = (photos / "cat" / "002.jpg").read_bytes()
    before, answer = taught.settled(), taught.tried(cat)
    number = next(c["id"] for c in before["classes"] if c["name"] == "cat")
    gone = [photo["digest"] for photo in taught.photos(number)[:3]]
    taught.post("remove", photos=gone)
    assert taught.settled()["photos"] == before["photos"] - 3
    assert taught.tried(cat)["bars"] != answer["bars"]
    assert taught.post("undo")["what"] == "Remove 3 photos"
    taught.settled()
    assert taught.tried(cat)["bars"] == answer["bars"]
    assert [photo["digest"] for photo in taught.photos(number)[:3]] == gone


def test_a_wrong_label_is_suspicious_and_in_the_matrix(taught, photos):
    cat, coffee = (next(c["id"] for c in taught.settled()["classes"] if c["name"] == n) for n in ("cat", "coffee"))
    wrong = taught.photos(cat)[0]["digest"]
    taught.post("move", photos=[wrong], to=coffee)
    state = taught.settled()
    assert taught.photos(-1)[0]["digest"] == wrong
    assert state["suspicious"] >= 1
    shown = next(photo for photo in taught.photos(coffee) if photo["digest"] == wrong)
    assert (shown["guess"], shown["doubtful"]) == ("cat", True)
    matrix = taught.get("confusion")
    at = matrix["classes"].index
    assert matrix["counts"][at("coffee")][at("cat")] == 1
    cell = taught.get("cell", truth="coffee", answer="cat")
    assert [photo["digest"] for photo in cell["photos"]] == [wrong]
    taught.post("undo")
    taught.settled()
    assert wrong not in [photo["digest"] for photo in taught.photos(-1)]


def test_unsorted_photos_have_a_guess_and_are_not_learned(taught, photos):
    rotated = io.BytesIO()
    Image.open(photos / "rocket" / "000.jpg").transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(rotated, "JPEG")
    before = taught.settled()
    taught.send({"new.jpg": rotated.getvalue()})
    state = taught.settled()
    assert (state["unsorted"], state["measured"]) == (1, before["measured"])
    assert taught.photos(0)[0]["guess"] == "rocket"
    taught.post("undo")


def test_groups_of_unsorted_photos_are_split_and_joined(studio, photos):
    studio.send(sorted(photos.rglob("*.jpg")))
    wait_until(lambda: studio.get("tray")["waiting"] == 0)
    first, *rest = studio.get("tray")["groups"]
    studio.post("tray/split", photos=first)
    one, two, *others = studio.get("tray")["groups"]
    assert sorted(one + two) == sorted(first)
    assert others == rest
    studio.post("tray/join", photos=one + two)
    assert [sorted(group) for group in studio.get("tray")["groups"]] == [sorted(group) for group in (first, *rest)]
    refused = studio.client.post(f"{API}/tray/join", json={"photos": ["0" * 32]})
    assert (refused.status_code, "no longer in a group" in refused.text) == (422, True)
    studio.post("remove", photos=[photo["digest"] for photo in studio.photos()])


def test_archives_become_classes_by_their_folders(studio, photos):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in ("cat", "rocket"):
            for split, file in (("train", "000.jpg"), ("test", "001.jpg")):
                archive.write(photos / name / file, f"set/{split}/{name}/{file}")
        archive.writestr("set/train/cat/broken.jpg", b"no photo")
    added = studio.send({"set.zip": stream.getvalue()})
    assert (added["new"], added["tests"]) == (4, 2)
    assert [sentence.split(": ")[0] for sentence in added["refused"]] == [
        "'set/train/cat/broken.jpg' cannot be read as an image"
    ]
    state = studio.settled()
    assert (state["tests"], state["tested"]["measured"]) == (2, 2)
    assert [(c["name"], c["count"]) for c in state["classes"]] == [("cat", 1), ("rocket", 1)]
    assert studio.send({"set.zip": stream.getvalue()})["known"] == 4
    studio.post("undo")
    assert studio.settled()["classes"] == []


def test_a_folder_that_is_sent_names_its_class(studio, photos):
    files = sorted((photos / "cat").iterdir())[:2]
    assert studio.send(files, name="tom")["new"] == 2
    assert studio.send(sorted((photos / "cat").iterdir())[2:3], name="tom")["new"] == 1
    assert [(c["name"], c["count"]) for c in studio.get("state")["classes"]] == [("tom", 3)]
    studio.post("undo")
    studio.post("undo")


def test_a_page_that_waits_hears_of_what_another_did(studio):
    state = studio.settled()
    studio.post("classes", name="cat")
    heard = studio.get("state", after=state["version"])
    assert heard["version"] > state["version"]
    assert [c["name"] for c in heard["classes"]] == ["cat"]
    studio.post("undo")


def test_classes_are_renamed_removed_and_come_back_with_their_photos(taught):
    state = taught.settled()
    number = next(c["id"] for c in state["classes"] if c["name"] == "cat")
    taught.post(f"classes/{number}/name", name="tiger")
    taught.post(f"classes/{number}/remove")
    after = taught.settled()
    assert (after["unsorted"], [c["name"] for c in after["classes"]]) == (6, ["astronaut", "coffee", "rocket"])
    taught.post("undo")
    assert {c["name"]: c["count"] for c in taught.settled()["classes"]}["tiger"] == 6
    taught.post("undo")
    again = taught.settled()
    assert (again["classes"], again["accuracy"]) == (state["classes"], state["accuracy"])


def test_told_to_end_it_ends_though_pages_wait(tmp_path):
    with studio_at(tmp_path / "work") as studio:
        version = studio.settled()["version"]
        waiting = threading.Thread(target=lambda: studio.client.get(f"{API}/state", params={"after": version}))
        waiting.start()
        studio.process.terminate()
        assert studio.process.wait(15) == 0
        waiting.join()


def test_what_cannot_be_begun_with_is_an_error_that_says_so(tmp_path):
    for given, said in (("m.yoro", "does not exist"), ("nothing", "not a model")):
        done = run("studio", tmp_path / given, "--work", tmp_path / "work", "--port", 0, code=1)
        assert said in done.stderr
    (tmp_path / "file").write_text("")
    assert "is a file" in run("studio", "--work", tmp_path / "file", "--port", 0, code=1).stderr
    assert not (tmp_path / "work").exists()


def test_what_is_like_no_other_and_what_is_there_twice_is_listed(tmp_path, photos):
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    Image.open(photos / "cat" / "000.jpg").save(folder / "coffee" / "again.png")  # the same picture in another file
    Image.effect_noise((200, 200), 120).convert("RGB").save(folder / "rocket" / "noise.png")
    with studio_at(tmp_path / "work", folder) as studio:
        studio.settled()
        wait_until(lambda: studio.get("state")["judged"])
        state = studio.get("state")
        assert (state["outliers"], state["twins"]) == (len(studio.photos(OUTLIERS)), len(studio.photos(TWINS)))
        assert "noise.png" in [photo["name"] for photo in studio.photos(OUTLIERS)]
        twins = [(photo["name"], photo["label"]) for photo in studio.photos(TWINS)]
        assert {("000.jpg", "cat"), ("again.png", "coffee")} <= set(twins)
        twin = next(photo["digest"] for photo in studio.photos(TWINS) if photo["name"] == "again.png")
        studio.post("remove", photos=[twin])
        assert twin not in [photo["digest"] for photo in studio.photos(TWINS)]  # before all is judged anew
        studio.settled()
        studio.post("undo")
        studio.settled()
        assert [(photo["name"], photo["label"]) for photo in studio.photos(TWINS)] == twins
        model = yoro.fit(folder, read="logits")
        found = find_issues(model, folder)
        assert {issue.digest for issue in found.of("outlier")} == {p["digest"] for p in studio.photos(OUTLIERS)}
        assert {issue.digest for issue in found.of("near duplicate")} <= {p["digest"] for p in studio.photos(TWINS)}
