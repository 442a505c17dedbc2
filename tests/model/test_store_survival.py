"""A model survives every way its writer can die: killed at each system call of a save, watched from outside."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import yoro
from command_line import invoke
from photos import write_folder
from yoro.files.atomic import drafted_file
from yoro.model.store import read_model, write_model

pytestmark = [
    pytest.mark.skipif(
        shutil.which("strace") is None, reason="strace is not installed: nobody can kill at a system call"
    ),
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]
EXCHANGES = {"exchange": [], "no exchange": ["-e", "inject=renameat2:error=ENOSYS"]}


def model_of(n: int):
    rng = np.random.default_rng(n)
    return yoro.fit((rng.normal(size=(n, 4)), np.array(["a", "b"] * (n // 2)))).model


@pytest.fixture(scope="module")
def models():
    return model_of(20), model_of(40)


def traced(act, trace: Path, *options: str) -> int:
    """How a child ended that did `act` under strace, which sees nothing of what was before."""
    child = os.fork()
    if child == 0:
        os.kill(os.getpid(), signal.SIGSTOP)
        try:
            act()
        finally:
            os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    watcher = subprocess.Popen(["strace", "-qq", "-o", trace, "-p", str(child), *options], stderr=subprocess.DEVNULL)
    while "TracerPid:\t0" in Path(f"/proc/{child}/status").read_text():
        time.sleep(0.001)
    os.kill(child, signal.SIGCONT)
    ended = os.waitpid(child, 0)[1]
    watcher.wait()
    return ended


def calls(act, trace: Path, options: list[str]) -> Counter[str]:
    """How often `act` makes each system call that names or changes a file."""
    assert traced(act, trace, "-e", "trace=%file,%desc,fsync", *options) == 0
    return Counter(re.findall(r"^(\w+)\(", trace.read_text(), re.MULTILINE))


CHANGING = {"rename", "renameat2", "mkdir", "rmdir", "unlink", "unlinkat", "link", "linkat", "write", "chmod", "flock"}


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_killed_at_any_call_that_changes_something_the_model_is_the_old_or_the_new_one(tmp_path, models, exchange):
    kill_everywhere(tmp_path, models, EXCHANGES[exchange], CHANGING.__contains__)


@pytest.mark.long
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("linked", [False, True], ids=["plain", "linked"])
def test_killed_at_any_system_call_the_model_is_the_old_or_the_new_one(tmp_path, models, exchange, linked):
    kill_everywhere(tmp_path, models, EXCHANGES[exchange], lambda _: True, linked=linked)


def kill_everywhere(tmp_path, models, options, wanted, *, linked=False):
    """Save a new model over an old one, killed at each call in turn; look at what is left, and save again."""
    old, new = models
    place, trace = tmp_path / "models", tmp_path / "trace"
    target = named = place / "m.yoro"
    place.mkdir()
    if linked:
        named = place / "link.yoro"
        named.symlink_to(target)
    write_model(old, target)
    (target / "notes.txt").write_text("mine")
    target.chmod(0o750)

    def save():
        write_model(new, named, force=True)

    killed, seen = 0, Counter()
    counted = {call: count for call, count in calls(save, trace, options).items() if wanted(call)}
    for call, count in counted.items():
        for when in range(1, count + 1):
            write_model(old, target, force=True)
            words = ["-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={when}", *options]
            killed += os.WIFSIGNALED(traced(save, trace, *words))
            found = read_model(named).statistics.total
            seen[found] += 1
            assert (target / "notes.txt").read_text() == "mine"
            write_model(old, named, force=True)
            assert sorted(p.name for p in place.iterdir()) == sorted({"m.yoro", named.name}), (call, when)
            assert target.stat().st_mode & 0o777 == 0o750
            assert not target.is_symlink()
    assert killed > 0.9 * sum(counted.values())  # the number of calls varies a little
    assert set(seen) == {20, 40}, seen  # kills fell before and after the moment of the change


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_readers_beside_a_writer_see_the_old_or_the_new_model(tmp_path, models, exchange):
    old, new = models
    target, enough = tmp_path / "m.yoro", tmp_path / "enough"
    write_model(old, target)
    writer = (
        "import sys; from itertools import cycle; from pathlib import Path\n"
        "from yoro.model.store import read_model, write_model\n"
        "for model in cycle([read_model(path) for path in sys.argv[2:]]):\n"
        f" if Path({str(enough)!r}).exists(): break\n"
        " write_model(model, sys.argv[1], force=True)\n"
    )
    for name, model in (("one", old), ("two", new)):
        write_model(model, tmp_path / f"{name}.yoro")
    words = [sys.executable, "-c", writer, target, tmp_path / "one.yoro", tmp_path / "two.yoro"]
    process = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", *EXCHANGES[exchange], *words])
    seen: list[float] = []
    try:
        while sum(one != two for one, two in pairwise(seen)) < 20:  # the reader saw twenty changes
            assert process.poll() is None
            seen.append(read_model(target).statistics.total)
    finally:
        enough.touch()
        ended = process.wait()
    assert ended == 0
    assert set(seen) == {20, 40}


def test_drafts_of_the_living_are_left_alone(tmp_path, models):
    with drafted_file(tmp_path / "f") as draft:
        code = f"import pathlib, yoro.files.atomic as a; a.write_file(pathlib.Path({str(tmp_path / 'f')!r}), b'x')"
        subprocess.run([sys.executable, "-c", code], check=True)
        assert draft.exists()
        draft.write_bytes(b"y")
    assert (tmp_path / "f").read_bytes() == b"y"
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


TIDYING = """
import sys
import yoro.model.one_pass
yoro.model.checkpoint.SECONDS_BETWEEN = 0.0  # a checkpoint after every batch
yoro.model.checkpoint.SHARE_OF_TIME = 1e9
from yoro.cli.app import main
main(sys.argv[1:])
"""


@pytest.mark.long
def test_killed_while_it_tidies_up_a_fit_is_resumed_cleanly(tmp_path):
    pictures = tmp_path / "photos"
    write_folder(pictures, count=2)
    place, trace = tmp_path / "out", tmp_path / "trace"
    place.mkdir()
    words = ["fit", str(pictures), "--out", str(place / "m.yoro"), "--workers", "0", "--resume", "--quiet"]
    command = [sys.executable, "-c", TIDYING, *words]
    watch = ["strace", "-qq", "-o", str(trace), "-e", "trace=rename,unlinkat,rmdir"]
    subprocess.run([*watch, *command], check=True)
    made = [line for line in trace.read_text().splitlines() if "m.yoro" in line or "safetensors" in line]
    expected = read_model(place / "m.yoro").mapping.weights
    counts = Counter(re.match(r"\w+", line)[0] for line in trace.read_text().splitlines())
    assert any(".part" in line for line in made)
    for call, back in itertools.product(counts, range(3)):  # the last calls of a fit are those that tidy up
        shutil.rmtree(place)
        place.mkdir()
        when = max(counts[call] - back, 1)
        injected = ["-e", f"inject={call}:signal=KILL:when={when}"]
        subprocess.run([*watch, *injected, *command], stderr=subprocess.DEVNULL)
        assert invoke(*words).code == 0
        assert [path.name for path in place.iterdir()] == ["m.yoro"], (call, when)
        np.testing.assert_array_equal(read_model(place / "m.yoro").mapping.weights, expected)
