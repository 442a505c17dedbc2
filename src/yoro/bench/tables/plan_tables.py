"""From the entries of a plan to its tables: accuracies by dataset, by setting and by method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from yoro.bench.plan import Plan, Setting
from yoro.bench.results import Entry
from yoro.bench.tables.beside import Beside
from yoro.bench.tables.board import Board, comparable, dataset_title, incomplete, setting_title
from yoro.bench.tables.diagnostics import SEEDS, diagnostics, efficiency, timing
from yoro.bench.tables.layout import Head, Row, Table, TableCell, with_best
from yoro.bench.tables.paper import Published
from yoro.bench.tables.summary import macro_average, mean, sample_deviation


def bench_tables(plan: Plan, entries: Sequence[Entry]) -> list[Table]:
    """The tables that a plan shows, in its order; none for the words that name figures.

    A table has all rows and columns of the plan, whatever has been run. Its notes name what is missing, and say
    where the paper's numbers were made otherwise.
    """
    board = Board(plan, entries)
    letters: dict[str, str] = {}  # the same in all tables
    made = []
    for word in plan.show:
        if word in LAYOUTS:
            beside = Beside(plan, letters)
            table = LAYOUTS[word](board, beside)
            notes = (*table.notes, *board.chosen_on_test(), *beside.notes())
            made.append(replace(table, notes=notes, gaps=tuple(board.gaps()), marks=beside.marks()))
    return made


def by_dataset(board: Board, beside: Beside) -> Table:
    """Rows are datasets and their average; columns are the methods of each setting."""
    plan = board.plan
    places = [(setting, method) for setting in plan.settings for method in setting.methods]
    rows = [
        _row(Head(name, dataset_title(name)), [_of_dataset(board, beside, *place, name) for place in places], places)
        for name in plan.datasets
    ]
    if any(len(setting.datasets) > 1 for setting in plan.settings):
        cells = [_of_average(board, beside, *place) if len(place[0].datasets) > 1 else None for place in places]
        rows.append(replace(_row(Head("average", "Average"), cells, places), summary=True))
    columns = tuple(
        Head(
            f"{setting.name}/{method}",
            board.title(method),
            setting_title(plan, setting),
            beside.mark(method, [setting]),
        )
        for setting, method in places
    )
    notes = ["Accuracy on the test images in percent. " + SEEDS, *_incomplete(board)]
    return Table("datasets", "Accuracy by dataset", "Dataset", columns, tuple(rows), tuple(notes))


def by_setting(board: Board, beside: Beside) -> Table:
    """Rows are settings and their mean; columns are methods; entries are averages over the datasets."""
    plan = board.plan
    names = tuple(plan.uses)
    rows = [
        _row(
            Head(setting.name, setting_title(plan, setting)),
            [_of_average(board, beside, setting, name) if name in setting.methods else None for name in names],
        )
        for setting in plan.settings
    ]
    notes = ["Accuracy on the test images in percent, averaged over the datasets of a setting. " + SEEDS]
    notes += _incomplete(board)
    if len(plan.settings) > 1:
        overall = [_overall(board, beside, name) for name in names]
        rows.append(replace(_row(Head("overall", "Overall"), overall), summary=True))
        notes.append("Overall averages the settings equally.")
        notes += _not_overall(board, names)
    groups = [*([setting] for setting in plan.settings), plan.settings]
    columns = tuple(Head(name, board.title(name), mark=beside.mark(name, *groups)) for name in names)
    return Table("settings", "Accuracy by setting", "Setting", columns, tuple(rows), tuple(notes))


def by_method(board: Board, beside: Beside) -> Table:
    """Rows are the methods of each setting; columns are datasets and their average."""
    plan = board.plan
    averaged = any(len(setting.datasets) > 1 for setting in plan.settings)
    rows: list[Row] = []
    for setting in plan.settings:
        grid = [_line(board, beside, setting, method, averaged) for method in setting.methods]
        ranked = [with_best(column) for column in zip(*grid, strict=True)]
        for method, cells in zip(setting.methods, zip(*ranked, strict=True), strict=True):
            group = setting_title(plan, setting) if len(plan.settings) > 1 else ""
            head = Head(method, board.title(method), group, beside.mark(method, [setting]))
            rows.append(Row(head, tuple(cells)))
    columns = [Head(name, dataset_title(name)) for name in plan.datasets]
    notes = ["Accuracy on the test images in percent. " + SEEDS, *_incomplete(board)]
    return Table(
        "methods", "Accuracy by method", "Method", (*columns, *([Head("average", "Avg.")] if averaged else [])),
        tuple(rows), tuple(notes),
    )  # fmt: skip


def _line(board: Board, beside: Beside, setting: Setting, method: str, averaged: bool) -> list[TableCell | None]:
    cells = [_of_dataset(board, beside, setting, method, name) for name in board.plan.datasets]
    return [*cells, *([_of_average(board, beside, setting, method)] if averaged else [])]


def _row(head: Head, cells: Sequence[TableCell | None], places: Sequence[tuple[Setting, str]] | None = None) -> Row:
    groups = None if places is None else [setting.name for setting, _ in places]
    return Row(head, tuple(with_best(cells, groups)))


def _of_dataset(board: Board, beside: Beside, setting: Setting, method: str, dataset: str) -> TableCell | None:
    if dataset not in setting.datasets or method not in setting.methods:
        return None
    return _cell(board.accuracies(setting, method, dataset), beside.number(setting, method, dataset))


def _of_average(board: Board, beside: Beside, setting: Setting, method: str) -> TableCell:
    return _cell(board.averages(setting, method), beside.average([setting], method))


def _cell(values: Mapping[int, float] | None, paper: Published | None) -> TableCell:
    cell = (
        TableCell("percent", paper=(paper.value,), paper_deviation=paper.deviation) if paper else TableCell("percent")
    )
    if values is None:
        return cell
    numbers = list(values.values())
    return replace(cell, values=(mean(numbers),), deviation=sample_deviation(numbers))


def _overall(board: Board, beside: Beside, method: str) -> TableCell | None:
    settings = board.plan.settings
    if not comparable(settings, method):
        return None
    cell = _cell(None, beside.average(settings, method))
    averages = board.by_setting(settings, method)
    if averages is None:
        return cell
    value, deviation = macro_average(averages)
    return replace(cell, values=(value,), deviation=deviation)


def _not_overall(board: Board, names: Sequence[str]) -> list[str]:
    """A sentence on methods without an overall mean because the plan does not run them everywhere."""
    out = [board.title(name) for name in names if not comparable(board.plan.settings, name)]
    return [f"{', '.join(out)}: no overall mean, for lack of a setting or of the same seeds in all."] if out else []


def _incomplete(board: Board) -> list[str]:
    missing = {
        (setting_title(board.plan, setting), board.title(method)): board.missing_datasets(setting, method)
        for setting in board.plan.settings
        for method in setting.methods
        if len(setting.datasets) > 1
    }
    return incomplete(
        missing, {setting_title(board.plan, setting): len(setting.datasets) for setting in board.plan.settings}
    )


LAYOUTS: dict[str, Callable[[Board, Beside], Table]] = {
    "datasets": by_dataset, "settings": by_setting, "methods": by_method,
    "diagnostics": diagnostics, "efficiency": efficiency, "timing": timing,
}  # fmt: skip
