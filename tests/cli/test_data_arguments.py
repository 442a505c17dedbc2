from __future__ import annotations

import pytest

from yoro.cli.data_arguments import called


def test_a_folder_given_as_a_dot_is_called_by_its_name(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "photos" / "new").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "photos")
    assert [called([path]) for path in (".", "./", "new", "../photos/new", "new/..")] == [
        "photos", "photos", "new", "../photos/new", "photos",
    ]  # fmt: skip


def test_of_many_folders_the_first_are_named() -> None:
    assert called(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"
