"""`yoro bench`: the tables and figures of the paper, and of plans of your own."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from yoro.cli.options import OPTIONS, SHARED, JsonOption, JsonOptions, LoadingOptions, ReportOptions, parse_names, shown
from yoro.cli.output import passing, print_json, print_text, say, write_page
from yoro.model.settings import PipelineSettings
from yoro.option import Option

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yoro.data.examples import Example
    from yoro.research.bench.cells import BenchCell
    from yoro.research.bench.datasets.dataset import BenchDataset
    from yoro.research.bench.results import PlanEntry
    from yoro.research.bench.run_forecast import Measure
    from yoro.research.bench.speed_probe import Speed

app = App(
    "bench",
    sort_key=101,
    group_parameters=OPTIONS,
    help="Run plans of datasets, backbones and methods; make their tables.",
)

RESULTS = Path("results")
PlanPath = Annotated[Path, Parameter(name="PLAN.toml", help="A plan.")]
ResultsFolder = Annotated[Path, Parameter(name="--results", metavar="DIR", help="Folder of results.")]
ROOTS = Option("Folder of datasets; repeatable (default: YORO_DATA, or data).", flags=("--data",), metavar="ROOT")


@shown()
@dataclass(frozen=True)
class RootOption:
    """Where the datasets are."""

    data: Annotated[tuple[str, ...], ROOTS] = ()


@shown("strict")
@dataclass(frozen=True)
class RunOptions(LoadingOptions, RootOption):
    """Which part of a plan is run, and how; an image that cannot be read fails its cells."""

    settings: Annotated[str | None, Option("Only these settings of the plan.", metavar="A,B")] = None
    datasets: Annotated[str | None, Option("Only these datasets.", metavar="A,B")] = None
    methods: Annotated[str | None, Option("Only these methods.", metavar="A,B")] = None
    dry_run: Annotated[bool, Option("List what would run, with an estimate of the time.")] = False
    device: Annotated[str, SHARED["device"]] = PipelineSettings.device
    strict: bool = True


@app.command
def run(
    plan: PlanPath,
    /,
    *,
    results: ResultsFolder = RESULTS,
    options: RunOptions = RunOptions(),
    output: JsonOptions = JsonOptions(),
) -> None:
    """Compute every cell of a plan that has no result yet. After an interruption, repeat the command to resume."""
    from yoro.research.bench.datasets import data_roots
    from yoro.research.bench.plan import read_plan
    from yoro.research.bench.results import Results

    quiet = output.quiet
    chosen = read_plan(plan).only(*map(parse_names, (options.settings, options.datasets, options.methods)))
    kept, roots = Results(results), data_roots(list(options.data))
    if options.dry_run:
        from yoro.research.bench.run_forecast import forecast, forecast_lines, forecast_values

        listed = forecast(chosen, kept, roots, _measured(options.device, quiet))
        if output.as_json:
            print_json(forecast_values(listed))
        else:
            print_text("\n".join(forecast_lines(listed)))
        return
    from yoro.research.bench.runner import RunSettings, run_plan

    settings = RunSettings(roots, options.device, options, not quiet, _noted(quiet), _done(quiet))
    try:
        progress = run_plan(chosen, kept, settings)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Interrupted. Finished cells are kept; repeat the command to resume.") from None
    finally:
        passing("", quiet)
    for sentence in kept.odd:
        say(sentence, quiet)
    if output.as_json:
        print_json(progress.to_json())
    where = "" if results == RESULTS else f" --results {results}"
    say(f"{progress}. Show them with `yoro bench table {plan}{where}`.", quiet)
    if progress.failed:
        raise SystemExit(1)


def _noted(quiet: bool) -> Callable[[str], None]:
    """Print messages on lines of their own, instead of the status line."""

    def note(sentence: str) -> None:
        passing("", quiet)
        say(sentence, quiet)

    return note


def _done(quiet: bool) -> Callable[[str], None]:
    """Report finished cells: on a terminal in one status line, in a log in a line each."""
    return lambda line: (passing if sys.stderr.isatty() else say)(line, quiet)


def _measured(device: str, quiet: bool) -> Measure:
    """A short speed measurement of a backbone, announced."""
    from yoro.research.bench.speed_probe import measure

    def of(cell: BenchCell, about: BenchDataset, images: Sequence[Example], trains: bool) -> Speed:
        say(f"Measuring the speed of {cell.source} for a few seconds.", quiet)
        return measure(cell, about, images, trains=trains, device=device)

    return of


@app.command
def table(
    plan: PlanPath,
    /,
    *,
    results: ResultsFolder = RESULTS,
    form: Annotated[
        Literal["markdown", "latex", "csv"], Parameter(name="--format", help="Format of the tables.")
    ] = "markdown",
    out: Annotated[Path | None, Parameter(metavar="FILE", help="Write to a file instead of stdout.")] = None,
    output: ReportOptions = ReportOptions(),
) -> None:
    """Make the tables of a plan from the results so far; missing ones are marked.

    CSV and JSON are in long form: one row per setting, dataset and method, unrounded.
    """
    from yoro.files.atomic import write_file
    from yoro.files.rows import write_rows
    from yoro.research.bench.plan import read_plan
    from yoro.research.bench.results import Results, entries
    from yoro.research.bench.tables.long_form import long_rows
    from yoro.research.bench.tables.plan_tables import bench_tables
    from yoro.research.bench.tables.results_page import bench_html
    from yoro.research.bench.tables.table_writers import latex, markdown

    output.check(out, output.html)
    made = read_plan(plan)
    found, sentences = entries(made, Results(results))
    if output.html is not None:
        write_page(output.html, bench_html(made, found, sentences), output.quiet)
    if output.as_json and out is None:
        print_json(long_rows(made, found))
    elif output.as_json or form == "csv":
        write_rows(iter(long_rows(made, found)), "json" if output.as_json else "csv", out)
    else:
        shown = {"markdown": markdown, "latex": latex}[form](bench_tables(made, found))
        if out is None:
            print_text(shown.rstrip("\n"))
        else:
            write_file(out, shown.encode())
    for sentence in [*sentences, *_counts(found)]:
        say(sentence, output.quiet)


@app.command
def datasets(
    *names: Annotated[str, Parameter(name="NAMES", help="Only these datasets.")],
    roots: RootOption = RootOption(),
    output: JsonOption = JsonOption(),
) -> None:
    """List the datasets that were found, with expected and actual counts; nothing is downloaded."""
    from yoro.research.bench.datasets import data_roots, find_bench_dataset
    from yoro.research.bench.datasets.status import all_status, status_advice, status_table, status_values

    chosen = [find_bench_dataset(name) for name in names] if names else None
    items = all_status(data_roots(list(roots.data)), chosen)
    if output.as_json:
        print_json(status_values(items))
        return
    print_text(status_table(items))
    for paragraph in status_advice(items):
        print_text(f"\n{paragraph}")


def _counts(entries: Sequence[PlanEntry]) -> list[str]:
    """A sentence on runs without a result; none if all have one."""
    absent = [entry for entry in entries if entry.result is None]
    if not absent:
        return []
    failed = sum(entry.error is not None for entry in absent)
    return [
        f"{len(absent):,} of {len(entries):,} runs have no result: {failed:,} failed, {len(absent) - failed:,} missing."
    ]
