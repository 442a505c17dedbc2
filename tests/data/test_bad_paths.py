"""One bad path never ends a fit: it is named and skipped, the rest is fitted, and the exit code is 1."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import yoro
from command_line import invoke
from ordinary_user import ordinary
from photos import write_folder
from yoro.model import pipeline

SOURCE = ["--source", "embedded:lite0?side=32"]


def good(folder):
    return write_folder(folder, count=3, names=("cat", "rocket"))


def fitted(folder, *more):
    """What a fit said of a folder with six good images and something bad."""
    ended = invoke("fit", folder, "--out", folder.parent / "m.yoro", *SOURCE, "--workers", 1, *more)
    assert ended.code == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert yoro.load(folder.parent / "m.yoro").model.statistics.total == 6
    return ended.stderr


def test_a_link_that_leads_to_itself(tmp_path):
    (good(tmp_path / "p") / "cat" / "loop.jpg").symlink_to("loop.jpg")
    assert "'cat/loop.jpg' cannot be read as an image: Too many levels of symbolic links" in fitted(tmp_path / "p")


def test_two_links_that_lead_to_each_other(tmp_path):
    folder = good(tmp_path / "p") / "cat"
    (folder / "a.jpg").symlink_to("b.jpg")
    (folder / "b.jpg").symlink_to("a.jpg")
    (folder / "inner").symlink_to(folder)  # a folder in a circle is read once, and no trouble
    assert "2 images could not be read" in fitted(tmp_path / "p")


def test_a_link_that_leads_nowhere(tmp_path):
    (good(tmp_path / "p") / "cat" / "gone.jpg").symlink_to("nowhere")
    assert "'cat/gone.jpg' cannot be read as an image: there is no such file" in fitted(tmp_path / "p")


def test_names_that_are_no_text(tmp_path):
    folder = good(tmp_path / "p") / "cat"
    raw = os.fsencode(folder)
    for name in (b"\xff\xfe.jpg", b"\xff\xfd.jpg"):
        shutil.copy(folder / "000.jpg", raw + b"/" + name)
    Path(os.fsdecode(raw + b"/\xff\xfc.jpg")).write_bytes(b"no image")
    ended = invoke("fit", tmp_path / "p", "--out", tmp_path / "m.yoro", *SOURCE, "--workers", 1)
    assert ended.code == 1
    assert "1 image could not be read" in ended.stderr
    assert yoro.load(tmp_path / "m.yoro").model.statistics.total == 8
    predicted = invoke("predict", tmp_path / "m.yoro", tmp_path / "p", "--workers", 1)
    assert predicted.code == 1
    assert len(predicted.stdout.splitlines()) == 9


def test_rows_that_point_nowhere_or_are_no_paths_at_all(tmp_path):
    good(tmp_path / "p")
    rows = [f"p/{label}/00{i}.jpg,{label}" for label in ("cat", "rocket") for i in range(3)]
    rows += ["p/none.jpg,cat", f"p/{'x' * 5000}.jpg,cat", "p/cat,cat", "/dev/zero,cat", "p/\x00.jpg,rocket"]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]))
    ended = invoke("fit", tmp_path / "list.csv", "--out", tmp_path / "m.yoro", *SOURCE, "--workers", 1)
    assert ended.code == 1
    assert "5 images could not be read" in ended.stderr
    assert "File name too long" in ended.stderr
    assert "it is not a regular file" in ended.stderr
    assert yoro.load(tmp_path / "m.yoro").model.statistics.total == 6


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_is_closed_to_us(tmp_path, what):
    inner = good(tmp_path / "p") / "cat" / "inner"
    inner.mkdir()
    shutil.copy(tmp_path / "p" / "cat" / "000.jpg", inner / "more.jpg")
    (inner if what == "folder" else inner / "more.jpg").chmod(0)
    words = ordinary(sys.executable, "-m", "yoro", "fit", tmp_path / "p", "--out", tmp_path / "m.yoro", *SOURCE)
    done = subprocess.run(words, capture_output=True, text=True)
    inner.chmod(0o755)
    assert done.returncode == 1, done.stderr
    assert "Permission denied" in done.stderr
    assert "cat/inner" in done.stderr
    assert yoro.load(tmp_path / "m.yoro").model.statistics.total == 6


def test_a_class_folder_that_is_closed_ends_it_before_the_pass(tmp_path):
    (good(tmp_path / "p") / "cat").chmod(0)
    words = ordinary(sys.executable, "-m", "yoro", "fit", tmp_path / "p", "--out", tmp_path / "m.yoro", *SOURCE)
    done = subprocess.run(words, capture_output=True, text=True)
    (tmp_path / "p" / "cat").chmod(0o755)
    assert done.returncode == 1
    assert "The class folder 'cat' cannot be opened: Permission denied" in done.stderr
    assert not (tmp_path / "m.yoro").exists()


def test_a_file_that_vanishes_during_the_pass(tmp_path, monkeypatch):
    folder = good(tmp_path / "p")
    shutil.copy(folder / "cat" / "000.jpg", folder / "cat" / "vanishing.jpg")
    load = pipeline.load

    def late(*given, **named):
        (folder / "cat" / "vanishing.jpg").unlink()
        return load(*given, **named)

    monkeypatch.setattr(pipeline, "load", late)
    assert "there is no such file" in fitted(folder)
