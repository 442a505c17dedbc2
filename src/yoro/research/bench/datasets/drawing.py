"""Draws: the training, validation and test images of one seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from yoro.data.examples import Dataset, Example, shown
from yoro.data.lists import read_split
from yoro.data.roles import by_role
from yoro.data.splits import MOST_VALIDATION, draw_few, hold_tenth
from yoro.errors import InputError
from yoro.option import check_choice, check_range

TEST_SEED = 0  # so that every seed is tested on the same images


@dataclass(frozen=True)
class Drawn:
    """Examples to fit, to validate on and to test, each sorted by class, then name."""

    train: tuple[Example, ...]
    val: tuple[Example, ...]
    test: tuple[Example, ...]
    pile: tuple[Example, ...] = ()  # training images whose labels are not read


def half_of(dataset: Dataset, half: str) -> Dataset:
    """The first ("base") or second ("new") half of the classes by name, the middle one in the first; "": all."""
    classes = sorted(dataset.classes)
    cut = -(-len(classes) // 2)
    chosen = {"": classes, "base": classes[:cut], "new": classes[cut:]}[half]
    return replace(dataset, examples=tuple(example for example in dataset if example.label in set(chosen)))


def few_in_all(drawn: Drawn, count: int, seed: int) -> Drawn:
    """So many examples in all, whatever their classes: four fifths to fit, one fifth to validate on, as VTAB-1k has."""
    rng = np.random.default_rng([seed, count])
    parts = []
    for examples, most in ((drawn.train, count - count // 5), (drawn.val, count // 5)):
        chosen = sorted(rng.permutation(len(examples))[:most].tolist())
        parts.append(tuple(examples[i] for i in chosen))
    return replace(drawn, train=parts[0], val=parts[1])


def with_pile(drawn: Drawn, dataset: Dataset, count: int, seed: int) -> Drawn:
    """A pile of so many further training images a class, whose labels only the draw reads."""
    used = {example.name for example in (*drawn.train, *drawn.val)}
    rest = [example for example in by_role(list(dataset))["train"] if example.label and example.name not in used]
    return replace(drawn, pile=tuple(draw_few(sorted(rest, key=_order), count, seed)))


def with_whole_validation(drawn: Drawn, dataset: Dataset) -> Drawn:
    """All validation images of the dataset, however few were drawn to train on."""
    held = [example for example in dataset if example.split == "val" and example.label is not None]
    if not held:
        raise InputError("The dataset has no validation images of its own; leave out validation = 'split'.")
    return replace(drawn, val=tuple(sorted(held, key=_order)))


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
    shots : training images per class; min(shots, 4) validation images, as in the paper.
    limit : at most so many images per class, by split; the test images are the same for every seed.
    grouped : keep groups, such as GTSRB's tracks, whole where validation images are held out; the paper does not.

    Validation images are the dataset's own, else 10 % of each class of train.
    """
    limit = limit or {}
    for split, count in limit.items():
        check_choice("split in the limit", split, ("train", "val", "test"))
        check_range(f"limit of {split}", count, 1, whole=True)
    parts = by_role(sorted((example for example in dataset if example.label is not None), key=_order))
    for split in ("train", "test"):
        if not parts[split]:
            raise InputError(
                f"The dataset has no {split} images; its splits are {', '.join(dataset.splits) or 'unnamed'}. "
                "Expected folders or columns train, test and optionally val."
            )
    if not parts["val"]:
        train = parts["train"]
        kept, held = hold_tenth(train, seed, grouped=grouped)
        parts["train"], parts["val"] = [train[i] for i in kept], [train[i] for i in held]
    if shots is not None:
        parts["train"] = draw_few(parts["train"], shots, seed)
        parts["val"] = draw_few(parts["val"], min(shots, MOST_VALIDATION), seed)
    for split, count in limit.items():
        parts[split] = draw_few(parts[split], count, TEST_SEED if split == "test" else seed)
    return Drawn(**{split: tuple(part) for split, part in parts.items()})


def draw_published(dataset: Dataset, file: Path) -> Drawn:
    """The images of a published few-shot index; the test images are all of the dataset's.

    The index has paths of another machine: images are matched by the longest end of the path that is a name.
    """
    by_name = {example.name: example for example in dataset if example.split != "test"}
    parts: dict[str, list[Example]] = {"train": [], "val": [], "test": []}
    for row in read_split(file):
        ends = row.place.replace("\\", "/").split("/")
        name = next((end for start in range(len(ends)) if (end := "/".join(ends[start:])) in by_name), None)
        if name is None or by_name[name].label != row.label:
            known = "not in the dataset" if name is None else f"of class {by_name[name].label!r} in the dataset"
            raise InputError(f"'{shown(file)}' lists {row.place!r} of class {row.label!r}, which is {known}.")
        parts[row.split].append(by_name[name])
    parts["test"] = [example for example in dataset if example.split == "test"]
    return Drawn(**{split: tuple(sorted(part, key=_order)) for split, part in parts.items()})


def _order(example: Example) -> tuple[str, str]:
    return example.label or "", example.name
