"""Seeded draws: a stratified hold-out that respects groups, and k images a class."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.errors import InputError, counted

Indices = NDArray[np.intp]

HOLD_OUT = 0.1  # of the images of each class, where a rule needs validation data and none are given
MOST_VALIDATION = 4  # images a class beside a few-shot draw, as in the paper


def hold_out(
    labels: Sequence[str],
    fraction: float,
    seed: int,
    groups: Sequence[str | None] | None = None,
    *,
    names: Sequence[str] | None = None,
) -> tuple[Indices, Indices]:
    """Indices to fit on and indices to hold out, both ascending.

    Of each class, `fraction` of its images (rounded) is held out, but one always stays; a class of one image is never
    held out. A group is never divided, so that with groups the fraction is met as nearly as they allow; None is an
    image of no group. Each class is drawn by itself: another class more or less changes nothing. With `names`
    (unique) the draw does not depend on the order of the images at all; without, on their order within a class.
    """
    if not 0.0 < fraction < 1.0:
        raise InputError(f"The fraction to hold out is {fraction}, expected a number between 0 and 1.")
    _check_lengths(labels, groups=groups, names=names)
    if groups is None or all(group is None for group in groups):
        held = np.zeros(len(labels), dtype=bool)
        for label, members in _members(labels, names).items():
            count = _share(len(members), fraction)
            held[_generator(seed, label).permutation(members)[:count]] = True
    else:
        held = _hold_groups(labels, groups, fraction, seed, names)
    return np.flatnonzero(~held), np.flatnonzero(held)


def few_shot(labels: Sequence[str], k: int, seed: int, *, names: Sequence[str] | None = None) -> Indices:
    """Indices of k images of each class, ascending; all images of a class that has fewer. `names` as in `hold_out`."""
    if k < 1:
        raise InputError(f"k is {k}, expected at least one image per class.")
    _check_lengths(labels, names=names)
    drawn = [_generator(seed, label).permutation(members)[:k] for label, members in _members(labels, names).items()]
    return np.sort(np.concatenate(drawn)).astype(np.intp) if drawn else np.empty(0, dtype=np.intp)


def draw_few(examples: Sequence[Example], count: int, seed: int) -> list[Example]:
    """`count` images of each class, or all of a class that has fewer, in the order given; names decide which."""
    labels = [example.label or "" for example in examples]
    names = [example.name for example in examples]
    return [examples[i] for i in few_shot(labels, count, seed, names=names)]


def hold_tenth(examples: Sequence[Example], seed: int, *, grouped: bool = True) -> tuple[Indices, Indices]:
    """Indices of the images to fit and of a tenth of each class to hold out; names decide which, groups stay whole."""
    labels = [example.label or "" for example in examples]
    groups = [example.group for example in examples] if grouped else None
    return hold_out(labels, HOLD_OUT, seed, groups, names=[example.name for example in examples])


def describe_hold_out(labels: Sequence[str], kept: Indices, held: Indices, seed: int) -> str:
    """What `hold_out` did, in one sentence."""
    return (
        f"{counted(len(set(labels)), 'class')}, {counted(len(labels), 'image')}, no validation split given: "
        f"{len(kept)} for fitting, {len(held)} held out, seed {seed}."
    )


def _share(count: int, fraction: float) -> int:
    """How many of `count` images to hold out: rounded half up, one always stays."""
    return min(int(fraction * count + 0.5), count - 1)


def _generator(seed: int, label: str) -> np.random.Generator:
    """A stream of its own for each class, the same on every machine."""
    return np.random.default_rng([seed, crc32(label.encode("utf-8", "surrogatepass"))])


def _members(labels: Sequence[str], names: Sequence[str] | None) -> dict[str, list[int]]:
    """Indices of each class, in the order of the names, or in the order given."""
    order = range(len(labels)) if names is None else sorted(range(len(labels)), key=names.__getitem__)
    members: dict[str, list[int]] = {}
    for index in order:
        members.setdefault(labels[index], []).append(index)
    return members


def _hold_groups(
    labels: Sequence[str], groups: Sequence[str | None], fraction: float, seed: int, names: Sequence[str] | None
) -> NDArray[np.bool_]:
    """Visit the groups in a seeded order and hold out each that brings the classes nearer to their shares."""
    sizes = Counter(labels)
    missing = Counter({label: _share(size, fraction) for label, size in sizes.items()})  # still to be held out
    staying = Counter(sizes)
    units: dict[tuple[int, str], list[int]] = {}  # images without a group are units of their own
    for index, group in enumerate(groups):
        alone = str(index) if names is None else names[index]
        units.setdefault((0, alone) if group is None else (1, group), []).append(index)
    held = np.zeros(len(labels), dtype=bool)
    order = sorted(units)
    for position in np.random.default_rng(seed).permutation(len(order)):
        unit = units[order[position]]
        counts = Counter(labels[index] for index in unit)
        change = sum(abs(missing[label] - count) - abs(missing[label]) for label, count in counts.items())
        if change < 0 and all(staying[label] > count for label, count in counts.items()):
            held[unit] = True
            missing.subtract(counts)
            staying.subtract(counts)
    return held


def _check_lengths(labels: Sequence[str], **others: Sequence[object] | None) -> None:
    for what, values in others.items():
        if values is not None and len(values) != len(labels):
            raise InputError(f"{len(values)} {what} for {len(labels)} labels; expected one each.")
