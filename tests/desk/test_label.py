"""`yoro label` on a small folder of photos: its groups, its journal, and what comes of it."""

from __future__ import annotations

import csv
import os
import shutil

import pytest
from PIL import Image

from command_line import run
from desks import API, desk_at
from photos import crops, write_folder

NAMES = ("cat", "coffee", "rocket")
FAST = ("--read", "logits", "--workers", "0")


@pytest.fixture
def pile(tmp_path):
    """Photos of three classes in one folder, without their labels but for their names."""
    source, folder = write_folder(tmp_path / "source", 6, names=NAMES), tmp_path / "pile"
    folder.mkdir()
    for file in sorted(source.rglob("*.jpg")):
        file.rename(folder / f"{file.parent.name}-{file.name}")
    shutil.rmtree(source)
    return folder


def truth(photo) -> str:
    return photo["name"].rpartition("/")[2].partition("-")[0]


def label_all(desk) -> None:
    """Name every group, and label what is thrown out one by one."""
    while groups := desk.state()["groups"]:
        group = groups[0]["group"]
        photos = desk.photos("group", group)
        label = truth(photos[0])
        desk.step("name", group=group, label=label)
        if strangers := [photo["row"] for photo in photos if truth(photo) != label]:
            desk.step("throw-out", group=group, rows=strangers)
    for photo in desk.photos("rest"):
        desk.step("label", rows=[photo["row"]], label=truth(photo))


def listed(folder) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def found(folder) -> dict[str, set[str]]:
    return {place.name: {file.name for file in place.iterdir()} for place in sorted(folder.iterdir()) if place.is_dir()}


def test_a_pile_becomes_a_folder_for_each_class_and_back(pile, tmp_path):
    into, before = tmp_path / "photos", listed(pile)
    with desk_at(pile, "--into", into, "--list", tmp_path / "l.csv", "--move", *FAST) as desk:
        assert desk.client.get(f"{API}/small/0").headers["content-type"] == "image/jpeg"
        label_all(desk)
        assert desk.learned()["rest"] == 0
        assert "18 photos of 3 classes" in desk.write()
        assert {name: len(files) for name, files in found(into).items()} == dict.fromkeys(NAMES, 6)
        assert all(file.startswith(name) for name, files in found(into).items() for file in files)
        assert listed(pile) == []
        desk.step("leave-out", rows=[0])
        assert "17 photos" in desk.write()  # what is not labelled any more is back in the pile
        assert len(listed(pile)) == 1
        desk.step("undo")
        desk.write()
    with (tmp_path / "l.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {(row["path"].rpartition("/")[2].partition("-")[0]) == row["label"] for row in rows} == {True}
    with desk_at(pile, "--into", into, "--move", *FAST) as desk:  # every photo is moved away
        assert desk.state()["labelled"] == 18
        assert "18 photos" in desk.write()
    run("label", "--undo", "--into", into)
    assert listed(pile) == before
    assert not into.exists()


def test_a_killed_desk_goes_on_where_it_was_and_reads_nothing_twice(pile, tmp_path):
    words = ("--into", tmp_path / "photos", *FAST)
    with desk_at(pile, *words) as desk:
        group = desk.state()["groups"][0]["group"]
        desk.step("name", group=group, label="first")
        desk.step("split", group=desk.state()["groups"][0]["group"])
        desk.step("undo")
        before = desk.state()
        desk.process.kill()
    shutil.copy(pile / "cat-000.jpg", pile / "later.jpg")
    Image.fromarray(crops("astronaut", 1)[0]).save(pile / "later.jpg")
    with desk_at(pile, *words) as desk:
        assert "18 photos read before." in desk.log.read_text()
        now = desk.state()
        assert now["photos"] == 19
        keys = ("labelled", "decisions", "groups", "classes", "undo", "redo")
        assert {key: now[key] for key in keys} == {key: before[key] for key in keys}
        assert desk.step("redo")["told"].startswith("Split")


@pytest.mark.long
def test_one_folder_has_one_desk_and_one_network(pile, tmp_path):
    words = ("--into", tmp_path / "photos", *FAST)
    with desk_at(pile, *words):
        other = run("label", pile, *words, "--port", "0", code=1)
        assert "Another desk has" in other.stderr
    other = run("label", pile, "--into", tmp_path / "photos", "--read", "features", "--port", "0", code=1)
    assert "begun with another --source" in other.stderr


def test_groups_are_written_without_a_page_and_are_the_same_each_time(pile, tmp_path):
    for name in ("one", "two"):
        run("label", pile, "--groups", tmp_path / name, *FAST)
    assert found(tmp_path / "one") == found(tmp_path / "two")
    assert sum(map(len, found(tmp_path / "one").values())) == 18
    run("label", pile, "--groups", tmp_path / "g.csv", *FAST)
    with (tmp_path / "g.csv").open() as file:
        named = {row["path"].rpartition("/")[2]: row["label"] for row in csv.DictReader(file)}
    assert named == {file: group for group, files in found(tmp_path / "one").items() for file in files}
    assert "1" in run("label", "--undo", "--into", tmp_path / "one").stderr
    assert not (tmp_path / "one").exists()


@pytest.mark.skipif(os.name == "nt", reason="such names cannot be on Windows")
def test_hostile_names_stay_names(pile, tmp_path):
    odd = [b"<img src=x onerror=alert(1)>.jpg", b"-rf .jpg", b"=1+1.jpg", b"not\xffutf8.jpg", b"new\nline.jpg"]
    for name, file in zip(odd, sorted(pile.iterdir()), strict=False):
        os.rename(file, os.path.join(os.fsencode(pile), name))  # noqa: PTH104, PTH118
    into = tmp_path / "photos"
    with desk_at(pile, "--into", into, "--move", *FAST) as desk:
        rows = [photo["row"] for photo in desk.photos("rest")]
        desk.step("label", rows=rows[:9], label="../../escape")
        desk.step("label", rows=rows[9:], label="CON:<b>")
        assert "18 photos" in desk.write()
        answer = desk.client.post(f"{API}/step/label", json={"rows": [0], "label": "\x00\n"})
        assert answer.status_code == 422
        assert desk.client.post(f"{API}/step/nothing", json={}).status_code == 404
        assert desk.client.get(f"{API}/state", headers={"origin": "http://evil.example"}).status_code == 403
        assert desk.client.get(f"{API}/state", headers={"host": "evil.example"}).status_code == 403
    assert set(found(into)) == {"_.._escape", "CON__b_"}
    assert not (tmp_path.parent / "escape").exists()
    run("label", "--undo", "--into", into)
    assert set(odd) <= set(map(os.fsencode, listed(pile)))


def test_a_damaged_journal_is_said_and_an_untrusted_manifest_writes_images_only(pile, tmp_path):
    work, into = tmp_path / "w", tmp_path / "photos"
    work.mkdir()
    (work / "desk.sqlite").write_bytes(b"nonsense" * 1000)
    assert "is damaged" in run("label", pile, "--into", into, "--work", work, "--port", "0", *FAST, code=1).stderr
    run("label", pile, "--groups", into, "--move", *FAST)
    manifest = into / ".yoro-sorted.jsonl"
    text = manifest.read_text().replace("pile/cat-000.jpg", "pile/cat.sh")
    manifest.write_text(text.replace("/pile/cat-001", "/no/cat"))
    told = run("label", "--undo", "--into", into).stderr
    assert told.count("Kept") == 2
    assert len(listed(pile)) == 16
    assert not (pile / "cat.sh").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ((), 2, "PILE is missing"),
        (("pile",), 2, "--into FOLDER"),
        (("pile", "--into", "a", "--groups", "b"), 2, "--into FOLDER"),
        (("--undo",), 2, "--undo needs --into"),
        (("pile", "--groups", "g", "--link", "--move"), 1, "not both"),
        (("pile", "--into", "pile/in"), 1, "is inside the pile"),
        (("none", "--into", "a"), 1, "does not exist"),
    ],
)
def test_what_makes_no_sense_is_said_before_anything_is_read(pile, words, code, message):
    assert message in run("label", *words, cwd=pile.parent, code=code).stderr
