"""`yoro bench`: the tables and figures of the paper, and of plans of your own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from yoro.cli.talk import AsJson, BatchSize, Device, Force, Quiet, Workers, parse_names, print_json, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yoro.bench.results import PlanEntry

app = typer.Typer(
    help="Run plans of datasets, sources, methods and seeds, and write their tables.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

PlanPath = Annotated[Path, typer.Argument(metavar="PLAN.toml", help="A plan.", show_default=False)]
ResultsFolder = Annotated[Path, typer.Option("--results", metavar="DIR", help="Where results are kept.")]
DataRoots = Annotated[
    list[str] | None,
    typer.Option("--data", metavar="ROOT", help="A folder of datasets (may be repeated); else YORO_DATA, else data."),
]


@app.command()
def run(
    plan: PlanPath,
    results: ResultsFolder = Path("results"),
    data: DataRoots = None,
    settings: Annotated[str | None, typer.Option(metavar="A,B", help="Only these settings of the plan.")] = None,
    datasets: Annotated[str | None, typer.Option(metavar="A,B", help="Only these datasets.")] = None,
    methods: Annotated[str | None, typer.Option(metavar="A,B", help="Only these methods.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would run, and about how long it takes.")
    ] = False,
    device: Device = "auto",
    batch_size: BatchSize = 32,
    workers: Workers = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Compute every cell of a plan that has no result yet. After a kill, the same command goes on."""
    from yoro.bench.datasets.finding import data_roots
    from yoro.bench.plan import read_plan
    from yoro.bench.results import Results

    chosen = read_plan(plan).only(*map(parse_names, (settings, datasets, methods)))
    kept, roots = Results(results), data_roots(data or [])
    if dry_run:
        from yoro.bench.forecast import forecast, forecast_lines, forecast_values

        listed = forecast(chosen, kept, roots)
        if as_json:
            print_json(forecast_values(listed))
        else:
            typer.echo("\n".join(forecast_lines(listed)))
        return
    from yoro.bench.runner import RunSettings, run_plan

    run_settings = RunSettings(roots, device, workers, batch_size, not quiet, lambda sentence: say(sentence, quiet))
    try:
        tally = run_plan(chosen, kept, run_settings)
    except KeyboardInterrupt:
        say("Stopped. What is finished stays; the same command goes on from here.", quiet)
        raise
    for sentence in kept.odd:
        say(sentence, quiet)
    if as_json:
        print_json(tally.to_json())
    where = "" if results == Path("results") else f" --results {results}"
    say(f"{tally}. `yoro bench table {plan}{where}` shows them.", quiet)
    if tally.failed:
        raise typer.Exit(1)


@app.command()
def table(
    plan: PlanPath,
    results: ResultsFolder = Path("results"),
    form: Annotated[
        Literal["markdown", "latex", "csv"], typer.Option("--format", help="How the tables are written.")
    ] = "markdown",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write there instead of on stdout.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="PAGE", help="Also write a web page with the figures.")] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make the tables of a plan from the results that are there; what is missing is shown as such.

    CSV and JSON are in long form: one row for each setting, dataset and method, nothing rounded.
    """
    from yoro.bench.plan import read_plan
    from yoro.bench.results import Results, entries
    from yoro.bench.tables.long_form import long_rows
    from yoro.bench.tables.page import bench_html
    from yoro.bench.tables.plan_tables import bench_tables
    from yoro.bench.tables.table_writers import latex, markdown
    from yoro.files.atomic import write_file
    from yoro.files.rows import write_rows
    from yoro.model.store import refuse_existing

    for target in (out, html):
        if target is not None:
            refuse_existing(target, force=force)
    made = read_plan(plan)
    found, sentences = entries(made, Results(results))
    if html is not None:
        write_file(html, bench_html(made, found, sentences).encode())
    if as_json and out is None:
        print_json(long_rows(made, found))
    elif as_json or form == "csv":
        write_rows(iter(long_rows(made, found)), "json" if as_json else "csv", out)
    else:
        shown = {"markdown": markdown, "latex": latex}[form](bench_tables(made, found))
        if out is None:
            typer.echo(shown, nl=False)
        else:
            write_file(out, shown.encode())
    for sentence in [*sentences, *_counts(found)]:
        say(sentence, quiet)


@app.command()
def datasets(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAMES", help="Only these.", show_default=False)] = None,
    data: DataRoots = None,
    as_json: AsJson = False,
) -> None:
    """Say which datasets are there, with found and expected counts; nothing is fetched."""
    from yoro.bench.datasets.bench_datasets import find_bench_dataset
    from yoro.bench.datasets.finding import data_roots
    from yoro.bench.datasets.status import all_status, status_advice, status_table, status_values

    chosen = [find_bench_dataset(name) for name in names] if names else None
    items = all_status(data_roots(data or []), chosen)
    if as_json:
        print_json(status_values(items))
        return
    typer.echo(status_table(items))
    for paragraph in status_advice(items):
        typer.echo(f"\n{paragraph}")


def _counts(entries: Sequence[PlanEntry]) -> list[str]:
    """A sentence on runs that are not there; none if all are."""
    absent = [entry for entry in entries if entry.result is None]
    if not absent:
        return []
    failed = sum(entry.error is not None for entry in absent)
    return [
        f"{len(absent):,} of {len(entries):,} runs are not there: {failed:,} failed, {len(absent) - failed:,} missing."
    ]
