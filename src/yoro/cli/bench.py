"""`yoro bench`: the tables and figures of the paper, and of plans of your own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yoro.cli.talk import AsJson, BatchSize, Device, Quiet, Workers, print_json, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yoro.bench.forecast import Forecast

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
    from yoro.bench.plan import read_plan
    from yoro.bench.results import Results
    from yoro.data.datasets import data_roots

    chosen, kept, roots = read_plan(plan), Results(results), data_roots(data or [])
    if dry_run:
        from yoro.bench.forecast import forecast

        _tell_forecast(forecast(chosen, kept, roots), as_json)
        return
    from yoro.bench.runner import Means, run_plan

    means = Means(roots, device, workers, batch_size, not quiet, lambda sentence: say(sentence, quiet))
    tally = run_plan(chosen, kept, means)
    for sentence in kept.odd:
        say(sentence, quiet)
    if as_json:
        print_json(asdict(tally))
    say(f"{tally}. Results are in {results}; yoro bench table {plan} shows them.", quiet)
    if tally.failed:
        raise typer.Exit(1)


@app.command()
def datasets(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAMES]...", help="Only these.", show_default=False)
    ] = None,
    data: DataRoots = None,
    as_json: AsJson = False,
) -> None:
    """Say which datasets are there, with found and expected counts; nothing is fetched."""
    from yoro.data.datasets import data_roots, find_bench_dataset
    from yoro.data.datasets.status import all_status
    from yoro.data.datasets.status_text import status_advice, status_table, status_values

    chosen = [find_bench_dataset(name) for name in names] if names else None
    items = all_status(data_roots(data or []), chosen)
    if as_json:
        print_json(status_values(items))
        return
    typer.echo(status_table(items))
    for paragraph in status_advice(items):
        typer.echo(f"\n{paragraph}")


def _tell_forecast(listed: Sequence[Forecast], as_json: bool) -> None:
    from yoro.bench.runner import spell

    if as_json:
        print_json([{**f.entry.cell.key(), "setting": f.entry.setting, "column": f.entry.method, "state": f.state,
                     "seconds": round(f.seconds, 1), "why": f.why} for f in listed])  # fmt: skip
        return
    rows: dict[tuple[str, str, str], list[Forecast]] = {}
    for one in listed:
        rows.setdefault((one.entry.setting, one.entry.dataset, one.entry.method), []).append(one)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for names, mine in rows.items():
        place = "  ".join(name.ljust(width) for name, width in zip(names, widths, strict=True))
        seeds = " ".join(str(one.entry.seed) for one in mine)
        states = ", ".join(dict.fromkeys(one.state for one in mine))
        seconds = sum(one.seconds for one in mine)
        typer.echo(f"{place}  seeds {seeds}  {states}" + (f", about {spell(seconds)}" if seconds >= 1 else ""))
    counts = {state: sum(one.state == state for one in listed) for state in ("finished", "to run", "no data")}
    now, later = (spell(sum(one.seconds for one in listed if one.state == state)) for state in ("to run", "no data"))
    typer.echo(f"{len(listed)} cells: " + ", ".join(f"{n} {state}" for state, n in counts.items() if n) + ".")
    beside = f", and {later} more where data are missing" if counts["no data"] else ""
    typer.echo(f"About {now} to run{beside}, by earlier results or else by rates of two CPU cores.")
    for problem in dict.fromkeys(one.why for one in listed if one.why):
        typer.echo(f"{sum(one.why == problem for one in listed)} cells: {problem}")
