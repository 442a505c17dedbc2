"""Ray on several hosts: namespaces with their own addresses and folders, data and shards on an S3 server.

Marked long. As many images as the environment variable YORO_HOST_IMAGES says go through the cut, the kill and the
slow line; the default is small.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import yoro
from child import wait_until
from cluster import hosts as several
from cluster.hosts import BUCKET, PORT, Host, network, serve_s3
from cluster.models import assert_same
from photos import write_folder
from row_files import photos_of, write_parquet, write_tar
from yoro.model.store import read_model

IMAGES = int(os.environ.get("YORO_HOST_IMAGES", "240"))
SETTINGS = ("--read", "features", "--batch-size", "8", "--ray-block", "24")
pytestmark = pytest.mark.long
WATCH = """
import time
import s3fs
while True:
    s3 = s3fs.S3FileSystem(use_listings_cache=False)
    print(len([name for name in s3.find("yoro/shards")]), flush=True)
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


def fit(host: Host, where: str, *more: object) -> list[object]:
    return [
        sys.executable, "-m", "yoro", "fit", where, "--out", "m.yoro", "--ray", f"{host.address}:{PORT}",
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


def shards(s3: Host) -> Callable[[], int]:
    """How many shards lie in the storage."""
    s3.start(sys.executable, "-c", WATCH, log="watch")
    wait_until(lambda: bool(s3.said("watch").strip()))
    return lambda: int(s3.said("watch").split()[-1])


def test_two_hosts_make_the_model_of_one_from_every_kind_of_data(tmp_path, packages, data, alone):
    with network(tmp_path, 2, packages) as all_hosts:
        head, _, _ = begin(all_hosts, data)
        for kind in (f"s3://{BUCKET}/photos", f"s3://{BUCKET}/photos.parquet", f"wds:s3://{BUCKET}/part-*.tar"):
            assert head.start(*fit(head, kind, "--force"), log="fit").wait() == 0, head.said("fit")
            assert_same(read_model(head.folder / "m.yoro"), alone)
        words = [
            "predict",
            "m.yoro",
            f"s3://{BUCKET}/photos",
            "--out",
            "answers.parquet",
            "--ray",
            f"{head.address}:{PORT}",
        ]
        assert head.start(sys.executable, "-m", "yoro", *words, log="predict").wait() == 0, head.said("predict")
        from pyarrow import parquet

        answers = parquet.read_table(head.folder / "answers.parquet").to_pydict()
        assert len(answers["label"]) == sum(1 for _ in (data / "photos").glob("*/*.jpg"))


def test_a_node_that_is_cut_off_and_one_that_dies_change_nothing(tmp_path, packages, data, alone):
    with network(tmp_path, 4, packages) as all_hosts:
        head, (first, second, _), s3 = begin(all_hosts, data)
        head.slow("20mbit")
        done = shards(s3)
        running = head.start(*fit(head, f"s3://{BUCKET}/photos"), log="fit")
        wait_until(lambda: done() >= 1, running)
        first.cable("down")
        second.kill()
        wait_until(lambda: done() >= 3, running)
        first.cable("up")
        assert running.wait() == 0, head.said("fit")
        assert_same(read_model(head.folder / "m.yoro"), alone)


def test_a_head_that_dies_is_replaced_and_the_run_resumed(tmp_path, packages, data, alone):
    with network(tmp_path, 3, packages) as all_hosts:
        head, (second, _), s3 = begin(all_hosts, data)
        done = shards(s3)
        running = head.start(*fit(head, f"s3://{BUCKET}/photos"), log="fit")
        wait_until(lambda: done() >= 2, running)
        head.kill()
        assert not (head.folder / "m.yoro").exists()
        second.kill()
        (head.folder / ".m.yoro.part").rename(second.folder / ".m.yoro.part")  # what the user has of the run
        second.ray("--head", f"--port={PORT}", "--include-dashboard=false")
        again = second.start(*fit(second, f"s3://{BUCKET}/photos", "--resume"), log="fit")
        assert again.wait() == 0, second.said("fit")
        assert "already finished" in second.said("fit")
        assert_same(read_model(second.folder / "m.yoro"), alone)
