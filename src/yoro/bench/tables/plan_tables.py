"""The tables of a plan: accuracies by dataset, by setting and by method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from yoro.bench.plan import Plan, Setting
from yoro.bench.results import PlanEntry
from yoro.bench.tables.diagnostics import SEEDS, average_cell, diagnostics, efficiency, timing
from yoro.bench.tables.paper import PaperNumbers, printed_cell
from yoro.bench.tables.run_grid import RunGrid, comparable, dataset_title, setting_title
from yoro.bench.tables.summary import mean, sample_deviation
from yoro.bench.tables.table import Head, Table, TableCell, TableRow, with_best


def bench_tables(plan: Plan, entries: Sequence[PlanEntry]) -> list[Table]:
    """The tables that a plan shows, in its order; none for the words that name figures.

    A table has all rows and columns of the plan, whatever has been run. Its notes name what is missing, and say
    where the paper's numbers were made otherwise.
    """
    grid = RunGrid(plan, entries)
    letters: dict[str, str] = {}  # the same in all tables
    made = []
    for word in plan.show:
        if word in LAYOUTS:
            paper = PaperNumbers(plan, letters)
            table = LAYOUTS[word](grid, paper)
            notes = (*table.notes, *grid.chosen_on_test(), *paper.notes())
            made.append(replace(table, notes=notes, gaps=tuple(grid.gaps()), marks=paper.marks()))
    return made


def by_dataset(grid: RunGrid, paper: PaperNumbers) -> Table:
    """Rows are datasets and their average; columns are the methods of each setting."""
    plan = grid.plan
    places = [(setting, method) for setting in plan.settings for method in setting.methods]
    groups = [setting.name for setting, _ in places]
    rows = [
        _row(Head(name, dataset_title(name)), [_of_dataset(grid, paper, *place, name) for place in places], groups)
        for name in plan.datasets
    ]
    if any(len(setting.datasets) > 1 for setting in plan.settings):
        cells = [
            average_cell(grid, paper, [setting], method) if len(setting.datasets) > 1 else None
            for setting, method in places
        ]
        rows.append(replace(_row(Head("average", "Average"), cells, groups), summary=True))
    columns = tuple(
        Head(
            f"{setting.name}/{method}",
            grid.title(method),
            setting_title(plan, setting),
            paper.mark(method, [setting]),
        )
        for setting, method in places
    )
    notes = ["Accuracy on the test images in percent. " + SEEDS, *grid.incomplete()]
    return Table("datasets", "Accuracy by dataset", "Dataset", columns, tuple(rows), tuple(notes))


def by_setting(grid: RunGrid, paper: PaperNumbers) -> Table:
    """Rows are settings and their mean; columns are methods; entries are averages over the datasets."""
    plan = grid.plan
    names = tuple(plan.uses)
    rows = [
        _row(
            Head(setting.name, setting_title(plan, setting)),
            [average_cell(grid, paper, [setting], name) if name in setting.methods else None for name in names],
        )
        for setting in plan.settings
    ]
    notes = ["Accuracy on the test images in percent, averaged over the datasets of a setting. " + SEEDS]
    notes += grid.incomplete()
    if len(plan.settings) > 1:
        overall = [
            average_cell(grid, paper, plan.settings, name) if comparable(plan.settings, name) else None
            for name in names
        ]
        rows.append(replace(_row(Head("overall", "Overall"), overall), summary=True))
        notes.append("Overall averages the settings equally.")
        notes += _not_overall(grid, names)
    groups = [*([setting] for setting in plan.settings), plan.settings]
    columns = tuple(Head(name, grid.title(name), mark=paper.mark(name, *groups)) for name in names)
    return Table("settings", "Accuracy by setting", "Setting", columns, tuple(rows), tuple(notes))


def by_method(grid: RunGrid, paper: PaperNumbers) -> Table:
    """Rows are the methods of each setting; columns are datasets and their average."""
    plan = grid.plan
    averaged = any(len(setting.datasets) > 1 for setting in plan.settings)
    rows: list[TableRow] = []
    for setting in plan.settings:
        lines = [_line(grid, paper, setting, method, averaged) for method in setting.methods]
        ranked = [with_best(column) for column in zip(*lines, strict=True)]
        for method, cells in zip(setting.methods, zip(*ranked, strict=True), strict=True):
            group = setting_title(plan, setting) if len(plan.settings) > 1 else ""
            head = Head(method, grid.title(method), group, paper.mark(method, [setting]))
            rows.append(TableRow(head, tuple(cells)))
    columns = [Head(name, dataset_title(name)) for name in plan.datasets]
    notes = ["Accuracy on the test images in percent. " + SEEDS, *grid.incomplete()]
    return Table(
        "methods", "Accuracy by method", "Method", (*columns, *([Head("average", "Avg.")] if averaged else [])),
        tuple(rows), tuple(notes),
    )  # fmt: skip


def _line(grid: RunGrid, paper: PaperNumbers, setting: Setting, method: str, averaged: bool) -> list[TableCell | None]:
    cells = [_of_dataset(grid, paper, setting, method, name) for name in grid.plan.datasets]
    return [*cells, *([average_cell(grid, paper, [setting], method)] if averaged else [])]


def _row(head: Head, cells: Sequence[TableCell | None], groups: Sequence[str] | None = None) -> TableRow:
    return TableRow(head, tuple(with_best(cells, groups)))


def _of_dataset(grid: RunGrid, paper: PaperNumbers, setting: Setting, method: str, dataset: str) -> TableCell | None:
    if dataset not in setting.datasets or method not in setting.methods:
        return None
    cell = printed_cell("percent", [paper.number(setting, method, dataset)])
    values = list((grid.accuracies(setting, method, dataset) or {}).values())
    return replace(cell, values=(mean(values),), deviation=sample_deviation(values)) if values else cell


def _not_overall(grid: RunGrid, names: Sequence[str]) -> list[str]:
    """A sentence on methods without an overall mean because the plan does not run them everywhere."""
    out = [grid.title(name) for name in names if not comparable(grid.plan.settings, name)]
    return [f"{', '.join(out)}: no overall mean, for lack of a setting or of the same seeds in all."] if out else []


LAYOUTS: dict[str, Callable[[RunGrid, PaperNumbers], Table]] = {
    "datasets": by_dataset, "settings": by_setting, "methods": by_method,
    "diagnostics": diagnostics, "efficiency": efficiency, "timing": timing,
}  # fmt: skip
