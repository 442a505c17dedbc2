"""`yoro bench`: the tables and figures of the paper, and of plans of your own."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from yoro.cli.options import (
    READING,
    Answers,
    JsonOptions,
    LoadingOptions,
    ReportOptions,
    Reports,
    flag,
    parse_names,
)
from yoro.cli.output import passing, print_json, print_text, say, write_page
from yoro.model.settings import PipelineSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from yoro.data.examples import Example
    from yoro.research.bench.cells import BenchCell
    from yoro.research.bench.datasets.dataset import BenchDataset
    from yoro.research.bench.results import PlanEntry
    from yoro.research.bench.run_forecast import Measure
    from yoro.research.bench.speed_probe import Speed

app = App("bench", sort_key=101, help="Run plans of datasets, sources and methods; make their tables.")

RESULTS = Path("results")
PlanPath = Annotated[Path, Parameter(name="PLAN.toml", help="A plan.")]
ResultsFolder = Annotated[Path, Parameter(name="--results", metavar="DIR", help="Where results are kept.")]
DataRoots = Annotated[
    list[str] | None,
    Parameter(name="--data", metavar="ROOT", help="A folder of datasets (may be repeated); else YORO_DATA, else data."),
]


@dataclass(frozen=True)
class PartOptions:
    """Which part of a plan is run."""

    settings: Annotated[str | None, Parameter(metavar="A,B", help="Only these settings of the plan.")] = None
    datasets: Annotated[str | None, Parameter(metavar="A,B", help="Only these datasets.")] = None
    methods: Annotated[str | None, Parameter(metavar="A,B", help="Only these methods.")] = None


@dataclass(frozen=True)
class RunLoading(LoadingOptions):
    """How images are read; one that cannot be read fails its cells."""

    strict: Annotated[bool, Parameter(parse=False)] = True


@app.command
def run(
    plan: PlanPath,
    /,
    *,
    results: ResultsFolder = RESULTS,
    data: DataRoots = None,
    part: Annotated[PartOptions, Parameter(name="*")] = PartOptions(),
    dry_run: Annotated[bool, flag("Say what would run, and about how long it takes.")] = False,
    device: Annotated[str, Parameter(metavar="D", help="auto, cpu, cuda or mps.", group=READING)] = (
        PipelineSettings.device
    ),
    loading: Annotated[RunLoading, Parameter(name="*", group=READING)] = RunLoading(),
    output: Answers = JsonOptions(),
) -> None:
    """Compute every cell of a plan that has no result yet. After a kill, the same command goes on."""
    from yoro.research.bench.datasets import data_roots
    from yoro.research.bench.plan import read_plan
    from yoro.research.bench.results import Results

    quiet = output.quiet
    chosen = read_plan(plan).only(*map(parse_names, (part.settings, part.datasets, part.methods)))
    kept, roots = Results(results), data_roots(data or [])
    if dry_run:
        from yoro.research.bench.run_forecast import forecast, forecast_lines, forecast_values

        listed = forecast(chosen, kept, roots, _measured(device, quiet))
        if output.as_json:
            print_json(forecast_values(listed))
        else:
            print_text("\n".join(forecast_lines(listed)))
        return
    from yoro.research.bench.runner import RunSettings, run_plan

    settings = RunSettings(roots, device, loading, not quiet, _noted(quiet), _done(quiet))
    try:
        progress = run_plan(chosen, kept, settings)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Stopped. What is finished stays; the same command goes on from here.") from None
    finally:
        passing("", quiet)
    for sentence in kept.odd:
        say(sentence, quiet)
    if output.as_json:
        print_json(progress.to_json())
    where = "" if results == RESULTS else f" --results {results}"
    say(f"{progress}. `yoro bench table {plan}{where}` shows them.", quiet)
    if progress.failed:
        raise SystemExit(1)


def _noted(quiet: bool) -> Callable[[str], None]:
    """Sentences of their own, which the passing line gives way to."""

    def note(sentence: str) -> None:
        passing("", quiet)
        say(sentence, quiet)

    return note


def _done(quiet: bool) -> Callable[[str], None]:
    """How finished cells are told of: on a terminal in one line for all of them, in a log in a line each."""
    return lambda line: (passing if sys.stderr.isatty() else say)(line, quiet)


def _measured(device: str, quiet: bool) -> Measure:
    """A short measurement of a source, announced."""
    from yoro.research.bench.speed_probe import measure

    def of(cell: BenchCell, about: BenchDataset, images: Sequence[Example], trains: bool) -> Speed:
        say(f"Measuring for some seconds how fast {cell.source} is here.", quiet)
        return measure(cell, about, images, trains=trains, device=device)

    return of


@app.command
def table(
    plan: PlanPath,
    /,
    *,
    results: ResultsFolder = RESULTS,
    form: Annotated[
        Literal["markdown", "latex", "csv"], Parameter(name="--format", help="How the tables are written.")
    ] = "markdown",
    out: Annotated[Path | None, Parameter(metavar="FILE", help="Write there instead of on stdout.")] = None,
    output: Reports = ReportOptions(),
) -> None:
    """Make the tables of a plan from the results that are there; what is missing is shown as such.

    CSV and JSON are in long form: one row for each setting, dataset and method, nothing rounded.
    """
    from yoro.files.atomic import write_file
    from yoro.files.rows import write_rows
    from yoro.model.store import check_output
    from yoro.research.bench.plan import read_plan
    from yoro.research.bench.results import Results, entries
    from yoro.research.bench.tables.long_form import long_rows
    from yoro.research.bench.tables.plan_tables import bench_tables
    from yoro.research.bench.tables.results_page import bench_html
    from yoro.research.bench.tables.table_writers import latex, markdown

    for target in (out, output.html):
        if target is not None:
            check_output(target, force=output.force)
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
    *names: Annotated[str, Parameter(name="NAMES", help="Only these.")],
    data: DataRoots = None,
    as_json: Annotated[bool, flag("Print one JSON object on stdout.", "--json")] = False,
) -> None:
    """Say which datasets are there, with found and expected counts; nothing is fetched."""
    from yoro.research.bench.datasets import data_roots, find_bench_dataset
    from yoro.research.bench.datasets.status import all_status, status_advice, status_table, status_values

    chosen = [find_bench_dataset(name) for name in names] if names else None
    items = all_status(data_roots(data or []), chosen)
    if as_json:
        print_json(status_values(items))
        return
    print_text(status_table(items))
    for paragraph in status_advice(items):
        print_text(f"\n{paragraph}")


def _counts(entries: Sequence[PlanEntry]) -> list[str]:
    """A sentence on runs that are not there; none if all are."""
    absent = [entry for entry in entries if entry.result is None]
    if not absent:
        return []
    failed = sum(entry.error is not None for entry in absent)
    return [
        f"{len(absent):,} of {len(entries):,} runs are not there: {failed:,} failed, {len(absent) - failed:,} missing."
    ]
