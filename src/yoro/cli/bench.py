"""`yoro bench`: tables of results, made from plans."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from yoro.cli.talk import AsJson, Force, Quiet, print_json, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yoro.bench.results import Entry

app = typer.Typer(
    help="Run plans of datasets, settings and methods, and show what came of them.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

PlanPath = Annotated[Path, typer.Argument(metavar="PLAN.toml", help="A plan, as in configs/.", show_default=False)]
ResultsPath = Annotated[Path, typer.Option(metavar="DIR", help="The folder of results.")]


@app.callback()
def _bench() -> None:
    """A group of verbs, even while it has one."""


@app.command()
def table(
    plan: PlanPath,
    results: ResultsPath = Path("results"),
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
    from yoro.atomic import write_file
    from yoro.bench.page import bench_html
    from yoro.bench.plan import read_plan
    from yoro.bench.results import Results, entries
    from yoro.bench.tables import bench_tables
    from yoro.bench.tidy import tidy_rows
    from yoro.bench.writing import latex, markdown
    from yoro.store import refuse_existing
    from yoro.tables import write_rows

    for target in (out, html):
        if target is not None:
            refuse_existing(target, force=force)
    made = read_plan(plan)
    found, sentences = entries(made, Results(results))
    if html is not None:
        write_file(html, bench_html(made, found, sentences).encode())
    if as_json and out is None:
        print_json(tidy_rows(made, found))
    elif as_json or form == "csv":
        write_rows(iter(tidy_rows(made, found)), "json" if as_json else "csv", out)
    else:
        shown = {"markdown": markdown, "latex": latex}[form](bench_tables(made, found))
        if out is None:
            typer.echo(shown, nl=False)
        else:
            write_file(out, shown.encode())
    for sentence in [*sentences, *_counts(found)]:
        say(sentence, quiet)


def _counts(entries: Sequence[Entry]) -> list[str]:
    """A sentence on runs that are not there; none if all are."""
    absent = [entry for entry in entries if entry.result is None]
    if not absent:
        return []
    failed = sum(entry.error is not None for entry in absent)
    return [
        f"{len(absent):,} of {len(entries):,} runs are not there: {failed:,} failed, {len(absent) - failed:,} missing."
    ]
