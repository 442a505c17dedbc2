"""Verbs that change a model in place: two at once, and outputs that cannot be written."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import yoro
from command_line import invoke
from ordinary_user import ordinary
from photos import write_folder
from yoro.files.atomic import locked


@pytest.fixture
def work(tmp_path, digits):
    responses, labels = digits
    yoro.fit((responses[:200], labels[:200])).save(tmp_path / "m.yoro")
    for i in range(4):
        part = slice(200 + 10 * i, 210 + 10 * i)
        np.savez(tmp_path / f"{i}.npz", responses=responses[part], labels=labels[part])
    return tmp_path


def test_of_four_updates_at_once_none_is_lost(work, digits):
    words = [[sys.executable, "-m", "yoro", "update", "m.yoro", f"{i}.npz"] for i in range(4)]
    running = [subprocess.Popen(line, cwd=work, stderr=subprocess.PIPE, text=True) for line in words]
    said = [process.communicate()[1] for process in running]
    assert [process.returncode for process in running] == [0] * 4, said
    model = yoro.load(work / "m.yoro").model
    assert model.statistics.total == 240
    assert len(model.history) == 5
    whole = yoro.fit((digits[0][:240], digits[1][:240])).model
    np.testing.assert_allclose(model.mapping.weights, whole.mapping.weights, rtol=1e-7, atol=1e-9)


def test_a_second_writer_waits_and_says_for_whom(work):
    code = f"import pathlib, sys, yoro.files.atomic as a\nwith a.locked(pathlib.Path({str(work / 'm.yoro')!r})):\n"
    code += " print('held', flush=True); sys.stdin.read()"
    piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    words = [sys.executable, "-m", "yoro", "update", "m.yoro", "0.npz"]
    with subprocess.Popen([sys.executable, "-c", code], **piped) as holder:
        assert holder.stdout.readline() == "held\n"
        with subprocess.Popen(words, cwd=work, **piped) as waiting:
            assert f"is being changed by process {holder.pid}; waiting" in waiting.stderr.readline()
            holder.kill()  # the kernel lets go of its lock
            assert waiting.wait() == 0
    assert yoro.load(work / "m.yoro").model.statistics.total == 210


def test_a_thread_may_take_its_own_lock_again(work):
    with locked(work / "m.yoro"), locked(work / "m.yoro"):
        yoro.load(work / "m.yoro").save(work / "m.yoro", force=True)


@contextmanager
def a_small_disk(folder: Path):
    """A file system of 64 kB, where root may mount one."""
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", folder], capture_output=True)
    if made.returncode:
        pytest.skip("no file system can be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def reading(photos: Path) -> str:
    """A source that would tell if any image were read."""
    (photos.parent / "telling.py").write_text(
        "from pathlib import Path\n\n"
        "def respond(images):\n    Path('read').touch()\n    return images.mean(axis=(1, 2))\n"
    )
    return "callable:telling:respond"


OUTPUTS = {
    "fit": ["fit", "photos", "--out", "OUT/x.yoro"],
    "fit --html": ["fit", "photos", "--out", "x.yoro", "--html", "OUT/x.html"],
    "respond": ["respond", "photos", "--out", "OUT/x.npz"],
    "stats": ["stats", "photos", "--out", "OUT/x.stats"],
    "compare": ["compare", "photos", "--html", "OUT/x.html"],
}


@pytest.mark.parametrize("verb", OUTPUTS)
@pytest.mark.parametrize("trouble", ["no parent", "full disk", "no permission"])
def test_an_output_that_cannot_be_written_is_found_before_the_first_image(tmp_path, verb, trouble, monkeypatch):
    write_folder(tmp_path / "photos", count=2)
    source = reading(tmp_path / "photos")
    monkeypatch.chdir(tmp_path)
    words = [word.replace("OUT", "out") for word in OUTPUTS[verb]] + ["--source", source, "--workers", "0"]
    if trouble == "no permission":
        (tmp_path / "out").mkdir(mode=0o555)
        done = subprocess.run(ordinary(sys.executable, "-m", "yoro", *words), capture_output=True, text=True)
        code, said = done.returncode, done.stderr
    elif trouble == "full disk":
        with a_small_disk(tmp_path / "out"):
            ended = invoke(*words)
            code, said = ended.code, ended.stderr
    else:
        ended = invoke(*words)
        code, said = ended.code, ended.stderr
    assert code == 1, said
    assert len(said.strip().splitlines()) == 1, said
    assert {"no parent": "does not exist", "full disk": "No space left", "no permission": "Permission"}[trouble] in said
    assert not (tmp_path / "read").exists()
    assert not (tmp_path / "x.yoro").exists()


def test_a_model_that_cannot_be_written_back_is_noticed_before_images_are_read(work):
    place = work / "closed"
    place.mkdir()
    shutil.move(work / "m.yoro", place / "m.yoro")
    place.chmod(0o555)
    words = ordinary(sys.executable, "-m", "yoro", "update", place / "m.yoro", work / "missing.npz")
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 1
    assert "could not be written: Permission denied" in done.stderr


def test_warnings_are_spoken_when_they_happen(tmp_path):
    write_folder(tmp_path / "photos", count=1)
    code = (
        "import sys, warnings\nfrom yoro.cli.options import QuietOption\n"
        "with QuietOption().spoken_warnings():\n"
        " warnings.warn('now', stacklevel=1); print('then', file=sys.stderr, flush=True)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    assert said == "Note: now\nthen\n"
