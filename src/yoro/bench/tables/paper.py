"""The numbers printed in the paper, and where they were made otherwise than a run of this package would be."""

from __future__ import annotations

import csv
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources

from yoro.errors import InputError


@dataclass(frozen=True)
class Published:
    """One printed number: accuracies and shares in percent, differences in points, times in seconds.

    `setting` names network and input ("rn18-padding", "clip-vit-b32"), or "overall" for the mean of a table's
    settings and "overall-clip" for the mean of the four CLIP networks; `dataset` is "average" for a printed mean.
    """

    table: str  # the paper's label without "tab:" or "fig:"
    setting: str
    method: str
    dataset: str
    metric: str
    value: float
    deviation: float | None  # over three seeds (of depth: over runs); None where none is printed


@dataclass(frozen=True)
class _Mark:
    """A sentence about the protocol behind some columns of some tables."""

    tables: tuple[str, ...]
    methods: tuple[str, ...]
    text: str


def published(table: str | None = None) -> list[Published]:
    """The printed numbers of one table, or of all, in the order of the paper.

    >>> len(published("padding-detailed"))
    195
    """
    if table is None:
        return list(_numbers())
    if table not in published_tables():
        known = ", ".join(published_tables())
        raise InputError(f"'{table}' is no table of the paper. Its tables are {known}.")
    return [number for number in _numbers() if number.table == table]


def published_tables() -> tuple[str, ...]:
    """The names of the paper's tables, and of the one figure whose text states numbers."""
    return tuple(dict.fromkeys(number.table for number in _numbers()))


def published_value(table: str, setting: str, method: str, dataset: str, metric: str = "accuracy") -> Published | None:
    """The printed number of one cell, or None where the paper prints none.

    >>> published_value("padding-detailed", "rn18-padding", "yoro", "dtd").value
    59.0
    """
    return _cells().get((table, setting, method, dataset, metric))


def protocol_marks(table: str, method: str) -> tuple[str, ...]:
    """What to know of the protocol behind a method's numbers in a table, one sentence or two each; often none."""
    return tuple(mark.text for mark in _marks() if table in mark.tables and method in mark.methods)


@cache
def _numbers() -> tuple[Published, ...]:
    return tuple(
        Published(
            row["table"],
            row["setting"],
            row["method"],
            row["dataset"],
            row["metric"],
            float(row["value"]),
            float(row["deviation"]) if row["deviation"] else None,
        )
        for row in csv.DictReader(_text("paper.csv").splitlines())
    )


@cache
def _cells() -> dict[tuple[str, str, str, str, str], Published]:
    return {(cell.table, cell.setting, cell.method, cell.dataset, cell.metric): cell for cell in _numbers()}


@cache
def _marks() -> tuple[_Mark, ...]:
    entries = tomllib.loads(_text("marks.toml"))["mark"]
    return tuple(_Mark(tuple(entry["tables"]), tuple(entry["methods"]), entry["text"]) for entry in entries)


def _text(name: str) -> str:
    return resources.files("yoro.bench.tables").joinpath(name).read_text(encoding="utf-8")
