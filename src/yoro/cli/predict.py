"""`yoro predict`: names and probabilities for new data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yoro.cli.talk import Data, Force, ModelPath, Quiet, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yoro.classifier import Classifier


def run(
    model: ModelPath,
    data: Data,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write to a file; by default to stdout.")] = None,
    kind: Annotated[
        str | None,
        typer.Option("--format", metavar="csv|json|jsonl|parquet", help="By default the file's suffix, or csv."),
    ] = None,
    top: Annotated[int, typer.Option(min=1, metavar="K", help="Give the K best classes of each.")] = 1,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Predict classes: one row each, with path, label and probability."""
    from yoro.classifier import load
    from yoro.store import refuse_existing
    from yoro.tables import FORMATS, write_rows

    kind = kind or (out.suffix.removeprefix(".").lower() if out is not None and out.suffix else "csv")
    if kind not in FORMATS:
        raise typer.BadParameter(f"{kind!r} is no format; expected one of {', '.join(FORMATS)}.", param_hint="--format")
    if kind == "parquet" and out is None:
        raise typer.BadParameter("parquet cannot be shown; give a file with --out.", param_hint="--format")
    if out is not None:
        refuse_existing(out, force=force)
    classifier = load(model)
    count = write_rows(rows(classifier, data, min(top, len(classifier.classes)), progress=not quiet), kind, out)
    if out is not None:
        say(f"{out}: {count:,} predictions.", quiet)


def rows(classifier: Classifier, data: str, top: int, *, progress: bool) -> Iterator[dict[str, object]]:
    """One row an image: path, label, probability, and further columns for the next best."""
    import numpy as np

    for answers in classifier.answers(data, progress=progress):
        order = np.argsort(-answers.log_probabilities, axis=1, kind="stable")[:, :top]
        for name, best, row in zip(answers.names, order.tolist(), np.exp(answers.log_probabilities), strict=True):
            result: dict[str, object] = {"path": name}
            for place, i in enumerate(best, start=1):
                suffix = "" if place == 1 else f"_{place}"
                result[f"label{suffix}"] = classifier.classes[i]
                result[f"probability{suffix}"] = round(float(row[i]), 6)
            yield result
