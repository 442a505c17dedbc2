from __future__ import annotations

import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from yoro.errors import StoreError
from yoro.files.atomic import _exchange, drafted_file, drafted_folder, write_file
from yoro.files.journal import open_journal


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is Linux's")
def test_an_exchange_that_fails_is_an_error_and_not_tried_another_way(tmp_path):
    (tmp_path / "one").mkdir()
    with pytest.raises(FileNotFoundError):
        _exchange(tmp_path / "one", tmp_path / "gone")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    assert _exchange(tmp_path / "one", tmp_path / "other")
    assert (tmp_path / "one" / "file").exists()


def fill(target, content, error=None):
    with drafted_folder(target) as draft:
        (draft / "file").write_text(content)
        if error:
            raise error


def test_a_folder_takes_the_place_of_another_or_nothing_changes(tmp_path):
    target = tmp_path / "t"
    fill(target, "first")
    fill(target, "second")
    with pytest.raises(StoreError, match="No space"):
        fill(target, "third", OSError(28, "No space left on device"))
    assert (target / "file").read_text() == "second"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("drafted", [drafted_file, drafted_folder])
def test_a_disk_that_takes_no_changes_is_named_in_a_sentence(drafted, tmp_path, monkeypatch):
    def refuse(path, *_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    for change in ("touch", "mkdir", "unlink"):  # on such a disk even what is not there cannot be removed
        monkeypatch.setattr(Path, change, refuse)
    with (
        pytest.raises(StoreError, match=r"new could not be written: Read-only file system\."),
        drafted(tmp_path / "new"),
    ):
        pass
    with pytest.raises(StoreError, match=r"Cannot create .*: Read-only file system\."):
        open_journal(tmp_path / "work", "journal", (), "desk")


def test_many_writers_of_one_file_leave_each_others_drafts_alone(tmp_path):
    target = tmp_path / "t"

    def write(content: bytes) -> None:
        for _ in range(50):
            write_file(target, content)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, [bytes([i]) for i in range(8)]))
    assert target.read_bytes() in [bytes([i]) for i in range(8)]
    assert list(tmp_path.iterdir()) == [target]
