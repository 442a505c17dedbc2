"""`yoro merge`: one model from several that were fitted apart."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from yoro.cli.talk import Force, Quiet, say, spoken_warnings


def run(
    models: Annotated[list[Path], typer.Argument(metavar="A.yoro B.yoro...", help="Saved models.", show_default=False)],
    out: Annotated[Path, typer.Option(metavar="C.yoro", help="Where to write the model.", show_default=False)],
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Merge models of one source into the model of all their data, exactly."""
    from yoro.model.classifier import load
    from yoro.model.store import check_target

    if len(models) < 2:
        raise typer.BadParameter("at least two models are needed.")
    check_target(out, force=force)
    merged = load(models[0])
    notes: list[str] = []
    with spoken_warnings(quiet):
        for path in models[1:]:
            merged.merge(load(path))
            notes += merged.notes
    merged.save(out, force=force)
    for note in notes:
        say(note, quiet)
    say(f"{out}: {merged.model.statistics.total:,.0f} examples, {len(merged.classes)} classes.", quiet)
