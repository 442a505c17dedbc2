"""The numbers of a plan in long form: one row for each setting, dataset and method, nothing rounded."""

from __future__ import annotations

from collections.abc import Sequence

from yoro.bench.plan import Plan, Setting
from yoro.bench.results import PlanEntry, Result
from yoro.bench.tables.paper import PaperNumbers
from yoro.bench.tables.run_grid import RunGrid
from yoro.bench.tables.summary import depth, kept_share, mean, sample_deviation

Value = str | int | float | None
FIGURES = (
    "accuracy", "deviation", "correct", "tested", "seconds", "seconds_deviation", "passes", "fitted",
    "depth", "depth_deviation", "kept_epoch_0", "selected_on",
)  # fmt: skip


def long_rows(plan: Plan, entries: Sequence[PlanEntry]) -> list[dict[str, object]]:
    """Accuracies in percent, differences in points, times in seconds; None where runs are missing.

    `seeds` is how many runs the plan has, `finished` how many of them there are.
    """
    grid, paper = RunGrid(plan, entries), PaperNumbers(plan)
    found: dict[tuple[str, str, str], list[PlanEntry]] = {}
    for entry in entries:
        found.setdefault((entry.setting, entry.method, entry.dataset), []).append(entry)
    return [
        _row(grid, paper, setting, method, dataset, found.get((setting.name, method, dataset), []))
        for setting in plan.settings
        for dataset in setting.datasets
        for method in setting.methods
    ]


def _row(
    grid: RunGrid, paper: PaperNumbers, setting: Setting, method: str, dataset: str, entries: Sequence[PlanEntry]
) -> dict[str, object]:
    runs = grid.runs(setting, method, dataset)
    printed = paper.number(setting, method, dataset)
    shown = _figures(list(runs.values()) if runs else [])
    accuracy = shown["accuracy"]
    errors = list(dict.fromkeys(entry.error for entry in entries if entry.error is not None))
    return {
        "setting": setting.name,
        "dataset": dataset,
        "method": method,
        "title": grid.title(method),
        "seeds": len(setting.seeds),
        "finished": sum(entry.result is not None for entry in entries),
        **shown,
        "paper_table": printed.table if printed else None,
        "paper": printed.value if printed else None,
        "paper_deviation": printed.deviation if printed else None,
        "difference": accuracy - printed.value if printed and isinstance(accuracy, float) else None,
        "error": "; ".join(errors) or None,
    }


def _figures(runs: Sequence[Result]) -> dict[str, Value]:
    shown: dict[str, Value] = dict.fromkeys(FIGURES)
    if not runs:
        return shown
    accuracies, seconds = [100 * run.accuracy for run in runs], [run.seconds for run in runs]
    shown |= {
        "accuracy": mean(accuracies),
        "deviation": sample_deviation(accuracies),
        "correct": sum(run.correct for run in runs),
        "tested": sum(run.tested for run in runs),
        "seconds": mean(seconds),
        "seconds_deviation": sample_deviation(seconds),
        "passes": mean([run.passes for run in runs]),
        "fitted": mean([run.fitted for run in runs]),
        "selected_on": ", ".join(sorted({run.selected_on for run in runs if run.selected_on is not None})) or None,
    }
    epochs = [run.depth for run in runs if run.depth is not None]
    if len(epochs) == len(runs):
        middle, around, _ = depth(epochs)
        shown |= {"depth": middle, "depth_deviation": around, "kept_epoch_0": 100 * kept_share(epochs)}
    return shown
