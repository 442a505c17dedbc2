"""One dataset found in several places: the same twice is fine, two different ones are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from yoro.bench.datasets.contract import Found, said_counts, split_counts
from yoro.data.examples import Dataset, Example, Picture
from yoro.errors import DatasetError


@dataclass(frozen=True)
class Copy:
    """A dataset as one place has it; `problem` says what is missing of it."""

    dataset: Dataset
    place: str
    problem: str = ""


def choose_copy(name: str, title: str, copies: Sequence[Copy]) -> Found:
    """The first copy, if all are complete and the same."""
    first = copies[0]
    for other in copies[1:]:
        difference = _difference(first.dataset, other.dataset)
        if difference:
            raise DatasetError(
                f"{title} was found twice, and the copies differ: '{first.place}' and '{other.place}': {difference}. "
                f'Say which is meant: give one --data root, or write [data] {name} = "PATH" in the plan.',
                state="two copies",
                looked=[first.place, other.place],
                found=split_counts(first.dataset),
            )
    if first.problem:
        raise DatasetError(
            f"{title}: {first.problem}", state="partial", looked=[first.place], found=split_counts(first.dataset)
        )
    notes = [f"{title} was also found in '{other.place}', the same; '{first.place}' is used." for other in copies[1:]]
    return Found(first.dataset, first.place, (*first.dataset.notes, *notes))


def _difference(one: Dataset, other: Dataset) -> str:
    """What tells two copies apart, or nothing: names, splits and classes, then sizes, then contents."""
    pairs = list(zip(sorted(one, key=_key), sorted(other, key=_key), strict=False))
    if len(one) != len(other):
        return f"one has {said_counts(split_counts(one))}, the other {said_counts(split_counts(other))}"
    for mine, yours in pairs:
        if (mine.name, mine.split, mine.label) != (yours.name, yours.split, yours.label):
            return f"one has {_said(mine)}, the other {_said(yours)}"
    for mine, yours in pairs:
        if _size(mine.image) != _size(yours.image):
            return f"'{mine.name}' has {_size(mine.image):,} bytes in one and {_size(yours.image):,} in the other"
    for mine, yours in pairs:
        if not _same(mine.image, yours.image):
            return f"'{mine.name}' has other contents"
    return ""


def _said(example: Example) -> str:
    return f"'{example.name}' ({example.split}, {example.label})"


def _key(example: Example) -> tuple[str, str]:
    return example.name, example.split or ""


def _size(image: Picture) -> int:
    if isinstance(image, Path):
        return image.stat().st_size
    return len(image) if isinstance(image, bytes) else int(np.asarray(image).nbytes)


def _same(one: Picture, other: Picture) -> bool:
    if isinstance(one, Path) and isinstance(other, Path):
        return one.samefile(other) or one.read_bytes() == other.read_bytes()
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return one == other
