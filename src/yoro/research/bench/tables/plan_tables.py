"""The tables of a plan: accuracy by dataset, setting and method; gain over a baseline, depth and cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

from yoro.research.bench.plan import Plan, Setting
from yoro.research.bench.results import CellResult, PlanEntry
from yoro.research.bench.tables import summary
from yoro.research.bench.tables.claims import claims
from yoro.research.bench.tables.paper import PaperNumbers, printed_cell
from yoro.research.bench.tables.run_grid import RunGrid, comparable, dataset_title, groups, methods_of, setting_title
from yoro.research.bench.tables.table import Heading, Kind, ResultsTable, TableCell, TableRow, with_best

SEEDS = "± is the sample standard deviation over the seeds."
KEPT = "Coordinates kept: the share of each response that a method uses, in percent, averaged over all runs."


def bench_tables(plan: Plan, entries: Sequence[PlanEntry]) -> list[ResultsTable]:
    """The tables that a plan shows, in its order, without its figures.

    A table has all rows and columns of the plan, whatever has been run. Its notes name missing runs, and differences
    to the paper's protocol.
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


@dataclass(frozen=True)
class Summed:
    """A method over all datasets of some settings, equally weighted: cells of our runs with the paper's beside them."""

    grid: RunGrid
    paper: PaperNumbers
    settings: Sequence[Setting]
    method: str

    def row(self, group: str, cells: Sequence[TableCell | None]) -> TableRow:
        """The row of these cells, with the letters of notes on the paper's numbers."""
        mark = self.paper.mark(self.method, self.settings)
        return TableRow(Heading(self.method, self.grid.title(self.method), group, mark), tuple(cells))

    def cell(self, kind: Kind, metrics: str, *values: float, deviation: float | None = None) -> TableCell:
        """A cell of our numbers, if there are any, with the paper's of these metrics beside them."""
        printed = [self.paper.average(self.settings, self.method, metric) for metric in metrics.split()]
        return replace(printed_cell(kind, printed), values=values, deviation=deviation)

    @cached_property
    def runs(self) -> list[CellResult] | None:
        """Every run; None if any is missing."""
        return self.grid.all_runs(self.settings, self.method)

    def accuracy(self) -> TableCell:
        averages = self.grid.by_setting(self.settings, self.method)
        if averages is None:
            return self.cell("percent", "accuracy")
        value, deviation = summary.macro_average(averages)
        return self.cell("percent", "accuracy", value, deviation=deviation)

    def gain(self) -> TableCell:
        ours, theirs = (self.grid.by_setting(self.settings, name) for name in (self.method, self.grid.plan.baseline))
        if ours is None or theirs is None:
            return self.cell("points", "delta")
        return self.cell("points", "delta", summary.macro_average(ours)[0] - summary.macro_average(theirs)[0])

    def gain_by_dataset(self) -> list[TableCell | None]:
        """The bootstrap interval of the gain, and how many datasets were won, tied and lost."""
        ours, theirs = self._exact_means(self.method), self._exact_means(self.grid.plan.baseline)
        ends: tuple[float, ...] = ()
        counts: tuple[float, ...] = ()
        if ours is not None and theirs is not None:
            gains = [100 * float(ours[place] - theirs[place]) for place in ours]
            ends = summary.bootstrap_interval(gains) if len(gains) > 1 else ()
            counts = summary.wins_ties_losses(ours, theirs)
        return [self.cell("interval", "ci_low ci_high", *ends), self.cell("counts", "wins ties losses", *counts)]

    def _exact_means(self, method: str) -> dict[str, Fraction] | None:
        """Mean accuracy over the seeds by setting and dataset; None if any is missing."""
        found = self.grid.whole(self.settings, method) if comparable(self.settings, method) else None
        if found is None:
            return None
        counts = {place: [(run.correct, run.tested) for run in runs.values()] for place, runs in found.items()}
        return {place: summary.exact_mean(*zip(*pairs, strict=True)) for place, pairs in counts.items()}

    def _epochs(self) -> list[int] | None:
        """The chosen epoch of every run; empty if the method does not refine, None if runs are missing."""
        chosen = [run.depth for run in self.runs or () if run.depth is not None]
        return None if self.runs is None else chosen if len(chosen) == len(self.runs) else []

    def depths(self) -> list[TableCell | None]:
        """Mean and median of the chosen epochs; nothing where nothing refines."""
        epochs = self._epochs()
        if epochs is None:
            return [self.cell("epochs", "depth"), TableCell("epochs")]
        if not epochs:
            return [None, None]
        middle, around, median = summary.depth(epochs)
        return [self.cell("epochs", "depth", middle, deviation=around), TableCell("epochs", (median,))]

    def kept(self) -> TableCell | None:
        """The share of runs that keep epoch 0; nothing where nothing refines."""
        epochs = self._epochs()
        if epochs is None:
            return self.cell("share", "kept_epoch_0")
        return self.cell("share", "kept_epoch_0", 100 * summary.kept_share(epochs)) if epochs else None

    def retained(self) -> TableCell | None:
        """The mean share of the coordinates that every run keeps; nothing where none is ever left out."""
        shares = [run.retained for run in self.runs or () if run.retained is not None]
        if self.runs is None:
            cell = self.cell("share", "retained")
            return cell if cell.paper else None
        return self.cell("share", "retained", 100 * summary.mean(shares)) if len(shares) == len(self.runs) else None

    def passes(self) -> TableCell:
        return self.cell("number", "passes", *([summary.mean([run.passes for run in self.runs])] if self.runs else []))

    def relative_time(self) -> TableCell:
        """The mean over all runs of the time relative to the baseline's; none if a run is missing or took no time."""
        ours, theirs = (self.grid.whole(self.settings, name) for name in (self.method, self.grid.plan.baseline))
        if ours is None or theirs is None or any(run.seconds <= 0 for runs in theirs.values() for run in runs.values()):
            return self.cell("times", "relative_time")
        ratios = [run.seconds / theirs[place][seed].seconds for place in ours for seed, run in ours[place].items()]
        return self.cell("times", "relative_time", summary.mean(ratios))

    def seconds(self) -> TableCell:
        """The mean seconds of a fit, in one setting."""
        times = self.grid.averages(self.settings[0], self.method, lambda run: run.seconds)
        if times is None:
            return self.cell("seconds", "seconds")
        per_seed = list(times.values())
        return self.cell("seconds", "seconds", summary.mean(per_seed), deviation=summary.sample_deviation(per_seed))


def by_dataset(grid: RunGrid, paper: PaperNumbers) -> ResultsTable:
    """Rows are datasets and their average; columns are the methods of each setting."""
    plan = grid.plan
    places = [(setting, method) for setting in plan.settings for method in setting.methods]
    within = [setting.name for setting, _ in places]
    rows = [
        _row(Heading(name, dataset_title(name)), [_of_dataset(grid, paper, *place, name) for place in places], within)
        for name in plan.datasets
    ]
    if any(len(setting.datasets) > 1 for setting in plan.settings):
        cells = [
            Summed(grid, paper, [setting], method).accuracy() if len(setting.datasets) > 1 else None
            for setting, method in places
        ]
        rows.append(replace(_row(Heading("average", "Average"), cells, within), summary=True))
    kept = _kept([Summed(grid, paper, [setting], method) for setting, method in places])
    rows += kept
    columns = []
    for setting, method in places:
        group, mark = setting_title(plan, setting), paper.mark(method, [setting])
        columns.append(Heading(f"{setting.name}/{method}", grid.title(method), group, mark))
    notes = ["Accuracy on the test images in percent. " + SEEDS, *grid.incomplete(), *[KEPT] * len(kept)]
    return ResultsTable("datasets", "Accuracy by dataset", "Dataset", tuple(columns), tuple(rows), tuple(notes))


def by_setting(grid: RunGrid, paper: PaperNumbers) -> ResultsTable:
    """Rows are settings and their mean; columns are methods; entries are averages over the datasets."""
    plan = grid.plan
    names = tuple(plan.uses)
    rows = [
        _row(
            Heading(setting.name, setting_title(plan, setting)),
            [Summed(grid, paper, [setting], name).accuracy() if name in setting.methods else None for name in names],
        )
        for setting in plan.settings
    ]
    notes = ["Accuracy on the test images in percent, averaged over the datasets of a setting. " + SEEDS]
    notes += grid.incomplete()
    if len(plan.settings) > 1:
        overall = [
            Summed(grid, paper, plan.settings, name).accuracy() if comparable(plan.settings, name) else None
            for name in names
        ]
        rows.append(replace(_row(Heading("overall", "Overall"), overall), summary=True))
        notes.append("Overall averages the settings equally.")
        notes += grid.not_overall()
    kept = _kept([Summed(grid, paper, plan.settings, name) for name in names])
    rows += kept
    notes += [KEPT] * len(kept)
    shown = [*([setting] for setting in plan.settings), plan.settings]
    columns = tuple(Heading(name, grid.title(name), mark=paper.mark(name, *shown)) for name in names)
    return ResultsTable("settings", "Accuracy by setting", "Setting", columns, tuple(rows), tuple(notes))


def by_method(grid: RunGrid, paper: PaperNumbers) -> ResultsTable:
    """Rows are the methods of each setting; columns are datasets and their average."""
    plan = grid.plan
    averaged = any(len(setting.datasets) > 1 for setting in plan.settings)
    rows: list[TableRow] = []
    for setting in plan.settings:
        listed = [Summed(grid, paper, [setting], method) for method in setting.methods]
        columns = [[_of_dataset(grid, paper, setting, one.method, name) for one in listed] for name in plan.datasets]
        columns += [[one.accuracy() for one in listed]] if averaged else []
        ranked = zip(*map(with_best, columns), strict=True)
        rows += [one.row(_group(plan, setting), cells) for one, cells in zip(listed, ranked, strict=True)]
    heads = [Heading(name, dataset_title(name)) for name in plan.datasets] + [Heading("average", "Avg.")] * averaged
    notes = ("Accuracy on the test images in percent. " + SEEDS, *grid.incomplete())
    return ResultsTable("methods", "Accuracy by method", "Method", tuple(heads), tuple(rows), notes)


def diagnostics(grid: RunGrid, paper: PaperNumbers) -> ResultsTable:
    """Every method but the baseline: gain, interval, wins, chosen epochs. Rows stand in groups of settings."""
    base = grid.plan.baseline
    rows = []
    for title, settings in groups(grid.plan):
        for method in methods_of(settings):
            if method != base:
                one = Summed(grid, paper, settings, method)
                rows.append(
                    one.row(title, [one.accuracy(), one.gain(), *one.gain_by_dataset(), *one.depths(), one.kept()])
                )
    named = grid.title(base)
    told = (
        f"Δ is the gain over {named} in points; the interval is a bootstrap of 10,000 draws over the datasets and "
        "settings. W/T/L counts them by exact means over the seeds. Depth is the chosen epoch over all runs, mean ± "
        "sample standard deviation; 0 is the predictor before refinement."
    )
    titles = ("Accuracy, %", "Δ, points", "95 % interval", "W/T/L", "Depth", "Median", "Epoch 0 kept")
    columns = tuple(Heading(title, title) for title in titles)
    return ResultsTable("diagnostics", f"Gain over {named}", "Method", columns, tuple(rows), (told, *grid.not_summed()))


def efficiency(grid: RunGrid, paper: PaperNumbers) -> ResultsTable:
    """Every method: accuracy, gain over the baseline, epoch 0, and cost. Rows stand in groups of settings."""
    base = grid.plan.baseline
    rows = []
    for title, settings in groups(grid.plan):
        listed = [Summed(grid, paper, settings, method) for method in methods_of(settings)]
        for one, best in zip(listed, with_best([one.accuracy() for one in listed]), strict=True):
            gain = None if one.method == base else one.gain()
            rows.append(one.row(title, [best, gain, one.kept(), one.passes(), one.relative_time()]))
    named = grid.title(base)
    told = (
        f"Δ is the gain over {named} in points. Passes are traversals of the training images; time is relative to "
        f"{named} on the same dataset, setting and seed, then averaged. Validation and test are not counted."
    )
    titles = ("Accuracy, %", "Δ, points", "Epoch 0 kept", "Passes", "Relative time")
    columns = tuple(Heading(title, title) for title in titles)
    return ResultsTable("efficiency", "Accuracy and cost", "Method", columns, tuple(rows), (told, *grid.not_summed()))


def timing(grid: RunGrid, paper: PaperNumbers) -> ResultsTable:
    """Every method: accuracy and seconds, setting by setting."""
    rows: list[TableRow] = []
    for setting in grid.plan.settings:
        listed = [Summed(grid, paper, [setting], method) for method in setting.methods]
        best = with_best([one.accuracy() for one in listed])
        fastest = with_best([one.seconds() for one in listed], least=True)
        rows += [one.row(_group(grid.plan, setting), cells) for one, *cells in zip(listed, best, fastest, strict=True)]
    columns = (Heading("accuracy", "Accuracy, %"), Heading("seconds", "Seconds"))
    note = f"Seconds of fitting or training; validation and test are not counted. {SEEDS}"
    return ResultsTable("timing", "Accuracy and time", "Method", columns, tuple(rows), (note,))


def _row(head: Heading, cells: Sequence[TableCell | None], within: Sequence[str] | None = None) -> TableRow:
    """A row whose best cells are marked, each among those that stand within the same group."""
    return TableRow(head, tuple(with_best(cells, within)))


def _of_dataset(grid: RunGrid, paper: PaperNumbers, setting: Setting, method: str, dataset: str) -> TableCell | None:
    if dataset not in setting.datasets or method not in setting.methods:
        return None
    return Summed(grid, paper, [replace(setting, datasets=(dataset,))], method).accuracy()


def _kept(listed: Sequence[Summed]) -> list[TableRow]:
    """A row of the shares of coordinates that are kept; none where none is ever left out."""
    cells = tuple(one.retained() for one in listed)
    return [TableRow(Heading("retained", "Coordinates kept"), cells, summary=True)] if any(cells) else []


def _group(plan: Plan, setting: Setting) -> str:
    """What rows of a setting stand under; nothing where there is no other."""
    return setting_title(plan, setting) if len(plan.settings) > 1 else ""


LAYOUTS: dict[str, Callable[[RunGrid, PaperNumbers], ResultsTable]] = {
    "datasets": by_dataset, "settings": by_setting, "methods": by_method,
    "diagnostics": diagnostics, "efficiency": efficiency, "timing": timing, "claims": claims,
}  # fmt: skip
