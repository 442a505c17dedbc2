from __future__ import annotations

import numpy as np
import pytest

from yoro.cluster.storage import Storage
from yoro.cluster.tables import table_name
from yoro.cluster.tree import TreeNode
from yoro.data.responses import ResponseBatch
from yoro.discriminant.readings import Layout
from yoro.errors import StoreError
from yoro.mappings.batches import row_digests
from yoro.model.gathered import Gathered
from yoro.model.model import Origin
from yoro.model.shards import Shard

pytest.importorskip("fsspec", reason="the extra ray is not installed")

A, B = TreeNode(0, 0, "a" * 64).name, table_name(1, "b" * 64)
THEIRS = ("notes.txt", "north.stats", "photos-2024.parquet")


@pytest.mark.parametrize("scheme", ["", "file://", "local://"])
def test_a_file_is_whole_or_not_there(tmp_path, scheme):
    storage = Storage(f"{scheme}{tmp_path}/shards")
    assert storage.names() == set()
    storage.write(A, b"one")
    storage.write(A, b"two")
    storage.write(B, b"three")
    (tmp_path / "shards" / f".{B}.1234").write_bytes(b"a draft that nobody finished")
    for name in THEIRS:
        (tmp_path / "shards" / name).write_bytes(b"somebody else's")
    assert storage.names() == {A, B}
    assert storage.read(A) == b"two"
    storage.clear()
    storage.remove({A})  # a second time
    assert storage.names() == set()
    assert all((tmp_path / "shards" / name).exists() for name in THEIRS)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_place_that_cannot_be_written_is_an_error_of_ours(tmp_path, scheme):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((StoreError, OSError), match="file"):
        Storage(f"{scheme}{tmp_path}/file/shards").write("a.stats", b"x")


def test_a_scheme_that_nobody_knows_is_an_error_that_names_it():
    with pytest.raises(StoreError, match="nowhere"):
        Storage("nowhere://bucket/x").write("a.stats", b"x")


def test_finished_blocks_of_the_same_run_are_not_thrown_away_unasked(tmp_path):
    from yoro.cluster.engine import begin

    storage, note = Storage(str(tmp_path / "shards")), tmp_path / ".m.yoro.part"
    begin(storage, note, "this run", resume=False)
    begin(storage, note, "this run", resume=False)  # nothing was finished
    storage.write(A, b"one")
    with pytest.raises(StoreError, match=r"1 finished file.* --resume"):
        begin(storage, note, "this run", resume=False)
    begin(storage, note, "this run", resume=True)
    assert storage.names() == {A}
    with pytest.raises(StoreError, match="another run"):
        begin(storage, note, "another", resume=True)
    begin(storage, note, "another", resume=False)
    assert storage.names() == set()


def test_two_runs_in_one_storage_leave_each_other_alone(tmp_path):
    from yoro.cluster.engine import begin, left_in_storage

    place, one, two = Storage(f"file://{tmp_path}/shards"), tmp_path / "one", tmp_path / "two"
    first = begin(place, one, "a" * 64, resume=False, shared=True)
    first.write(A, b"one")
    for run in ("b" * 64, "a" * 64):  # of other data, and of the same
        second = begin(place, two, run, resume=False, shared=True)
        second.write(A, b"two")
    assert first.read(A) == b"one"
    assert begin(place, one, "a" * 64, resume=True, shared=True) == first
    with pytest.raises(StoreError, match="--resume"):
        begin(place, one, "a" * 64, resume=False, shared=True)
    second.write(B, b"three")
    assert begin(place, tmp_path / "elsewhere", "a" * 64, resume=True, shared=True) == second
    left = left_in_storage(place.place, one)
    assert left == first
    left.discard()
    assert not (tmp_path / "shards" / first.place.rpartition("/")[2]).exists()
    assert second.names() == {A, B}
    assert begin(place, one, "c" * 64, resume=False, shared=True).names() == set()


def test_a_damaged_shard_is_an_error_and_made_again_when_the_run_is_resumed(tmp_path):
    from yoro.cluster.engine import read_whole

    gathered = Gathered.empty(0, 0, Layout.of(2))
    gathered.add([ResponseBatch(np.eye(2, dtype=np.float32), ["a", "b"], None, row_digests(np.eye(2)), ["1", "2"])])
    content = bytearray(Shard(gathered, Origin(), ("x",)).to_bytes())
    storage = Storage(str(tmp_path))
    storage.write(A, bytes(content))
    assert read_whole(storage, A).gathered.images == 2
    content[-1] ^= 1  # in the last number
    storage.write(A, bytes(content))
    with pytest.raises(StoreError, match=r"not what was written.*--resume"):
        read_whole(storage, A)
    assert storage.names() == set()
