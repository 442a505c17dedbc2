"""`yoro forget`: take labelled data back out of a model."""

from __future__ import annotations

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
    source: Moved = None,
    device: Device = "auto",
    batch_size: BatchSize = 32,
    workers: Workers = None,
    strict: Strict = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Take labelled data back out of a model, as if they had never been fitted."""
    from yoro.model.classifier import load

    classifier = load(model, source=source, device=device)
    reading = make_reading(batch_size, workers, strict)

    def change() -> None:
        classifier.forget(data, progress=not quiet, reading=reading)

    change_model(classifier, model, out, force, quiet, change)
