from __future__ import annotations

import pytest

from yoro.cluster.storage import Storage
from yoro.cluster.tables import table_name
from yoro.cluster.tree import TreeNode
from yoro.errors import StoreError

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
