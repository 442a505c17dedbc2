"""The paper's numbers, notes on their protocols, and which of them are comparable with ours."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from yoro.option import check_choice
from yoro.research.bench.tables.table import Kind, TableCell, letter

if TYPE_CHECKING:
    from yoro.research.bench.plan import Plan, Setting

CLIP = ("clip-rn50", "clip-rn101", "clip-vit-b32", "clip-vit-b16")
AVERAGE = "average"
OVERALL = ("overall", "overall-clip")
# Tables that print averages alone average the rows of these.
FULL_DATA_ROWS, CLIP_ROWS = "yoro-mapping-full-detail", "fsclip-v32-r50"


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


def published(table: str | None = None) -> list[Published]:
    """The printed numbers of one table, or of all, in the order of the paper.

    >>> len(published("padding-detailed"))
    195
    """
    if table is None:
        return list(_numbers())
    check_choice("table of the paper", table, published_tables())
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
    """Notes on the protocol behind a method's numbers in a table; often none."""
    return tuple(mark["text"] for mark in _marks() if table in mark["tables"] and method in mark["methods"])


def printed_cell(kind: Kind, numbers: Sequence[Published | None]) -> TableCell:
    """A cell with the paper's numbers alone; with none of them if one is missing."""
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return TableCell(kind)
    return TableCell(kind, paper=tuple(number.value for number in known), paper_deviation=known[0].deviation)


@cache
def _numbers() -> tuple[Published, ...]:
    _, *rows = csv.reader(_text("paper.csv").splitlines())
    return tuple(
        Published(table, setting, method, dataset, metric, float(value), float(deviation) if deviation else None)
        for table, setting, method, dataset, metric, value, deviation in rows
    )


@cache
def _cells() -> dict[tuple[str, str, str, str, str], Published]:
    return {(cell.table, cell.setting, cell.method, cell.dataset, cell.metric): cell for cell in _numbers()}


@cache
def _marks() -> list[dict[str, Any]]:
    """Notes with the tables and methods that each is about."""
    return list(tomllib.loads(_text("marks.toml"))["mark"])


def _text(name: str) -> str:
    return resources.files("yoro.research.bench.tables").joinpath(name).read_text(encoding="utf-8")


class PaperNumbers:
    """The paper's numbers for one table of a plan, with letters for notes on their protocols.

    `letters` are those of earlier tables, so that a note keeps its letter.
    """

    def __init__(self, plan: Plan, letters: dict[str, str] | None = None) -> None:
        self._plan = plan
        self._tables = plan.paper
        self._used: dict[tuple[str, ...], list[str]] = {}  # tables by method and settings
        self._letters = {} if letters is None else letters  # by sentence
        self._said: set[str] = set()  # sentences of this table
        self._other = False  # whether an average of other datasets was left out

    def number(self, setting: Setting, method: str, dataset: str, metric: str = "accuracy") -> Published | None:
        numbers = (published_value(table, setting.name, method, dataset, metric) for table in self._tables)
        found = next((number for number in numbers if number is not None), None)
        return None if found is None else self._noted(found, [setting])

    def average(self, settings: Sequence[Setting], method: str, metric: str = "accuracy") -> Published | None:
        """The paper's average over the datasets of a setting, or of several together.

        None unless the paper averages the same datasets and settings. A single dataset is its own average.
        """
        first = settings[0]
        if len(settings) == 1 and len(first.datasets) == 1:
            return self.number(first, method, first.datasets[0], metric)
        other = False
        together = OVERALL if first.inputs.shots is not None else OVERALL[:1]
        for name in (first.name,) if len(settings) == 1 else together:
            for table in self._tables:
                found = published_value(table, name, method, AVERAGE, metric)
                if found is not None and _same(found, settings):
                    return self._noted(found, settings)
                other = other or found is not None
        self._other = self._other or other
        return None

    def mark(self, method: str, *groups: Sequence[Setting]) -> tuple[str, ...]:
        """Letters of the sentences on a method's numbers that were found so far for these groups of settings."""
        keys = [(method, *(setting.name for setting in group)) for group in groups]
        tables = dict.fromkeys(table for key in keys for table in self._used.get(key, ()))
        texts = dict.fromkeys(text for table in tables for text in protocol_marks(table, method))
        self._said.update(texts)
        found = [self._letters.setdefault(text, letter(len(self._letters))) for text in texts]
        return tuple(sorted(found, key=lambda mark: (len(mark), mark)))

    def marks(self) -> tuple[tuple[str, str], ...]:
        """Letters given so far in this table, and their sentences."""
        return tuple((mark, text) for text, mark in self._letters.items() if text in self._said)

    def notes(self) -> list[str]:
        """Notes on numbers that are not shown or not comparable."""
        said = []
        if self._other:
            said.append("The paper's averages cover other datasets or settings and are not shown.")
        limited = any(setting.inputs.limit for setting in self._plan.settings)
        if limited and self._used:
            said.append("This plan limits the images; the paper's numbers use all images.")
        return said

    def _noted(self, number: Published, settings: Sequence[Setting]) -> Published:
        used = self._used.setdefault((number.method, *(setting.name for setting in settings)), [])
        if number.table not in used:
            used.append(number.table)
        return number


def _same(number: Published, settings: Sequence[Setting]) -> bool:
    """Whether a printed average is of just these settings and their datasets."""
    if number.setting in OVERALL and {setting.name for setting in settings} != _settings(number):
        return False
    return all(set(setting.datasets) == _datasets(number.table, setting.name) for setting in settings)


def _settings(number: Published) -> set[str]:
    if number.setting == "overall-clip":
        return set(CLIP)
    return {other.setting for other in published(number.table)} - set(OVERALL)


def _datasets(table: str, setting: str) -> set[str]:
    own = {number.dataset for number in published(table) if number.setting == setting} - {AVERAGE}
    if own:
        return own
    rows = published(CLIP_ROWS if setting in CLIP else FULL_DATA_ROWS)
    return {number.dataset for number in rows} - {AVERAGE}
