"""A plan and its results as one HTML page that needs nothing besides itself, and as rows for CSV and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import markupsafe

from yoro.reports.page import render, text
from yoro.research.bench.plan import Plan, Setting
from yoro.research.bench.results import PlanEntry
from yoro.research.bench.tables.figures import FIGURES
from yoro.research.bench.tables.paper import PaperNumbers
from yoro.research.bench.tables.plan_tables import bench_tables
from yoro.research.bench.tables.run_grid import RunGrid, dataset_title, percent, setting_title
from yoro.research.bench.tables.summary import kept_share, mean, sample_deviation
from yoro.research.bench.tables.table import ResultsTable, panels
from yoro.research.bench.tables.table_writers import Markup, cell_text, paper_text

HTML = Markup(markupsafe.Markup("<b>{}</b>").format, text, "\u2009±\u2009", percent="\u2009%")


def bench_html(plan: Plan, entries: Sequence[PlanEntry], sentences: Sequence[str]) -> str:
    """The whole page, to be written as UTF-8. `sentences` are those of `yoro.research.bench.results.entries`."""
    grid, tables = RunGrid(plan, entries), bench_tables(plan, entries)
    return render(
        "bench.html",
        title=plan.title,
        about=plan.about,
        warnings=sentences,
        facts=_facts(grid),
        tables=tables,
        parts=lambda table: [_part(part) for part in panels(table)],
        ours=lambda cell: cell_text(cell, HTML),
        papers=lambda cell: paper_text(cell, HTML),
        marks=[f"({mark}) {said}" for mark, said in dict(pair for table in tables for pair in table.marks).items()],
        figures=[FIGURES[word](grid) for word in plan.show if word in FIGURES],
        failed=grid.absent(entry for entry in entries if entry.error is not None),
        missing=grid.absent(entry for entry in entries if entry.result is None and entry.error is None),
        notes=_run_notes(grid),
        digests=[*_digests(grid, "data"), *_digests(grid, "source")],
    )


def _facts(grid: RunGrid) -> dict[str, str]:
    plan, entries = grid.plan, grid.entries
    results = [entry.result for entry in entries if entry.result is not None]
    failed = sum(entry.error is not None for entry in entries)
    finished = sorted(result.finished for result in results if result.finished)
    machines = dict.fromkeys(", ".join(f"{k} {v}" for k, v in result.machine.items()) for result in results)
    seeds = dict.fromkeys(str(seed) for setting in plan.settings for seed in setting.seeds)
    facts = {
        "Datasets": ", ".join(dataset_title(name) for name in plan.datasets),
        "Settings": "; ".join(setting_title(plan, setting) for setting in plan.settings),
        "Sources": ", ".join(dict.fromkeys(setting.source for setting in plan.settings)),
        "Images": "; ".join(
            dict.fromkeys(_images(setting.inputs.shots, setting.inputs.limit) for setting in plan.settings)
        ),
        "Seeds": ", ".join(seeds),
        "Runs": f"{len(results):,} of {len(entries):,} finished, {failed:,} failed, "
        f"{len(entries) - len(results) - failed:,} missing",
        "Machine": "; ".join(name for name in machines if name),
        "Finished": "" if not finished else " to ".join(dict.fromkeys((finished[0][:10], finished[-1][:10]))),
        "Tables of the paper": ", ".join(plan.paper),
    }
    return {key: value for key, value in facts.items() if value}


def _images(shots: int | None, limit: str) -> str:
    some = "all" if shots is None else f"{shots} a class to fit"
    return f"{some}; at most {limit.replace(',', ', ').replace('=', ' ')} a class" if limit else some


def _digests(grid: RunGrid, kind: str) -> list[str]:
    """The first digits of the digests that results depend on, by dataset or source."""
    found: dict[str, dict[str, None]] = {}
    for entry in grid.entries:
        if entry.result is not None and entry.result.depends.get(kind):
            name = dataset_title(entry.dataset) if kind == "data" else entry.cell.source
            found.setdefault(name, {})[entry.result.depends[kind][:8]] = None
    return [f"{name}: {', '.join(digests)}" for name, digests in found.items()]


def _part(table: ResultsTable) -> dict[str, object]:
    """A table with its groups of columns: heads over several, a heading over one alone, and where each begins."""
    names = [column.group for column in table.columns]
    groups = list(Counter(names).items())
    return {
        "table": table,
        "alone": names[0] if len(groups) == 1 else "",
        "groups": groups if len(groups) > 1 else [],
        "begins": [i > 0 and names[i] != names[i - 1] for i in range(len(names))],
    }


def _run_notes(grid: RunGrid) -> list[str]:
    """What runs said of themselves, each once, with how many said it."""
    said = Counter(note for entry in grid.entries if entry.result is not None for note in entry.result.notes)
    return [note if count == 1 else f"{note} ({count:,} runs)" for note, count in said.items()]


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
