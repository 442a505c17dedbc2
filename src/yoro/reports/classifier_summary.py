"""A classifier in a notebook: what it was fitted on, how good it is, and the classes it knows."""

from __future__ import annotations

from yoro.model.metrics import Evaluation
from yoro.model.model import Model
from yoro.reports.page import render


def classifier_html(model: Model, left_out: Evaluation | None, most: int) -> str:
    """A small table; of more classes than `most` those with the fewest examples are named."""
    counts = sorted(zip(model.statistics.counts.tolist(), model.statistics.classes, strict=True))
    named = counts[:most] if len(counts) > most else sorted(counts, key=lambda pair: pair[1])
    return render(
        "classifier.html",
        source=f"{model.origin.name}, width {model.statistics.width}",
        shrinkage=f"{model.choice.shrinkage:.3g} by {model.choice.rule}",
        examples=int(model.statistics.total),
        n_classes=len(counts),
        left_out=left_out,
        measurable=bool(model.reservoir),
        classes=[(name, int(count)) for count, name in named],
    )
