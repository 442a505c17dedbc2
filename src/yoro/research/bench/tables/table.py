"""A results table as data: headings, rows and cells of numbers, before formatting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from yoro.research.bench.tables.summary import best

# percent: an accuracy; share: of runs, in percent; points: a difference of accuracies; interval: its two ends in
# points; counts: wins, ties, losses; epochs, seconds, mebibytes; times: relative to the baseline; number: a plain count
Kind = Literal["percent", "share", "points", "interval", "counts", "epochs", "seconds", "times", "number", "mebibytes"]
MOST_COLUMNS = 8  # of a table whose groups of columns stand side by side


@dataclass(frozen=True)
class TableCell:
    """Our values (none if missing), and the paper's beside them (none if it has none)."""

    kind: Kind
    values: tuple[float, ...] = ()
    deviation: float | None = None
    best: bool = False
    paper: tuple[float, ...] = ()
    paper_deviation: float | None = None

    @property
    def differences(self) -> tuple[float, ...]:
        """Ours less the paper's, one by one; none where either is missing, or for wins, ties and losses."""
        if self.kind == "counts" or not self.values or not self.paper:
            return ()
        return tuple(ours - theirs for ours, theirs in zip(self.values, self.paper, strict=True))


@dataclass(frozen=True)
class Heading:
    """The heading of a column or row: its name in the plan, title, group, and letters of notes."""

    name: str
    title: str
    group: str = ""
    mark: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableRow:
    """A row; a cell is None where the plan has nothing. A summary row is set apart."""

    head: Heading
    cells: tuple[TableCell | None, ...]
    summary: bool = False


@dataclass(frozen=True)
class ResultsTable:
    """A table under its name among the ways to show results."""

    name: str
    title: str
    corner: str  # the heading of the column of headings
    columns: tuple[Heading, ...]
    rows: tuple[TableRow, ...]
    notes: tuple[str, ...] = ()  # what the table shows, and averages that are not computed
    gaps: tuple[str, ...] = ()  # runs that failed or are missing
    marks: tuple[tuple[str, str], ...] = ()  # letters at the headings, and notes on how the paper's numbers were made

    @property
    def beside_paper(self) -> bool:
        return any(cell is not None and cell.paper for row in self.rows for cell in row.cells)

    @property
    def told(self) -> tuple[str, ...]:
        return (*self.notes, *self.gaps, *(f"({letter}) {sentence}" for letter, sentence in self.marks))


def panels(table: ResultsTable) -> list[ResultsTable]:
    """A wide table in parts, one for each group of columns; a row with nothing in a part is left out of it.

    What is said below the table is left to the whole.
    """
    groups = list(dict.fromkeys(column.group for column in table.columns))
    if len(groups) < 2 or len(table.columns) <= MOST_COLUMNS:
        return [table]
    parts = []
    for group in groups:
        chosen = [i for i, column in enumerate(table.columns) if column.group == group]
        rows = [replace(row, cells=tuple(row.cells[i] for i in chosen)) for row in table.rows]
        kept = tuple(row for row in rows if any(cell is not None for cell in row.cells))
        parts.append(replace(table, columns=tuple(table.columns[i] for i in chosen), rows=kept))
    return parts


def with_best(
    cells: Sequence[TableCell | None], groups: Sequence[object] | None = None, *, least: bool = False
) -> list[TableCell | None]:
    """The cells with the best of each group marked: those that share the largest (or least) number as printed.

    Nothing is best among fewer than two.
    """
    of = groups if groups is not None else [None] * len(cells)
    known: dict[object, dict[int, float]] = {}
    for i, cell in enumerate(cells):
        if cell is not None and cell.values:
            known.setdefault(of[i], {})[i] = -cell.values[0] if least else cell.values[0]
    chosen = {i for values in known.values() if len(values) > 1 for i in best(values)}
    return [replace(cell, best=True) if cell is not None and i in chosen else cell for i, cell in enumerate(cells)]


def letter(number: int) -> str:
    """a, b, ... z, aa, ab, ..."""
    before, rest = divmod(number, 26)
    return (letter(before - 1) if before else "") + chr(ord("a") + rest)
