"""Data as they are typed: one path or several, and labels told by names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from yoro.cli.options import UsageError

KINDS = "Folders, archives (.zip, .tar), lists (.csv, .jsonl), Parquet, WebDataset or URLs of images"
Images = Annotated[str, Parameter(name="DATA", help=f"{KINDS}, or responses (.npz).")]
Pictures = Annotated[str, Parameter(name="IMAGES", help=f"Images; {KINDS[0].lower()}{KINDS[1:]}, or responses (.npz).")]
LabelFrom = Annotated[
    str | None,
    Parameter(metavar="PATTERN", help="Labels by the names of files, such as '{label}_{n}.jpg', not by folders."),
]


def given(paths: Sequence[str], label_from: str | None = None) -> object:
    """What a verb is given: a path, several of them, or images with labels by a pattern."""
    if not paths:
        raise UsageError("No data given; expected a folder, an archive, a list, a Parquet file, a URL or responses.")
    data: object = paths[0] if len(paths) == 1 else list(paths)
    if label_from is None:
        return data
    from yoro.data.filename_labels import find_named

    return find_named(data, label_from)


def given_for(path: str | None, label_from: str | None) -> object | None:
    """The same for data of one purpose, such as --val."""
    return None if path is None else given([path], label_from)


def called(paths: Sequence[str]) -> str:
    """What data are called on a page; a folder given as a dot has a name."""
    paths = [path if Path(path).name.strip(".") else Path(path).resolve().name for path in paths]
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
