"""`yoro bench`: the tables of the paper, on one's own copies of the datasets."""

from __future__ import annotations

from typing import Annotated

import typer

from yoro.cli.talk import AsJson, print_json

app = typer.Typer(
    help="Datasets of the paper's tables: what is there, what is missing, where to get it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

Roots = Annotated[
    list[str] | None,
    typer.Option(
        "--data", metavar="ROOT", help="Folder that holds the datasets; may be repeated. Else YORO_DATA, else 'data'."
    ),
]


@app.callback()
def _group() -> None:
    """A group even while it has one command."""


@app.command()
def datasets(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAMES", help="Only these.", show_default=False)] = None,
    data: Roots = None,
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
