from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from photos import write_folder
from yoro.model.settings import ClusterSettings

STORE = 300_000_000  # bytes of the object store; pixels of a test are a few million

SOURCE = """
import os
import signal
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SEEN = HERE / "seen"


def respond(images):
    if (HERE / "hold").exists():  # until somebody ends us, once two blocks are done
        while len(list(HERE.glob(".*.part/*.stats"))) >= 2:
            time.sleep(0.01)
    try:
        (HERE / "die").unlink()
    except FileNotFoundError:
        pass
    else:
        os.kill(os.getpid(), signal.SIGKILL)
    SEEN.mkdir(exist_ok=True)
    with (SEEN / str(os.getpid())).open("a") as file:
        file.write(f"{len(images)}\\n")
    grid = images.reshape(len(images), 4, 8, 4, 8, 3).mean(axis=(2, 4))
    return grid.reshape(len(images), -1) / 64


respond.side = 32
respond.width = 48
"""


def seen(folder: Path) -> int:
    """Images that the source was asked about, in all processes."""
    files = (folder / "seen").iterdir() if (folder / "seen").exists() else []
    return sum(int(line) for file in files for line in file.read_text().split())


@pytest.fixture(scope="package")
def work(tmp_path_factory) -> Iterator[Path]:
    """A folder with photographs and a quick source, and we in it."""
    folder, before = tmp_path_factory.mktemp("cluster"), Path.cwd()
    write_folder(folder / "photos", count=24)
    (folder / "counting.py").write_text(SOURCE)
    os.chdir(folder)
    yield folder
    os.chdir(before)


@pytest.fixture(scope="package")
def ray(work) -> Iterator[object]:
    """One Ray of two workers for the tests that leave it as it was."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    from yoro.cluster import session

    kept = pytest.MonkeyPatch()
    kept.setattr(session, "STORE_BYTES", STORE)
    kept.setattr(session, "cores", lambda: 2)
    with session.ray_session(ClusterSettings(ray="local"), "callable:models:any"):
        import ray

        yield ray
    kept.undo()
