"""Tables on what a method gains over a baseline, how deep it refines, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from yoro.bench.plan import Plan, Setting
from yoro.bench.results import Result
from yoro.bench.tables.paper import PaperNumbers, printed_cell
from yoro.bench.tables.run_grid import RunGrid, comparable, setting_title
from yoro.bench.tables.summary import (
    bootstrap_interval,
    depth,
    kept_share,
    macro_average,
    mean,
    sample_deviation,
    wins_ties_losses,
)
from yoro.bench.tables.table import Head, Kind, Table, TableCell, TableRow, with_best

SEEDS = "± is the sample standard deviation over the seeds."


@dataclass(frozen=True)
class Group:
    """Settings that are summed up together."""

    title: str
    settings: tuple[Setting, ...]

    def runs_method(self, method: str) -> bool:
        """Whether the settings can be summed up together for a method."""
        return comparable(self.settings, method)


def groups(plan: Plan) -> list[Group]:
    """Every setting alone, then those of one kind together: full data, or few images a class."""
    made = []
    limited = any(setting.inputs.limit for setting in plan.settings)
    for few, kind in ((False, "Limited data" if limited else "Full data"), (True, "Few-shot")):
        alike = tuple(setting for setting in plan.settings if (setting.inputs.shots is not None) == few)
        made += [Group(setting_title(plan, setting), (setting,)) for setting in alike]
        if len(alike) > 1:
            together = "both" if len(alike) == 2 else f"all {len(alike)}"
            made.append(Group(f"{kind}, {together} settings", alike))
    return made


def diagnostics(grid: RunGrid, paper: PaperNumbers) -> Table:
    """Every method but the baseline: gain, interval, wins, chosen epochs. Rows stand in groups of settings."""
    base = grid.plan.baseline
    rows = [
        _row(grid, paper, group, method, _gains(grid, paper, group, method))
        for group in groups(grid.plan)
        for method in _methods(group)
        if method != base
    ]
    titles = ("Accuracy, %", "Δ, points", "95 % interval", "W/T/L", "Depth", "Median", "Epoch 0 kept")
    columns = tuple(Head(title, title) for title in titles)
    named = grid.title(base)
    told = (
        f"Δ is the gain over {named} in points; the interval is a bootstrap of 10,000 draws over the datasets and "
        "settings. W/T/L counts them by exact means over the seeds. Depth is the chosen epoch over all runs, mean ± "
        "sample standard deviation; 0 is the predictor before refinement."
    )
    notes = (told, *_lacking(grid, base))
    return Table("diagnostics", f"Gain over {named}", "Method", columns, tuple(rows), notes)


def efficiency(grid: RunGrid, paper: PaperNumbers) -> Table:
    """Every method: accuracy, gain over the baseline, epoch 0, and cost. Rows stand in groups of settings."""
    base = grid.plan.baseline
    rows: list[TableRow] = []
    for group in groups(grid.plan):
        methods = _methods(group)
        lines = [_costs(grid, paper, group, method) for method in methods]
        best = with_best([line[0] for line in lines])
        for method, line, first in zip(methods, lines, best, strict=True):
            rows.append(_row(grid, paper, group, method, (first, *line[1:])))
    titles = ("Accuracy, %", "Δ, points", "Epoch 0 kept", "Passes", "Relative time")
    columns = tuple(Head(title, title) for title in titles)
    named = grid.title(base)
    told = (
        f"Δ is the gain over {named} in points. Passes are traversals of the training images; time is relative to "
        f"{named} on the same dataset, setting and seed, then averaged. Validation and test are not counted."
    )
    notes = (told, *_lacking(grid, base))
    return Table("efficiency", "Accuracy and cost", "Method", columns, tuple(rows), notes)


def timing(grid: RunGrid, paper: PaperNumbers) -> Table:
    """Every method: accuracy and seconds, setting by setting."""
    rows: list[TableRow] = []
    for setting in grid.plan.settings:
        group = Group(setting_title(grid.plan, setting) if len(grid.plan.settings) > 1 else "", (setting,))
        best = with_best([average_cell(grid, paper, [setting], method) for method in setting.methods])
        fastest = with_best([_seconds(grid, paper, setting, method) for method in setting.methods], least=True)
        for method, *cells in zip(setting.methods, best, fastest, strict=True):
            rows.append(_row(grid, paper, group, method, cells))
    columns = (Head("accuracy", "Accuracy, %"), Head("seconds", "Seconds"))
    note = f"Seconds of fitting or training; validation and test are not counted. {SEEDS}"
    return Table("timing", "Accuracy and time", "Method", columns, tuple(rows), (note,))


def _row(grid: RunGrid, paper: PaperNumbers, group: Group, method: str, cells: Sequence[TableCell | None]) -> TableRow:
    """The row of a method in a group, with letters for those of the paper's numbers that its cells have."""
    head = Head(method, grid.title(method), group.title, paper.mark(method, group.settings))
    return TableRow(head, tuple(cells))


def _methods(group: Group) -> list[str]:
    return list(dict.fromkeys(method for setting in group.settings for method in setting.methods))


def _gains(grid: RunGrid, paper: PaperNumbers, group: Group, method: str) -> list[TableCell | None]:
    base = grid.plan.baseline
    ours, theirs = _means(grid, group, method), _means(grid, group, base)
    counted: tuple[float, ...] = ()
    interval: tuple[float, ...] = ()
    if ours is not None and theirs is not None:
        counted = wins_ties_losses(ours, theirs)
        interval = bootstrap_interval([100 * float(ours[place] - theirs[place]) for place in ours])
    epochs = _epochs(grid, group, method)
    deep = depth(epochs) if epochs else None
    shown = epochs is None or len(epochs) > 0  # None: runs are missing; empty: nothing refines
    spread = _printed(paper, group.settings, method, "interval", "ci_low", "ci_high")
    tallies = _printed(paper, group.settings, method, "counts", "wins", "ties", "losses")
    depths = _printed(paper, group.settings, method, "epochs", "depth")
    return [
        average_cell(grid, paper, group.settings, method),
        _delta(grid, paper, group, method),
        replace(spread, values=interval),
        replace(tallies, values=counted),
        replace(depths, values=deep[:1] if deep else (), deviation=deep[1] if deep else None) if shown else None,
        TableCell("epochs", (deep[2],) if deep else ()) if shown else None,
        _kept(grid, paper, group, method),
    ]


def _costs(grid: RunGrid, paper: PaperNumbers, group: Group, method: str) -> list[TableCell | None]:
    runs = grid.all_runs(group.settings, method) if group.runs_method(method) else None
    passes = _printed(paper, group.settings, method, "number", "passes")
    times = _printed(paper, group.settings, method, "times", "relative_time")
    return [
        average_cell(grid, paper, group.settings, method),
        None if method == grid.plan.baseline else _delta(grid, paper, group, method),
        _kept(grid, paper, group, method),
        replace(passes, values=(mean([run.passes for run in runs]),)) if runs else passes,
        replace(times, values=_relative(grid, group, method)),
    ]


def average_cell(grid: RunGrid, paper: PaperNumbers, settings: Sequence[Setting], method: str) -> TableCell:
    """The accuracy of a method over the datasets of a setting, or over several settings of equal weight."""
    cell = _printed(paper, settings, method, "percent", "accuracy")
    averages = grid.by_setting(settings, method)
    if averages is None:
        return cell
    value, deviation = macro_average(averages)
    return replace(cell, values=(value,), deviation=deviation)


def _delta(grid: RunGrid, paper: PaperNumbers, group: Group, method: str) -> TableCell:
    cell = _printed(paper, group.settings, method, "points", "delta")
    ours, theirs = grid.by_setting(group.settings, method), grid.by_setting(group.settings, grid.plan.baseline)
    if ours is None or theirs is None:
        return cell
    return replace(cell, values=(macro_average(ours)[0] - macro_average(theirs)[0],))


def _kept(grid: RunGrid, paper: PaperNumbers, group: Group, method: str) -> TableCell | None:
    epochs = _epochs(grid, group, method)
    if epochs is not None and not epochs:
        return None
    cell = _printed(paper, group.settings, method, "share", "kept_epoch_0")
    return replace(cell, values=(100 * kept_share(epochs),)) if epochs else cell


def _seconds(grid: RunGrid, paper: PaperNumbers, setting: Setting, method: str) -> TableCell:
    cell = _printed(paper, [setting], method, "seconds", "seconds")
    found = {name: grid.runs(setting, method, name) for name in setting.datasets}
    if any(runs is None for runs in found.values()):
        return cell
    times = {name: {seed: run.seconds for seed, run in (runs or {}).items()} for name, runs in found.items()}
    per_seed = [mean([by_seed[seed] for by_seed in times.values()]) for seed in setting.seeds]
    return replace(cell, values=(mean(per_seed),), deviation=sample_deviation(per_seed))


def _relative(grid: RunGrid, group: Group, method: str) -> tuple[float, ...]:
    """Mean over all runs of the time relative to the baseline's; nothing if a run is missing or took no time."""
    ratios: list[float] = []
    for setting in group.settings:
        for dataset in setting.datasets:
            ours, theirs = grid.runs(setting, method, dataset), grid.runs(setting, grid.plan.baseline, dataset)
            if ours is None or theirs is None or any(run.seconds <= 0 for run in theirs.values()):
                return ()
            ratios += [ours[seed].seconds / theirs[seed].seconds for seed in setting.seeds]
    return (mean(ratios),)


def _means(grid: RunGrid, group: Group, method: str) -> dict[str, Fraction] | None:
    """Exact mean accuracy by setting and dataset; None if any is missing."""
    if not group.runs_method(method):
        return None
    places = [(setting, dataset) for setting in group.settings for dataset in setting.datasets]
    found = {f"{s.name}/{dataset}": grid.exact(s, method, dataset) for s, dataset in places}
    whole = {place: value for place, value in found.items() if value is not None}
    return whole if len(whole) == len(found) else None


def _epochs(grid: RunGrid, group: Group, method: str) -> list[int] | None:
    """The chosen epoch of every run; empty if the method refines nothing, None if runs are missing."""
    runs: Sequence[Result] | None = grid.all_runs(group.settings, method) if group.runs_method(method) else None
    if runs is None:
        return None
    chosen = [run.depth for run in runs if run.depth is not None]
    return chosen if len(chosen) == len(runs) else []


def _printed(paper: PaperNumbers, settings: Sequence[Setting], method: str, kind: Kind, *metrics: str) -> TableCell:
    return printed_cell(kind, [paper.average(settings, method, metric) for metric in metrics])


def _lacking(grid: RunGrid, base: str) -> list[str]:
    """Sentences on groups without a baseline, and on methods that some settings of a group do not run."""
    said = []
    for group in groups(grid.plan):
        if not group.runs_method(base):
            said.append(f"{group.title}: no gain can be given, because the baseline {base!r} is not run there.")
        absent = [grid.title(name) for name in _methods(group) if name != base and not group.runs_method(name)]
        if absent:
            said.append(
                f"{group.title}: {', '.join(absent)} not summed up, for lack of a setting or of the same seeds."
            )
        lacking = [
            grid.title(name)
            for name in _methods(group)
            if group.runs_method(name) and any(grid.missing_datasets(setting, name) for setting in group.settings)
        ]
        if lacking:
            needed = sum(len(setting.datasets) for setting in group.settings)
            said.append(
                f"{group.title}: {', '.join(lacking)} not summed up, which needs all {needed} datasets and seeds."
            )
    return said
