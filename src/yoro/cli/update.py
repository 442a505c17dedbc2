"""`yoro update`: add labelled data to a model."""

from __future__ import annotations

from typing import Annotated

import typer

from yoro.cli.talk import (
    BatchSize,
    Data,
    Device,
    Force,
    ModelPath,
    Moved,
    Out,
    Quiet,
    Strict,
    Workers,
    change_model,
    make_reading,
)


def run(
    model: ModelPath,
    data: Data,
    out: Out = None,
    attributes: Annotated[
        str | None, typer.Option(metavar="BANK", help="Sentences for new classes of a model on an image-text source.")
    ] = None,
    source: Moved = None,
    device: Device = "auto",
    batch_size: BatchSize = 32,
    workers: Workers = None,
    strict: Strict = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Add labelled data to a model, exactly; new classes may appear."""
    from yoro.model.classifier import load

    classifier = load(model, source=source, device=device)
    reading = make_reading(batch_size, workers, strict)

    def change() -> None:
        classifier.update(data, attributes=attributes, progress=not quiet, reading=reading)

    change_model(classifier, model, out, force, quiet, change)
