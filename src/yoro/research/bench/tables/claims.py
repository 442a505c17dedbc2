"""The paper's claims in the text, each computed from the cells and from the numbers that the paper prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from yoro.research.bench.plan import Setting
from yoro.research.bench.tables import summary
from yoro.research.bench.tables.paper import PaperNumbers
from yoro.research.bench.tables.run_grid import RunGrid, setting_title
from yoro.research.bench.tables.table import Heading, ResultsTable, TableCell, TableRow

YORO, REFINED = "yoro", "yoro-fp"
RIVALS = {  # what YORO is said to be above, by the words for it
    "the best gradient-free mapping": ("rlm", "flm", "ilm", "blm", "blm+"),
    "the learned linear mapping": ("deep",),
    "DVP": ("dvp",),
}
MIB = 1 << 20
DOUBLE = 8  # bytes of a number of a second moment
# Stated in the text, for responses of width 1,000 and for 7,940 similarities: they follow from those sizes.
SECOND_MOMENT = {1000: 7.6, 7940: 481.0}


def claims(grid: RunGrid, paper: PaperNumbers) -> ResultsTable:
    """One row for each claim that the plan's settings and methods can show."""
    rows = [row for setting in grid.plan.settings for row in _of_setting(grid, paper, setting)]
    note = (
        "Gains of YORO are points of average accuracy, the paper's by the averages that it prints. Shares are of runs. "
        "Memory is that of the second moment in float64: as it is held, and as it would be for the whole response."
    )
    columns = (Heading("value", "Value"),)
    return ResultsTable("claims", "The claims of the text", "Claim", columns, tuple(rows), (note,))


def _of_setting(grid: RunGrid, paper: PaperNumbers, setting: Setting) -> Iterator[TableRow]:
    place = setting_title(grid.plan, setting)
    for words, rivals in RIVALS.items():
        named = [name for name in rivals if name in setting.methods]
        if named and YORO in setting.methods:
            yield _row(place, f"YORO over {words}", _gain(grid, paper, setting, named))
    if REFINED in setting.methods:
        yield _row(place, "Runs that keep epoch 0", _kept(grid, paper, setting))
    if YORO in setting.methods:
        yield from _memory(grid, setting)


def _gain(grid: RunGrid, paper: PaperNumbers, setting: Setting, rivals: Sequence[str]) -> TableCell:
    """YORO's average less that of the best rival: ours if all were run, the paper's if it prints all."""
    own = [grid.averages(setting, name) for name in (YORO, *rivals)]
    means = [summary.mean(list(values.values())) for values in own if values is not None]
    printed = [paper.average([setting], name) for name in (YORO, *rivals)]
    known = [number.value for number in printed if number is not None]
    return TableCell(
        "points",
        (means[0] - max(means[1:]),) if len(means) == len(own) else (),
        paper=(known[0] - max(known[1:]),) if len(known) == len(printed) else (),
    )


def _kept(grid: RunGrid, paper: PaperNumbers, setting: Setting) -> TableCell:
    printed = paper.average([setting], REFINED, "kept_epoch_0")
    runs = grid.all_runs([setting], REFINED)
    depths = [run.depth for run in runs or () if run.depth is not None]
    shown = (100 * summary.kept_share(depths),) if runs and len(depths) == len(runs) else ()
    return TableCell("share", shown, paper=() if printed is None else (printed.value,))


def _memory(grid: RunGrid, setting: Setting) -> Iterator[TableRow]:
    """The second moment as it is held, and of the whole response, on the dataset where the latter is the largest."""
    runs = [run for name in setting.datasets for run in (grid.runs(setting, YORO, name) or {}).values() if run.widths]
    if not runs:
        return
    held, whole = max((run.widths for run in runs if run.widths), key=lambda widths: widths[1])
    for words, width in (("Second moment held", held), ("Second moment of the whole response", whole)):
        stated = SECOND_MOMENT.get(width)
        cell = TableCell("mebibytes", (DOUBLE * width**2 / MIB,), paper=(stated,) if stated else ())
        yield _row(setting_title(grid.plan, setting), words, cell)


def _row(place: str, words: str, cell: TableCell) -> TableRow:
    return TableRow(Heading(f"{place}: {words}", words, place), (cell,))
