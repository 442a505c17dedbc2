"""Which images are fitted, and which are kept to validate on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from yoro.data.examples import Dataset, Example
from yoro.data.find import find
from yoro.data.splits import Indices, describe_hold_out, few_shot, hold_out
from yoro.errors import InputError, SelectionError

HOLD_OUT = 0.1  # of the images of each class, where a rule needs validation data and none are given
MOST_VALIDATION = 4  # images a class beside a few-shot draw, as in the paper


def choose_examples(
    data: object, val: object | None, *, rule: str | float, seed: int, shots: int | None = None
) -> tuple[list[Example], list[Example], list[str]]:
    """Images to fit, images to validate on, and sentences on what was found and done.

    Only the rule "validation" validates; under every other rule images that were marked for it are
    fitted too, except beside a few-shot draw, which is of exactly `shots` images a class.
    """
    found = find(data)
    notes = list(found.notes)
    train = list(found.select("train") if "train" in found.splits else _without(found, ("val", "test")))
    held = [e for e in found if e.split == "val"] if val is None else _renamed(find(val), val, train)
    own = sum(example.split == "val" for example in found) if val is not None else 0
    if own:
        notes.append(f"The {own:,} images of the data's own validation split are left alone: others were given.")
    tests = sum(example.split == "test" for example in found)
    if tests:
        notes.append(f"The {tests:,} images of the test split are left alone.")
    if shots is not None:
        train, held = _few(train, held, shots, seed, rule)
        notes.append(f"{shots} images a class are drawn, seed {seed}; classes that have fewer give all.")
    elif held and rule != "validation":
        notes.append(fitted_too(len(held), rule))
        train, held = train + held, []
    classes = {example.label for example in train}
    notes.insert(0, f"Found {len(train):,} images of {len(classes)} classes to fit.")
    if rule == "validation" and not held:
        train, held, note = _held_out(train, seed)
        notes.append(note)
    return train, held, notes


def fitted_too(count: int, rule: str | float) -> str:
    """What is said where validation data are not held out."""
    return f"The {count:,} validation examples are fitted too: the rule {str(rule)!r} needs none held out."


def _few(
    train: list[Example], held: list[Example], shots: int, seed: int, rule: str | float
) -> tuple[list[Example], list[Example]]:
    """`shots` images a class to fit; to validate on, at most four a class of the validation images or of the rest."""
    drawn = draw_few(train, shots, seed)
    if rule != "validation":
        return drawn, []
    taken = {id(example) for example in drawn}
    pool = held or [example for example in train if id(example) not in taken]
    return drawn, draw_few(pool, min(shots, MOST_VALIDATION), seed) if pool else []


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


def _held_out(train: list[Example], seed: int) -> tuple[list[Example], list[Example], str]:
    kept, out = hold_tenth(train, seed)
    labels = [example.label or "" for example in train]
    if not len(out):
        raise SelectionError(
            "The rule 'validation' needs validation images, and the classes are too small to hold any out. "
            "Rules that work here: loo, oas, rblw, ledoit-wolf, a number from 0 to 1."
        )
    return [train[i] for i in kept], [train[i] for i in out], describe_hold_out(labels, kept, out, seed)


def _renamed(held: Dataset, val: object, train: list[Example]) -> list[Example]:
    """Validation examples under names that no training example has, so that a name tells which is meant."""
    if {example.name for example in held}.isdisjoint(example.name for example in train):
        return list(held)
    place = str(val) if isinstance(val, str | Path) else "validation"
    return [replace(example, name=f"{place}: {example.name}") for example in held]


def _without(found: Dataset, splits: tuple[str, ...]) -> list[Example]:
    rest = [example for example in found if example.split not in splits]
    if not rest:
        raise InputError(f"The data have the splits {', '.join(found.splits)} but no training images to fit.")
    return rest
