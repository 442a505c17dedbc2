"""Files moved to the folder of another class, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from yoro.data.sorting import ASIDE, move_files, plan_moves, undo_moves, write_journal
from yoro.errors import InputError


def write(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_a_file_goes_to_its_new_class_within_its_split_and_no_other_is_overwritten(tmp_path):
    one, two = write(tmp_path / "train/cat/deep/1.jpg", "a"), write(tmp_path / "train/cat/1.jpg", "b")
    write(tmp_path / "train/dog/1.jpg", "c")
    moves = plan_moves([(one, "cat", "dog"), (two, "cat", "dog")])
    move_files(moves)
    assert {path.name: path.read_text() for path in (tmp_path / "train" / "dog").iterdir()} == {
        "1.jpg": "c", "1 (2).jpg": "a", "1 (3).jpg": "b",
    }  # fmt: skip


def test_undoing_half_of_the_moves_brings_back_what_was_moved(tmp_path):
    files = [write(tmp_path / f"cat/{i}.jpg", str(i)) for i in range(3)]
    moves = plan_moves((file, "cat", None) for file in files)
    write_journal(tmp_path / "list.moved", moves)
    move_files(moves[:2])  # and then the machine stopped
    assert (tmp_path / ASIDE / "cat" / "0.jpg").is_file()
    assert undo_moves(tmp_path / "list.moved") == (2, [])
    assert [file.read_text() for file in files] == ["0", "1", "2"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cat"]
    with pytest.raises(InputError, match="nothing to undo"):
        undo_moves(tmp_path / "list.moved")


def test_what_moving_cannot_relabel_is_refused_before_anything_is_moved(tmp_path):
    listed = write(tmp_path / "images" / "1.jpg")
    with pytest.raises(InputError, match="is not in a folder named 'cat'"):
        plan_moves([(listed, "cat", "dog")])
    with pytest.raises(InputError, match="is not there"):
        plan_moves([(tmp_path / "cat" / "2.jpg", "cat", "dog")])
    with pytest.raises(InputError, match="is not a move"):
        undo_moves(write(tmp_path / "odd.moved", "[1, 2]\n"))
