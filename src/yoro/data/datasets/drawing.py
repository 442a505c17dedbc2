"""Which images of a dataset are fitted, validated on and tested, for one seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from yoro.choosing import HOLD_OUT, MOST_VALIDATION, draw_few
from yoro.data.coop import read_split
from yoro.data.examples import Dataset, Example, shown
from yoro.data.splits import hold_out
from yoro.errors import InputError

TEST_SEED = 0  # so that every seed is tested on the same images


@dataclass(frozen=True)
class Drawn:
    """Examples to fit, to validate on and to test, each sorted by class, then name."""

    train: tuple[Example, ...]
    val: tuple[Example, ...]
    test: tuple[Example, ...]


def draw(
    dataset: Dataset,
    *,
    seed: int,
    shots: int | None = None,
    limit: Mapping[str, int] | None = None,
    grouped: bool = False,
) -> Drawn:
    """The images of one run; the draw depends on names, not on their order.

    seed : of the hold-out, the shots and the limits of train and val.
    shots : images a class to fit; min(shots, 4) a class to validate on, as in the paper.
    limit : at most so many images a class, by split; those of test are the same for every seed.
    grouped : keep groups, such as GTSRB's tracks, whole where validation images are held out; the paper does not.

    Validation images are the dataset's own, else 10 % of each class of train.
    """
    limit = _checked(limit or {})
    parts: dict[str, list[Example]] = {"train": [], "val": [], "test": []}
    for example in sorted(dataset, key=lambda example: (example.label or "", example.name)):
        if example.split in parts and example.label is not None:
            parts[example.split].append(example)
    for split in ("train", "test"):
        if not parts[split]:
            raise InputError(
                f"The dataset has no images to {'fit' if split == 'train' else 'test'}; its splits are "
                f"{', '.join(dataset.splits) or 'unnamed'}. Expected folders or columns train, test and optionally val."
            )
    if not parts["val"]:
        parts["train"], parts["val"] = _held_out(parts["train"], seed, grouped)
    if shots is not None:
        parts["train"] = draw_few(parts["train"], shots, seed)
        parts["val"] = draw_few(parts["val"], min(shots, MOST_VALIDATION), seed)
    for split, count in limit.items():
        parts[split] = draw_few(parts[split], count, TEST_SEED if split == "test" else seed)
    return Drawn(tuple(parts["train"]), tuple(parts["val"]), tuple(parts["test"]))


def draw_published(dataset: Dataset, index: Path) -> Drawn:
    """The images of a published few-shot index, which names those to fit and to validate on; all test images."""
    known: dict[tuple[str, str | None, str], list[Example]] = {}
    for example in dataset:
        known.setdefault((example.split or "", example.label, _last(example.name)), []).append(example)
    parts: dict[str, list[Example]] = {"train": [], "val": []}
    for row in read_split(index):
        found = known.get((row.split, row.label, _last(row.place)), [])
        if len(found) != 1 or row.split not in parts:
            raise InputError(
                f"'{shown(index)}' names {row.place!r} of class {row.label!r} in {row.split!r}, and the dataset has "
                f"{len(found)} images of that name there. The index belongs to another copy or another split."
            )
        parts[row.split].append(found[0])
    tests = sorted((e for e in dataset if e.split == "test"), key=lambda e: (e.label or "", e.name))
    return Drawn(tuple(parts["train"]), tuple(parts["val"]), tuple(tests))


def _last(place: str) -> str:
    return PurePosixPath(place.replace("\\", "/")).name


def _checked(limit: Mapping[str, int]) -> Mapping[str, int]:
    for split, count in limit.items():
        if split not in ("train", "val", "test") or isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise InputError(f"limit has {split!r}: {count!r}; expected train, val or test, and a count from 1.")
    return limit


def _held_out(train: list[Example], seed: int, grouped: bool) -> tuple[list[Example], list[Example]]:
    labels = [example.label or "" for example in train]
    names = [example.name for example in train]
    groups = [example.group for example in train] if grouped else None
    kept, held = hold_out(labels, HOLD_OUT, seed, groups, names=names)
    return [train[i] for i in kept], [train[i] for i in held]
