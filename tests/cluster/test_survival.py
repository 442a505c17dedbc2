from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

import yoro
from child import start, wait_until
from cluster.conftest import seen
from cluster.models import assert_same
from command_line import run
from yoro.model.store import read_model

WORDS = ["fit", "photos", "--out", "k.yoro", "--ray", "--ray-block", "16", "--batch-size", "8", "--source",
         "callable:counting:respond"]  # fmt: skip


@pytest.fixture
def held(work):
    """A source that stops once two blocks are done, until it is ended."""
    shutil.rmtree(work / "seen", ignore_errors=True)
    (work / "hold").touch()
    yield work
    (work / "hold").unlink(missing_ok=True)
    shutil.rmtree(work / "k.yoro", ignore_errors=True)


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob(".k.yoro.part/*.stats"))


def gone(folder: Path) -> bool:
    """Whether no process that asked the source is there any more."""
    return not any(Path(f"/proc/{file.name}").exists() for file in (folder / "seen").iterdir())


@pytest.mark.long
def test_a_driver_killed_in_the_middle_goes_on_without_reading_finished_blocks_again(held, ray):
    driver = start("-m", "yoro", *WORDS)
    wait_until(lambda: len(shards(held)) >= 2, driver)
    driver.kill()
    driver.wait()
    wait_until(lambda: gone(held))  # Ray's processes end with the one that started them
    (held / "hold").unlink()
    done = len(shards(held))
    shutil.rmtree(held / "seen")
    said = run(*WORDS, "--resume").stderr
    assert f"{done} blocks of 6 were finished before: not read again." in said
    assert seen(held) == 96 - 16 * done
    assert_same(read_model(held / "k.yoro"), yoro.fit("photos", source=WORDS[-1], batch_size=8).model)
    assert not list(held.glob(".k.yoro*"))


@pytest.mark.long
def test_ctrl_c_ends_ray_and_says_how_to_go_on(held, ray):
    driver = start("-m", "yoro", *WORDS, stderr=-1)
    wait_until(lambda: len(shards(held)) >= 2, driver)
    driver.send_signal(signal.SIGINT)
    _, said = driver.communicate()
    assert driver.returncode == 130
    assert said.strip().splitlines()[-1] == "yoro: interrupted. Resume with --resume."
    assert "Traceback" not in said
    assert gone(held)
    (held / "hold").unlink()
    other = run(*WORDS, "--resume", "--seed", 7, code=1).stderr
    assert "belongs to another run" in other
    run(*WORDS, "--resume")
    assert_same(read_model(held / "k.yoro"), yoro.fit("photos", source=WORDS[-1], batch_size=8).model)
