"""Standard streams as people have them: closed, full, of few characters; and text of strangers on them."""

from __future__ import annotations

import csv
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from command_line import invoke
from photos import write_folder

YORO = [sys.executable, "-m", "yoro"]
ODD = "a\x1b[2J\nb\u202e.png"  # clears the screen, breaks the line, turns the text round


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with photographs, a fitted model, and broken images of odd names."""
    folder = tmp_path_factory.mktemp("streams")
    write_folder(folder / "photos", count=2)
    assert invoke("fit", folder / "photos", "--out", folder / "m.yoro", "--quiet", "--workers", 0).code == 0
    (folder / "odd").mkdir()
    (folder / "odd" / ODD).write_text("no image")
    (folder / "odd" / os.fsdecode(b"\xff.png")).write_text("no image")
    (folder / "odd" / "good.png").write_bytes(next((folder / "photos").rglob("*.jpg")).read_bytes())
    return folder


def run(words, cwd, redirect="", **env):
    line = " ".join([*YORO, *words, redirect])
    return subprocess.run(["sh", "-c", line], cwd=cwd, capture_output=True, env={**os.environ, **env})


@pytest.mark.parametrize("redirect", [">&-", "2>&-", ">&- 2>&-", ">/dev/full"])
def test_closed_and_full_streams_are_errors_of_ours(place, redirect):
    done = run(["models"], place, redirect)
    assert done.returncode == (0 if redirect == "2>&-" else 1)
    assert b"Traceback" not in done.stderr
    if "2>&-" not in redirect:
        assert done.stderr.startswith(b"yoro: "), done.stderr
    if "full" in redirect:
        assert done.stderr == b"yoro: No space is left on the device; the output is incomplete.\n"


def test_a_terminal_of_ascii_gets_escapes(place):
    ascii_only = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    done = run(["predict", "m.yoro", "odd", "--format", "csv"], place, **ascii_only)
    assert done.returncode == 1  # two images could not be read
    assert b"Traceback" not in done.stderr
    assert b"good.png" in done.stdout
    assert done.stderr.isascii()


def test_control_characters_of_names_are_shown_and_not_obeyed(place):
    done = invoke("predict", place / "m.yoro", place / "odd", "--format", "json")
    assert done.code == 1
    for text in (done.stderr, done.stdout):
        assert not {"\x1b", "\u202e"} & set(text)
    assert "\\x1b[2J" in done.stderr
    assert len([line for line in done.stderr.splitlines() if "no image" in line or "cannot" in line]) >= 2


def test_a_terminal_shows_rows_without_control_characters(place, tmp_path):
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / ODD).write_bytes((place / "odd" / "good.png").read_bytes())
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [*YORO, "predict", place / "m.yoro", "odd"], stdout=theirs, stderr=subprocess.PIPE, cwd=tmp_path
    )
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert done.returncode == 0, done.stderr
    assert "\\x1b[2J" in shown
    assert not {"\x1b", "\u202e"} & set(shown)


def test_names_that_are_no_text_can_be_written(place, tmp_path):
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / os.fsdecode(b"\xff.png")).write_bytes((place / "odd" / "good.png").read_bytes())
    for kind in ("csv", "json", "jsonl"):
        file = tmp_path / f"p.{kind}"
        done = invoke("predict", place / "m.yoro", tmp_path / "odd", "--out", file)
        assert (done.code, "udcff.png" in file.read_text("utf-8")) == (0, True), done.stderr


def test_a_cell_is_no_formula(tmp_path):
    labels = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "plain"]
    np.savez(tmp_path / "r.npz", responses=np.repeat(np.eye(5), 4, axis=0), labels=np.repeat(labels, 4))
    assert invoke("fit", tmp_path / "r.npz", "--out", tmp_path / "m.yoro").code == 0
    assert invoke("predict", tmp_path / "m.yoro", tmp_path / "r.npz", "--out", tmp_path / "p.csv").code == 0
    with (tmp_path / "p.csv").open(newline="") as file:
        cells = {row["label"] for row in csv.DictReader(file)}
    assert cells == {f"'{label}" for label in labels[:4]} | {"plain"}


def test_a_class_named_in_html_stays_text_in_the_card(tmp_path):
    responses, labels = np.random.default_rng(0).normal(size=(8, 4)), ["<script>x|y</script>", "`b`\n# head"] * 4
    np.savez(tmp_path / "r.npz", responses=responses, labels=np.array(labels))
    assert invoke("fit", tmp_path / "r.npz", "--out", tmp_path / "m.yoro").code == 0
    card = (tmp_path / "m.yoro" / "README.md").read_text()
    assert "<script>" not in card
    assert "\n# head" not in card


@pytest.mark.parametrize("seed", [2**64, -(2**64), 10**30])
def test_a_seed_beyond_the_generators_is_a_usage_of_ours(place, seed):
    done = invoke("fit", place / "photos", "--out", place / "never.yoro", "--seed", seed)
    assert done.code in (1, 2)
    assert "seed" in done.stderr
    assert not (place / "never.yoro").exists()


def test_spellings_of_one_class_are_one_class_and_said(tmp_path):
    write_folder(tmp_path / "a", count=2)
    photos = sorted((tmp_path / "a").rglob("*.jpg"))
    for name, photo in zip(("caf\u00e9", "cafe\u0301", "other", "other"), photos * 2, strict=False):
        (tmp_path / "b" / name).mkdir(parents=True, exist_ok=True)
        target = tmp_path / "b" / name / photo.name
        target.write_bytes(photo.read_bytes())
    done = invoke("fit", tmp_path / "b", "--out", tmp_path / "m.yoro")
    assert "spelled in two ways" in done.stderr
    config = json.loads((tmp_path / "m.yoro" / "config.json").read_text())
    assert config["classes"] == ["caf\u00e9", "other"]
    assert invoke("relabel", tmp_path / "m.yoro", "other=e\u0301", "--out", tmp_path / "n.yoro").code == 0
    assert json.loads((tmp_path / "n.yoro" / "config.json").read_text())["classes"] == ["caf\u00e9", "\u00e9"]


@pytest.mark.parametrize("name", [" ", "\u200b", "\t"])
def test_a_class_has_a_name_that_can_be_seen(tmp_path, name, place):
    write_folder(tmp_path / "a", count=2)
    next(path for path in (tmp_path / "a").iterdir() if path.is_dir()).rename(tmp_path / "a" / name)
    (tmp_path / "list.csv").write_text(f'path,label\n{Path("a.png")},"{name}"\n')
    np.savez(tmp_path / "r.npz", responses=np.ones((2, 3)), labels=np.array([name, "x"]))
    for data in ("a", "list.csv", "r.npz"):
        done = invoke("fit", tmp_path / data, "--out", tmp_path / "m.yoro")
        assert (done.code, (tmp_path / "m.yoro").exists()) == (1, False), done.stderr
        assert "Traceback" not in done.stderr
    assert invoke("relabel", place / "m.yoro", f"red={name}", "--out", tmp_path / "n.yoro").code == 1


def test_finished_cells_share_one_line_of_a_terminal_and_have_one_each_in_a_log():
    code = "from yoro.cli.bench import _done\nfor line in ('one done', 'two done'): _done(False)(line)"
    ours, theirs = pty.openpty()
    subprocess.run([sys.executable, "-c", code], stderr=theirs, check=True)
    os.close(theirs)
    told = os.read(ours, 1024)
    os.close(ours)
    assert b"one done" in told
    assert told.endswith(b"two done")
    assert b"\n" not in told
    logged = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    assert logged == "one done\ntwo done\n"
