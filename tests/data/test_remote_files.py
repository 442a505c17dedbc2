"""Storage that does not answer is waited for, and then ends the pass: nothing is left out for it."""

from __future__ import annotations

import io

import numpy as np
import pytest

from row_files import write_parquet
from yoro.cluster.storage import Storage
from yoro.data import processes, remote_files
from yoro.data.examples import picture_at
from yoro.data.geometry import Geometry
from yoro.data.parquet_files import row_image
from yoro.data.processes import DecodingProcess, decode_all
from yoro.data.remote_files import fetch, patiently, remote_tree
from yoro.errors import ImageError, InputError, StoreError, UnreachableError

fsspec = pytest.importorskip("fsspec", reason="the extra ray is not installed")
MemoryFileSystem = fsspec.get_filesystem_class("memory")
NAME = f"1-{0:09d}-{'a' * 20}.stats"


class Line(io.BytesIO):
    """An open file at the other end of the line."""

    def read(self, *args):
        Flaky.use()
        return super().read(*args)


class Flaky(MemoryFileSystem):
    """Files in memory behind a line that is cut for the next `cut` requests; listings are remembered, as s3fs does."""

    protocol = "flaky"
    cachable = False
    cut = 0
    listed: frozenset[str] | None = None

    @classmethod
    def use(cls) -> None:
        if cls.cut:
            cls.cut -= 1
            raise ConnectionRefusedError(111, "Connection refused")

    def ls(self, path, detail=True, **kwargs):
        found = super().ls(path, detail=True, **kwargs)
        Flaky.listed = frozenset(entry["name"] for entry in found)
        return found if detail else sorted(Flaky.listed)

    def info(self, path, **kwargs):
        found = super().info(path, **kwargs)
        if Flaky.listed and found["type"] == "file" and found["name"] not in Flaky.listed:
            raise FileNotFoundError(path)
        return found

    def invalidate_cache(self, path=None):
        Flaky.listed = None

    def cat_file(self, *args, **kwargs):
        self.use()
        return super().cat_file(*args, **kwargs)

    def _open(self, path, mode="rb", **kwargs):
        self.use()
        opened = super()._open(path, mode, **kwargs)
        return Line(opened.getvalue()) if mode == "rb" else opened

    def find(self, *args, **kwargs):
        self.use()
        return super().find(*args, **kwargs)


@pytest.fixture
def line(monkeypatch):
    """Storage whose line can be cut, and nobody waits long."""
    fsspec.register_implementation("flaky", Flaky, clobber=True)
    for module in (remote_files, processes):
        monkeypatch.setattr(module, "WAITS", (0.0, 0.0))
    monkeypatch.setattr(Flaky, "cut", 0)
    monkeypatch.setattr(Flaky, "listed", None)
    yield Flaky
    MemoryFileSystem.store.clear()


def test_shards_are_written_and_read_once_storage_is_back(line):
    storage = Storage("flaky://bucket/shards")
    line.cut = 2
    storage.write(NAME, b"sums")
    line.cut = 2
    assert storage.read(NAME) == b"sums"
    line.cut = 3
    with pytest.raises(UnreachableError, match=r"could not be read: Connection refused\. Is its storage running"):
        storage.read(NAME)


def test_a_shard_that_another_machine_wrote_after_we_looked_is_found(line):
    storage = Storage("flaky://bucket/shards")
    storage.write(NAME, b"one")
    assert storage.names() == {NAME}
    system, root = fsspec.url_to_fs("flaky://bucket/shards")
    system.pipe_file(f"{root}/{NAME.replace('1-', '2-', 1)}", b"two")
    assert storage.read(NAME.replace("1-", "2-", 1)) == b"two"


def test_a_file_that_is_not_there_is_not_waited_for(line, monkeypatch):
    monkeypatch.setattr(remote_files.time, "sleep", None)  # is not reached
    with pytest.raises(StoreError, match="is not there"):
        Storage("flaky://bucket/shards").read(NAME)
    with pytest.raises(ImageError, match="cannot be read"):
        fetch("flaky://bucket/none.jpg")


def test_a_listing_fails_at_once_so_that_a_wrong_address_is_known_soon(line, monkeypatch):
    monkeypatch.setattr(remote_files.time, "sleep", None)
    line.cut = 1
    with pytest.raises(UnreachableError, match="flaky://bucket cannot be reached: ConnectionRefusedError"):
        remote_tree("flaky://bucket")


def test_rows_of_parquet_go_on_where_the_line_was_cut(line, tmp_path):
    write_parquet(tmp_path / "a.parquet", [{"image": bytes([i]), "label": "x"} for i in range(8)], 2)
    system, path = fsspec.url_to_fs("flaky://b/a.parquet")
    system.pipe_file(path, (tmp_path / "a.parquet").read_bytes())
    images = [row_image("flaky://b/a.parquet", i).fetch for i in range(8)]
    assert images[0]() == b"\x00"
    line.cut = 1
    with pytest.raises(UnreachableError):
        images[5]()
    assert images[5]() == b"\x05"
    assert patiently(images[6]) == b"\x06"


def test_images_of_storage_that_is_gone_end_the_pass_and_those_of_a_dead_link_do_not(line):
    gone, dead = (picture_at(["url", f"{scheme}://127.0.0.1:1/a.jpg"]) for scheme in ("ftp", "http"))
    with pytest.raises(UnreachableError, match="Connection refused"):
        decode_all([gone], ["a"], Geometry(8))
    process = DecodingProcess()
    process.request([("url", "ftp://127.0.0.1:1/a.jpg")], ["a"], Geometry(8))
    with pytest.raises(UnreachableError, match="Connection refused"):
        process.answer()
    assert not process.waiting  # and it can be asked again
    pixels = np.zeros((8, 8, 3), dtype=np.uint8)
    assert decode_all([dead, pixels], ["a", "b"], Geometry(8)).good == [1]


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (TimeoutError(), True),
        (ConnectionResetError(), True),
        (OSError(16, "SlowDown"), True),
        (PermissionError(13, "Access denied"), False),
        (FileNotFoundError(2, "No such bucket"), False),
        (ValueError("Parquet magic bytes not found"), False),
    ],
)
def test_what_is_waited_for_is_the_line_and_not_the_file(error, away):
    assert isinstance(remote_files.unreadable("s3://b/a", error), UnreachableError) == away
    assert type(remote_files.unreadable("/disk/a", error)) is InputError
