"""Ray on several hosts: namespaces with their own addresses and folders, data and shards on an S3 server.

Marked long. As many images as the environment variable YORO_HOST_IMAGES says go through every run; the default is
small. With `-s` each run tells its seconds.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

import yoro
from child import wait_until
from cluster import hosts as several
from cluster.hosts import BUCKET, PORT, Host, network, serve_s3
from cluster.models import assert_same
from photos import write_folder
from row_files import photos_of, write_parquet, write_tar
from yoro.model.model import Model
from yoro.model.store import read_model

IMAGES = int(os.environ.get("YORO_HOST_IMAGES", "240"))
SETTINGS = ("--read", "features", "--batch-size", "8", "--ray-block", "24")
pytestmark = pytest.mark.long
LOOKS = "yoro/shards"
WATCH = f"""
import time
import s3fs
while True:
    s3 = s3fs.S3FileSystem(use_listings_cache=False)
    print(len(s3.find("{LOOKS}")), flush=True)
    time.sleep(0.2)
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory) -> Path:
    """An S3 server and its client, installed for these tests."""
    pytest.importorskip("ray", reason="the extra ray is not installed")
    if reason := several.lacking():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("packages")
    if problem := several.install_storage(folder):
        pytest.skip(f"no S3 server can be installed: {problem}")
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """Photos as a folder, as Parquet and as WebDataset shards."""
    folder = tmp_path_factory.mktemp("data")
    photos = photos_of(write_folder(folder / "photos", count=IMAGES // 4))
    write_parquet(folder / "photos.parquet", [{"image": p.read_bytes(), "label": label} for p, label in photos], 24)
    for i, start in enumerate(range(0, len(photos), 24)):
        write_tar(folder / f"part-{i:03}.tar", photos[start : start + 24])
    return folder


@pytest.fixture(scope="module")
def alone(data):
    """The fit of one machine."""
    return yoro.fit(str(data / "photos"), read="features", batch_size=8).model


def fit(head: Host, where: str, *more: object) -> list[object]:
    return [
        sys.executable, "-m", "yoro", "fit", where, "--out", "m.yoro", "--ray", f"{head.address}:{PORT}",
        "--ray-storage", f"s3://{BUCKET}/shards", *SETTINGS, *more,
    ]  # fmt: skip


def begin(all_hosts: list[Host], data: Path) -> tuple[Host, list[Host], Host]:
    """The head, the other nodes, and the host that serves S3, all running."""
    head, *others, s3 = all_hosts
    serve_s3(s3, *sorted(data.iterdir()))
    head.ray("--head", f"--port={PORT}", "--include-dashboard=false")
    for other in others:
        other.ray(f"--address={head.address}:{PORT}")
    return head, others, s3


class Run:
    """A command on a host, and how far it is by the shards in the storage."""

    def __init__(self, what: str, host: Host, s3: Host, words: list[object]) -> None:
        self.what, self._host, self._s3 = what, host, s3
        (host.folder / "run").write_text("")
        (s3.folder / "watch").write_text("")
        if not any(LOOKS in str(process.args) and process.poll() is None for process in s3.running):
            s3.start(sys.executable, "-c", WATCH, log="watch")
        self._began = time.monotonic()
        self.process = host.start(*words, log="run")

    @property
    def said(self) -> str:
        return self._host.said("run")

    def reach(self, count: int) -> None:
        """Wait until so many shards lie in the storage."""
        (self._s3.folder / "watch").write_text("")
        wait_until(lambda: int((self._s3.said("watch").split() or ["0"])[-1]) >= count, self.process)

    def end(self, alone: Model | None = None) -> None:
        """Wait until it has succeeded, and its model is that of one machine."""
        assert self.process.wait() == 0, self.said
        print(f"{self.what}: {time.monotonic() - self._began:.0f} s")
        if alone is not None:
            assert_same(read_model(self._host.folder / "m.yoro"), alone)


def test_two_hosts_make_the_model_of_one_from_every_kind_of_data(tmp_path, packages, data, alone):
    from pyarrow import parquet

    with network(tmp_path, 2, packages) as all_hosts:
        head, _, s3 = begin(all_hosts, data)
        for what in ("photos", "photos.parquet", "part-*.tar"):
            place = f"{'wds:' if what.endswith('tar') else ''}s3://{BUCKET}/{what}"
            Run(f"two hosts, {what}", head, s3, fit(head, place, "--force")).end(alone)
        words: list[object] = [
            sys.executable, "-m", "yoro", "predict", "m.yoro", f"s3://{BUCKET}/photos", "--out", "answers.parquet",
            "--ray", f"{head.address}:{PORT}", "--ray-storage", f"s3://{BUCKET}/answers",
        ]  # fmt: skip
        Run("two hosts, predict", head, s3, words).end()
        answers = parquet.read_table(head.folder / "answers.parquet").to_pydict()
        assert len(answers["label"]) == sum(1 for _ in (data / "photos").glob("*/*.jpg"))
        shutil.copytree(data / "photos", head.folder / "mine")
        here_alone = [*words[: words.index("--ray-storage")], "--force", "--ray-block", "24"]
        for asked, said in (
            (fit(head, "mine", "--force"), "must see the data under the same path"),
            (here_alone, "Name a place that all can write to"),
        ):
            run = Run("", head, s3, asked)
            assert run.process.wait() == 1
            assert said in run.said


def test_a_node_that_is_cut_off_and_one_that_dies_change_nothing(tmp_path, packages, data, alone):
    with network(tmp_path, 4, packages) as all_hosts:
        head, (first, second, _), s3 = begin(all_hosts, data)
        Run("four hosts", head, s3, fit(head, f"s3://{BUCKET}/photos")).end(alone)
        head.slow("20mbit")
        run = Run("slow driver, one node cut off, one killed", head, s3, fit(head, f"s3://{BUCKET}/photos", "--force"))
        run.reach(1)
        first.cable("down")
        second.kill()
        run.reach(3)
        first.cable("up")
        run.end(alone)


def test_storage_away_a_worker_killed_and_a_node_asleep_cost_no_image(tmp_path, packages, data, alone):
    with network(tmp_path, 2, packages) as all_hosts:
        head, (other,), s3 = begin(all_hosts, data)
        run = Run("S3 away for 15 s", head, s3, fit(head, f"s3://{BUCKET}/photos"))
        run.reach(1)
        s3.cable("down")
        time.sleep(15)
        s3.cable("up")
        run.end(alone)
        run = Run("a node's workers killed in their blocks", head, s3, fit(head, f"s3://{BUCKET}/photos", "--force"))
        run.reach(1)
        for process in other.processes("ray::Map"):  # not the agents, without which a node ends
            os.kill(process, signal.SIGKILL)
        run.end(alone)
        run = Run("a node asleep for 20 s", head, s3, fit(head, f"s3://{BUCKET}/photos", "--force"))
        run.reach(1)
        sleeping = other.processes()
        for number, wait in ((signal.SIGSTOP, 20), (signal.SIGCONT, 0)):
            for process in sleeping:
                with suppress(ProcessLookupError):
                    os.kill(process, number)
            time.sleep(wait)
        run.end(alone)


def test_a_head_that_dies_is_replaced_and_the_run_resumed(tmp_path, packages, data, alone):
    with network(tmp_path, 3, packages) as all_hosts:
        head, (second, _), s3 = begin(all_hosts, data)
        run = Run("until the head died", second, s3, fit(head, f"s3://{BUCKET}/photos"))
        run.reach(2)
        head.kill()
        assert run.process.wait() != 0
        assert "no longer answers" in run.said
        assert "--resume" in run.said
        assert not (second.folder / "m.yoro").exists()
        second.kill()
        second.ray("--head", f"--port={PORT}", "--include-dashboard=false")
        again = Run("the rest, on a new head", second, s3, fit(second, f"s3://{BUCKET}/photos", "--resume"))
        again.end(alone)
        assert "already finished" in again.said


SPOIL = f"""
import s3fs
s3 = s3fs.S3FileSystem()
lost, damaged, *_ = sorted(place for place in s3.find("{LOOKS}") if place.endswith(".stats"))
s3.rm_file(lost)
content = bytearray(s3.cat_file(damaged))
content[-1] ^= 1
s3.pipe_file(damaged, bytes(content))
"""


def test_after_a_killed_driver_a_lost_and_a_damaged_shard_are_made_again(tmp_path, packages, data, alone):
    with network(tmp_path, 2, packages) as all_hosts:
        head, _, s3 = begin(all_hosts, data)
        asked = fit(head, f"s3://{BUCKET}/photos")
        run = Run("until the driver was killed", head, s3, asked)
        run.reach(4)  # drafts count, too
        for driver in head.processes("\0".join(map(str, asked[:4]))):
            os.kill(driver, signal.SIGKILL)
        assert run.process.wait() != 0
        assert s3.start(sys.executable, "-c", SPOIL, log="spoil").wait() == 0, s3.said("spoil")
        again = Run("the rest", head, s3, [*asked, "--resume"])
        assert again.process.wait() == 1, again.said
        assert "not what was written" in again.said
        Run("the damaged shard", head, s3, [*asked, "--resume"]).end(alone)


def test_two_drivers_with_one_storage_and_a_head_without_its_cable_make_two_models(tmp_path, packages, data, alone):
    with network(tmp_path, 2, packages) as all_hosts:
        head, (other,), s3 = begin(all_hosts, data)
        first = Run("of two drivers, the first", head, s3, fit(head, f"s3://{BUCKET}/photos"))
        first.reach(1)
        second = Run("of two drivers, the second", other, s3, fit(head, f"s3://{BUCKET}/photos"))
        first.reach(3)
        head.cable("down")
        time.sleep(10)
        head.cable("up")
        first.end(alone)
        second.end(alone)
