"""The paper's claims in the text, each computed from the cells and from the numbers that the paper prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from yoro.research.bench.plan import Setting
from yoro.research.bench.tables import summary
from yoro.research.bench.tables.paper import PaperNumbers
from yoro.research.bench.tables.run_grid import RunGrid, comparable, groups, setting_title
from yoro.research.bench.tables.table import Heading, ResultsTable, TableCell, TableRow

YORO, REFINED = "yoro", "yoro-fp"
GAINS = (  # what is said to be above what: a method, and others of which the best counts
    ("YORO over the best gradient-free mapping", YORO, ("rlm", "flm", "ilm", "blm", "blm+")),
    ("YORO over the learned linear mapping", YORO, ("deep",)),
    ("YORO over DVP", YORO, ("dvp",)),
    ("YORO over Tip-Adapter", YORO, ("tip-adapter",)),
    ("YORO-FP over YORO", REFINED, (YORO,)),
    ("YORO-FP over YORO", "momentum", (YORO,)),  # its name among the policies
)
MOSTLY_KEPT = 5  # stated in the text: of the seven settings of the figure, those where most runs keep epoch 0
FIGURE, SEVEN = "training-dynamics", 7
MIB = 1 << 20
DOUBLE = 8  # bytes of a number of a second moment
# Stated in the text, for responses of width 1,000 and for 7,940 similarities: they follow from those sizes.
SECOND_MOMENT = {1000: 7.6, 7940: 481.0}


def claims(grid: RunGrid, paper: PaperNumbers) -> ResultsTable:
    """One row for each claim that the plan's settings and methods can show."""
    rows = [row for title, settings in groups(grid.plan) for row in _of_settings(grid, paper, title, settings)]
    if FIGURE in grid.plan.paper and len(grid.plan.settings) == SEVEN:
        rows.append(_row("All seven settings", "Settings where most runs keep epoch 0", _mostly_kept(grid)))
    note = (
        "Gains are points of average accuracy, the paper's by the averages that it prints, which may be 0.1 from what "
        "its text says. Shares are of runs. Memory is that of the second moment in float64: as it is held, and as it "
        "would be for the whole response; it is known once YORO has been run."
    )
    columns = (Heading("value", "Value"),)
    return ResultsTable("claims", "The claims of the text", "Claim", columns, tuple(rows), (note,))


def _of_settings(grid: RunGrid, paper: PaperNumbers, place: str, settings: Sequence[Setting]) -> Iterator[TableRow]:
    """The claims on one setting, and those on several together of which the paper has a number."""
    alone = len(settings) == 1
    for words, method, rivals in GAINS:
        named = [name for name in rivals if comparable(settings, name)]
        if named and comparable(settings, method):
            cell = _gain(grid, paper, settings, method, named)
            if alone or cell.paper:
                yield _row(place, words, cell)
    if comparable(settings, REFINED):
        cell = _kept(grid, paper, settings)
        if alone or cell.paper:
            yield _row(place, "Runs that keep epoch 0", cell)
    if alone and YORO in settings[0].methods:
        yield from _memory(grid, settings[0])


def _gain(
    grid: RunGrid, paper: PaperNumbers, settings: Sequence[Setting], method: str, rivals: Sequence[str]
) -> TableCell:
    """A method's average less that of the best rival: ours if all were run, the paper's if it prints all."""
    own = [grid.by_setting(settings, name) for name in (method, *rivals)]
    means = [summary.macro_average(values)[0] for values in own if values is not None]
    printed = [paper.average(settings, name) for name in (method, *rivals)]
    known = [number.value for number in printed if number is not None]
    return TableCell(
        "points",
        (means[0] - max(means[1:]),) if len(means) == len(own) else (),
        paper=(known[0] - max(known[1:]),) if len(known) == len(printed) else (),
    )


def _kept(grid: RunGrid, paper: PaperNumbers, settings: Sequence[Setting]) -> TableCell:
    printed = paper.average(settings, REFINED, "kept_epoch_0")
    share = _kept_share(grid, settings)
    return TableCell(
        "share", () if share is None else (100 * share,), paper=() if printed is None else (printed.value,)
    )


def _kept_share(grid: RunGrid, settings: Sequence[Setting]) -> float | None:
    """The share of runs that keep epoch 0; None if any is missing."""
    runs = grid.all_runs(settings, REFINED)
    depths = [run.depth for run in runs or () if run.depth is not None]
    return summary.kept_share(depths) if runs and len(depths) == len(runs) else None


def _mostly_kept(grid: RunGrid) -> TableCell:
    shares = [_kept_share(grid, [setting]) for setting in grid.plan.settings]
    known = [share for share in shares if share is not None]
    ours = (float(sum(share > 0.5 for share in known)),) if len(known) == len(shares) else ()
    return TableCell("number", ours, paper=(MOSTLY_KEPT,))


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
