"""Which of many workers has what: never two at once, and nothing is lost with a worker."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from child import finish
from yoro.research.bench.claims import Claims

DYING = """
import os, signal, sys
from pathlib import Path
from yoro.research.bench.claims import Claims
assert Claims(Path(sys.argv[1])).take("cell") is not None
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_only_one_of_many_has_a_claim(tmp_path: Path) -> None:
    taken, ready = [], threading.Barrier(16)

    def work() -> None:
        ready.wait()
        taken.append(Claims(tmp_path).take("cell"))

    threads = [threading.Thread(target=work) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (mine,) = (claim for claim in taken if claim is not None)
    assert Claims(tmp_path).take("cell") is None
    assert Claims(tmp_path).take("other") is not None
    mine.release()
    assert Claims(tmp_path).take("cell") is not None


def test_a_killed_workers_claim_is_taken_over_at_once(tmp_path: Path) -> None:
    for generation in (0, 1):  # the second dies with what it took over
        assert finish("-c", DYING, tmp_path).returncode == -signal.SIGKILL
        assert [path.name for path in tmp_path.glob("cell.*")][generation:]
    with Claims(tmp_path).take("cell") as mine:
        assert mine.holds()
        assert (tmp_path / "cell.2").is_file()
    assert not list(tmp_path.iterdir())


def test_claims_of_the_dead_are_cleared_and_those_of_the_living_stay(tmp_path: Path) -> None:
    Claims(tmp_path / "none").clear()
    with Claims(tmp_path).take("other"):
        for _ in range(2):
            assert finish("-c", DYING, tmp_path).returncode == -signal.SIGKILL
        Claims(tmp_path).clear()
        assert [path.name for path in tmp_path.iterdir()] == ["other.0"]


def test_without_hard_links_there_are_claims_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", refused)
    with Claims(tmp_path).take("cell") as mine:
        assert mine.holds()
        assert Claims(tmp_path).take("cell") is None
    assert not list(tmp_path.iterdir())


def test_a_worker_elsewhere_is_dead_when_it_gives_no_sign(tmp_path: Path) -> None:
    far = tmp_path / "cell.0"
    far.write_text("another machine")
    here = Claims(tmp_path, stale=0.0)
    assert here.take("cell") is None, "seen for the first time"
    os.utime(far, ns=(1, 1))
    assert here.take("cell") is None, "a sign of life"
    assert Claims(tmp_path).take("cell") is None, "who looks for the first time waits as long"
    assert here.take("cell") is not None


def test_a_worker_that_was_taken_for_dead_knows(tmp_path: Path) -> None:
    slow = Claims(tmp_path).take("cell")
    assert slow.holds()
    (tmp_path / "cell.1").write_text("another machine")
    assert not slow.holds()
    slow.release()
    assert [path.name for path in tmp_path.iterdir()] == ["cell.1"], "the other's claim stays"
