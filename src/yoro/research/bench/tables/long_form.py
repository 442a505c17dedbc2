"""The numbers of a plan in long form: one row for each setting, dataset and method, nothing rounded."""

from __future__ import annotations

from collections.abc import Sequence

from yoro.research.bench.plan import Plan, Setting
from yoro.research.bench.results import PlanEntry
from yoro.research.bench.tables.paper import PaperNumbers
from yoro.research.bench.tables.run_grid import RunGrid, percent
from yoro.research.bench.tables.summary import kept_share, mean, sample_deviation


def long_rows(plan: Plan, entries: Sequence[PlanEntry]) -> list[dict[str, object]]:
    """Accuracies in percent, differences in points, times in seconds; None where runs are missing.

    `seeds` is how many runs the plan has, `finished` how many of them there are.
    """
    grid, paper = RunGrid(plan, entries), PaperNumbers(plan)
    return [
        _row(grid, paper, setting, method, dataset)
        for setting in plan.settings
        for dataset in setting.datasets
        for method in setting.methods
    ]


def _row(grid: RunGrid, paper: PaperNumbers, setting: Setting, method: str, dataset: str) -> dict[str, object]:
    entries = grid.at(setting, method, dataset)
    runs = list((grid.runs(setting, method, dataset) or {}).values())
    accuracies, seconds = [percent(run) for run in runs], [run.seconds for run in runs]
    accuracy = mean(accuracies) if runs else None
    epochs = [run.depth for run in runs if run.depth is not None]
    shares = [run.retained for run in runs if run.retained is not None]
    refined = runs and len(epochs) == len(runs)
    printed = paper.number(setting, method, dataset)
    errors = dict.fromkeys(entry.error for entry in entries if entry.error is not None)
    return {
        "setting": setting.name,
        "dataset": dataset,
        "method": method,
        "title": grid.title(method),
        "seeds": len(setting.seeds),
        "finished": sum(entry.result is not None for entry in entries),
        "accuracy": accuracy,
        "deviation": sample_deviation(accuracies) if runs else None,
        "correct": sum(run.correct for run in runs) if runs else None,
        "tested": sum(run.tested for run in runs) if runs else None,
        "seconds": mean(seconds) if runs else None,
        "seconds_deviation": sample_deviation(seconds) if runs else None,
        "passes": mean([run.passes for run in runs]) if runs else None,
        "fitted": mean([run.fitted for run in runs]) if runs else None,
        "depth": mean(epochs) if refined else None,
        "depth_deviation": sample_deviation(epochs) if refined else None,
        "kept_epoch_0": 100 * kept_share(epochs) if refined else None,
        "retained": 100 * mean(shares) if runs and len(shares) == len(runs) else None,
        "selected_on": ", ".join(sorted({run.selected_on for run in runs if run.selected_on is not None})) or None,
        "paper_table": printed.table if printed else None,
        "paper": printed.value if printed else None,
        "paper_deviation": printed.deviation if printed else None,
        "difference": accuracy - printed.value if printed and accuracy is not None else None,
        "error": "; ".join(errors) or None,
    }
