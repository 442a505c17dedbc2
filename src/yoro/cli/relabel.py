"""`yoro relabel`: rename classes, or join them."""

from __future__ import annotations

from typing import Annotated

import typer

from yoro.cli.talk import Force, ModelPath, Out, Quiet, change_model


def run(
    model: ModelPath,
    names: Annotated[list[str], typer.Argument(metavar="OLD=NEW...", help="Old and new names.", show_default=False)],
    out: Out = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Rename classes; classes given the same name are joined, exactly."""
    table: dict[str, str] = {}
    for pair in names:
        old, equals, new = pair.partition("=")
        if not (old and equals and new):
            raise typer.BadParameter(f"{pair!r} is no renaming; expected OLD=NEW.")
        if table.setdefault(old, new) != new:
            raise typer.BadParameter(f"{old!r} is given two new names.")
    from yoro.model.classifier import load

    classifier = load(model)
    change_model(classifier, model, out, force, quiet, lambda: classifier.relabel(table))
