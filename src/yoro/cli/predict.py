"""`yoro predict`: names and probabilities for new data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yoro.cli.talk import (
    BatchSize,
    Data,
    Device,
    Force,
    ModelPath,
    Moved,
    Quiet,
    Strict,
    Workers,
    make_reading,
    say,
    tell_skipped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yoro.model.classifier import Answers


def run(
    model: ModelPath,
    data: Data,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to a file; by default to stdout.")] = None,
    kind: Annotated[
        str | None,
        typer.Option("--format", metavar="csv|json|jsonl|parquet", help="By default the file's suffix, or csv."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="K", help="Give the K best classes of each.")] = 1,
    source: Moved = None,
    device: Device = "auto",
    batch_size: BatchSize = 32,
    workers: Workers = None,
    strict: Strict = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Predict classes: one row each, with path, label and probability."""
    from yoro.files.rows import FORMATS, write_rows
    from yoro.model.classifier import load
    from yoro.model.store import refuse_existing

    kind = kind or (out.suffix.removeprefix(".").lower() if out is not None and out.suffix else "csv")
    if kind not in FORMATS:
        raise typer.BadParameter(f"{kind!r} is no format; expected one of {', '.join(FORMATS)}.", param_hint="--format")
    if kind == "parquet" and out is None:
        raise typer.BadParameter("parquet cannot be shown; give a file with --out.", param_hint="--format")
    if out is not None:
        refuse_existing(out, force=force)
    classifier = load(model, source=source, device=device)
    answers = classifier.answers(data, progress=not quiet, reading=make_reading(batch_size, workers, strict))
    count = write_rows(rows(answers, classifier.classes, top, place(data)), kind, out)
    if out is not None:
        say(f"{out}: {count:,} predictions.", quiet)
    tell_skipped(classifier.skipped)


def place(data: str) -> str:
    """What stands before a name in `data` so that it can be opened from here."""
    path = Path(data)
    if path.is_dir():
        return f"{data.rstrip('/')}/"
    listed = path.suffix.lower() in (".csv", ".tsv", ".jsonl") and path.parent != Path()
    return f"{path.parent}/" if listed else ""


def rows(
    answers: Iterator[Answers], classes: tuple[str, ...], top: int, before: str = ""
) -> Iterator[dict[str, object]]:
    """One row an image: path, label, probability, and further columns for the next best."""
    import numpy as np

    for batch in answers:
        order = np.argsort(-batch.log_probabilities, axis=1, kind="stable")[:, :top]
        for name, best, row in zip(batch.names, order.tolist(), np.exp(batch.log_probabilities), strict=True):
            result: dict[str, object] = {"path": name if Path(name).is_absolute() else before + name}
            for place, i in enumerate(best, start=1):
                suffix = "" if place == 1 else f"_{place}"
                result[f"label{suffix}"] = classes[i]
                result[f"probability{suffix}"] = round(float(row[i]), 6)
            yield result
