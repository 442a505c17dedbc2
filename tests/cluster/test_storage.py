from __future__ import annotations

import pytest

from yoro.cluster.storage import Storage
from yoro.errors import StoreError

pytest.importorskip("fsspec", reason="the extra ray is not installed")


@pytest.mark.parametrize("scheme", ["", "file://", "local://"])
def test_a_file_is_whole_or_not_there(tmp_path, scheme):
    storage = Storage(f"{scheme}{tmp_path}/shards")
    assert storage.names() == set()
    storage.write("a.stats", b"one")
    storage.write("a.stats", b"two")
    storage.write("b.stats", b"three")
    (tmp_path / "shards" / ".c.stats.1234").write_bytes(b"a draft that nobody finished")
    (tmp_path / "shards" / "notes.txt").write_bytes(b"somebody else's")
    assert storage.names() == {"a.stats", "b.stats"}
    assert storage.read("a.stats") == b"two"
    storage.clear()
    storage.remove({"a.stats"})  # a second time
    assert storage.names() == set()
    assert (tmp_path / "shards" / "notes.txt").exists()


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_a_place_that_cannot_be_written_is_an_error_of_ours(tmp_path, scheme):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises((StoreError, OSError), match="file"):
        Storage(f"{scheme}{tmp_path}/file/shards").write("a.stats", b"x")


def test_a_scheme_that_nobody_knows_is_an_error_that_names_it():
    with pytest.raises(StoreError, match="nowhere"):
        Storage("nowhere://bucket/x").write("a.stats", b"x")
