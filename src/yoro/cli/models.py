"""`yoro models`: which sources can be had."""

from __future__ import annotations

from dataclasses import asdict

import typer

from yoro.cli.talk import AsJson, print_json


def run(as_json: AsJson = False) -> None:
    """List frozen models that can be read: what is installed, and how to get the rest."""
    from yoro.sources import catalogue

    rows = catalogue()
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    width = max(len(row.name) for row in rows)
    typer.echo(f"{'source':<{width}}  {'here':<5} {'side':>5} {'width':>6}  what")
    for row in rows:
        here = "yes" if row.installed else "no"
        typer.echo(f"{row.name:<{width}}  {here:<5} {row.side or '-':>5} {row.width or '-':>6}  {row.what}")
        how = "" if row.installed else f"{row.how}; "
        typer.echo(f"{'':<{width}}  {how}licence: {row.licence}")
