from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.data.find import compiled, find_named
from yoro.errors import InputError

from .conftest import save


def test_names_tell_the_class(tmp_path: Path) -> None:
    for name in ("cat_1.png", "tabby_cat_02.png", "dog_3.png", "cover.png"):
        save(tmp_path / name)
    found = find_named(tmp_path, "{label}_{n}.jpg")
    assert [(e.name, e.label) for e in found] == [
        ("cat_1.png", "cat"), ("dog_3.png", "dog"), ("tabby_cat_02.png", "tabby_cat"),
    ]  # fmt: skip
    assert "'cover.png'" in found.notes[-1]


def test_folders_of_splits_and_of_other_things(tmp_path: Path) -> None:
    for name in ("train/p1/cat-a.png", "test/p2/dog-b.png"):
        save(tmp_path / name)
    found = find_named(tmp_path, "{label}-{any}")
    assert [(e.label, e.split) for e in found] == [("cat", "train"), ("dog", "test")]
    assert find_named(tmp_path, "{label}/{any}.jpg").classes == ["p1", "p2"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("{n}.jpg", "names {label} 0 times; expected once, such as in"),
        ("{label}{label}", "2 times"),
        ("{label}#{n}.jpg", r"No file follows.*'a_1.png'"),
    ],
)
def test_a_pattern_that_says_nothing_is_refused(tmp_path: Path, pattern: str, message: str) -> None:
    save(tmp_path / "a_1.png")
    with pytest.raises(InputError, match=message):
        find_named(tmp_path, pattern)


@given(
    st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1), st.integers(0, 10**6)
)
def test_every_label_comes_back(label: str, number: int) -> None:
    found = compiled("img_{label}_{n}.jpg").fullmatch(f"img_{label}_{number}")
    assert found is None or found["label"] == label
    assert found is not None or "\n" in label
