"""Labels from file names, as in `cat_001.jpg`."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import PurePosixPath

from yoro.data.examples import SPLITS, Dataset, Example, Ignored, class_name
from yoro.data.find import find, find_in_folders
from yoro.errors import InputError

UNMATCHED = "Ignored, a name that does not follow the pattern"
FIELD = re.compile(r"\{(\w*)\}")
FOLDERS = {"folders": False, "subfolders": True}  # whether the folders are splits
NUMBERS = frozenset({"n", "number", "index", "id"})  # fields that stand for digits


def find_named(data: object, pattern: str) -> Dataset:
    """The images of unlabelled data with labels by a pattern such as `{label}_{n}.jpg`, sorted by class, then path.

    `{label}` is the class, `{n}` a number, any other field anything. A pattern without a slash is that of the file's
    name, one with slashes that of the end of its path. The ending may be another kind of image. Images in a folder
    named after a split belong to it. In place of a pattern, "folders" says that folders are classes whatever they are
    called, "subfolders" that they are splits, with classes within.
    """
    if pattern in FOLDERS:
        return find_in_folders(data, splits=FOLDERS[pattern])
    rule, found, ignored = compiled(pattern), find(data, labelled=False), Ignored()
    examples: list[Example] = []
    for example in found:
        label = _label(example.name, pattern, rule)
        if label:
            examples.append(replace(example, label=label, split=_split(example.name)))
        else:
            ignored.add(UNMATCHED, example.name)
    if not examples:
        raise InputError(
            f"No file follows the pattern {pattern!r}; the first is {found.examples[0].name!r}. "
            "{label} stands for the class, {n} for a number, {any} for anything."
        )
    examples.sort(key=lambda example: (example.label or "", example.name))
    return Dataset(tuple(examples), (*found.notes, *ignored.sentences()))


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression without its ending.

    >>> compiled("{label}_{n}.jpg").fullmatch("tabby_cat_017")["label"]
    'tabby_cat'
    """
    fields = FIELD.findall(pattern)
    if fields.count("label") != 1:
        raise InputError(
            f"The pattern {pattern!r} names {{label}} {fields.count('label')} times; expected once, such as in "
            "'{label}_{n}.jpg' for cat_01.jpg."
        )
    stem = pattern.removesuffix(PurePosixPath(pattern).suffix) if not pattern.endswith("}") else pattern
    parts = FIELD.split(stem)
    texts = [re.escape(part) if i % 2 == 0 else _field(part) for i, part in enumerate(parts)]
    return re.compile("".join(texts), re.DOTALL)


def _field(name: str) -> str:
    if name == "label":
        return "(?P<label>[^/]+)"
    return "[0-9]+" if name in NUMBERS else "[^/]*?"


def _label(name: str, pattern: str, rule: re.Pattern[str]) -> str:
    """The class in a file name; empty if the name does not follow the pattern."""
    path = PurePosixPath(name)
    depth = pattern.count("/") + 1
    found = rule.fullmatch("/".join(path.with_suffix("").parts[-depth:]))
    return class_name(found["label"]) if found else ""


def _split(name: str) -> str | None:
    folders: Collection[str] = PurePosixPath(name).parts[:-1]
    return next((SPLITS[folder.lower()] for folder in folders if folder.lower() in SPLITS), None)
