from __future__ import annotations

import sys

import pytest

from yoro.errors import StoreError
from yoro.files.atomic import _exchange, drafted_folder


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
