from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.data.examples import Example
from yoro.data.sorting import MANIFEST, UNSURE, begin_sorting, check_sortable, folder_names, undo_sorting
from yoro.errors import InputError, StoreError

from .conftest import save


def sorted_into(folder: Path, *answers: tuple[Path, str | None], link: bool = False) -> Path:
    filled = begin_sorting(folder, sorted({label for _, label in answers if label}), link=link)
    for path, label in answers:
        filled.add(Example(path, None, str(path)), label)
    filled.close()
    return folder


def tree(folder: Path) -> list[str]:
    return sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() and path.name != MANIFEST
    )


@pytest.mark.parametrize("link", [False, True])
def test_sorted_and_undone_nothing_is_left_and_nothing_lost(tmp_path: Path, link: bool) -> None:
    one, other, third = (
        save(tmp_path / "a" / "1.png", 1),
        save(tmp_path / "b" / "1.png", 2),
        save(tmp_path / "3.png", 3),
    )
    before = {path: path.read_bytes() for path in (one, other, third)}
    folder = sorted_into(tmp_path / "out", (one, "cat"), (other, "cat"), (third, None), link=link)
    assert tree(folder) == [f"{UNSURE}/3.png", "cat/1 (2).png", "cat/1.png"]
    assert (folder / "cat" / "1.png").is_symlink() == link
    assert (folder / "cat" / "1 (2).png").read_bytes() == before[other]
    sorted_into(folder, (third, "dog"), link=link)
    undone = undo_sorting(folder)
    assert (undone.removed, undone.left) == (4, [])
    assert not folder.exists()
    assert {path: path.read_bytes() for path in before} == before


def test_what_was_changed_or_added_since_stays(tmp_path: Path) -> None:
    folder = sorted_into(tmp_path / "out", (save(tmp_path / "1.png"), "cat"), (save(tmp_path / "2.png"), "dog"))
    (folder / "cat" / "1.png").write_bytes(b"drawn on")
    (folder / "dog" / "mine.txt").write_text("mine")
    undone = undo_sorting(folder)
    assert (undone.removed, undone.left) == (1, ["cat/1.png"])
    assert tree(folder) == ["cat/1.png", "dog/mine.txt"]
    with pytest.raises(InputError, match="sorted nothing into"):
        undo_sorting(folder)


def test_a_folder_of_other_things_is_not_sorted_into(tmp_path: Path) -> None:
    save(tmp_path / "full" / "1.png")
    with pytest.raises(StoreError, match="did not put there"):
        check_sortable(tmp_path / "full", False, [])
    check_sortable(tmp_path / "new", False, [])
    (tmp_path / "empty").mkdir()
    check_sortable(tmp_path / "empty", False, [])
    with pytest.raises(InputError, match="cannot be linked"):
        check_sortable(tmp_path / "new", True, [b"x"])


def test_a_strangers_manifest_removes_nothing_outside(tmp_path: Path) -> None:
    victim = save(tmp_path / "victim.png")
    folder = tmp_path / "out"
    (folder / "cat").mkdir(parents=True)
    (folder / "dog").symlink_to(tmp_path)
    from yoro.data.decoding import digest

    entries = [
        {"file": file, "digest": digest(victim)}
        for file in ("../victim.png", str(victim), "cat/../../victim.png", "dog/victim.png", "x\0/y")
    ]
    lines = [json.dumps(entry) for entry in entries] + ["{", "[]", "3", '{"file": 4, "digest": "x"}']
    (folder / MANIFEST).write_text("\n".join(lines))
    assert undo_sorting(folder).removed == 0
    assert victim.exists()


@given(st.lists(st.text(max_size=120), unique=True, max_size=8))
def test_every_class_has_a_folder_of_its_own_within(labels: list[str]) -> None:
    names = folder_names(labels)
    assert len({name.casefold() for name in names.values()}) == len(labels)
    for name in names.values():
        assert name not in ("", ".", "..", UNSURE)
        assert not set(name) & set("/\\:\0\n")
        assert not name.startswith(".")


@pytest.mark.parametrize("link", [False, True])
def test_sorting_the_same_images_twice_doubles_none(tmp_path: Path, link: bool) -> None:
    one, same, other = save(tmp_path / "1.png", 1), save(tmp_path / "copy.png", 1), save(tmp_path / "2.png", 2)
    folder = sorted_into(tmp_path / "out", (one, "cat"), (same, "cat"), link=link)
    assert tree(folder) == ["cat/1.png", "cat/copy.png"]
    sorted_into(folder, (one, "cat"), (same, "cat"), (other, "cat"), link=link)
    assert tree(folder) == ["cat/1.png", "cat/2.png", "cat/copy.png"]
    assert undo_sorting(folder).removed == 3
