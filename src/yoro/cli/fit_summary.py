"""The leave-one-out accuracy of a model: closing lines for people, figures for machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yoro.errors import counted

if TYPE_CHECKING:
    from yoro.model.metrics import Evaluation
    from yoro.model.model import Model

MOST_CONFUSIONS = 3  # pairs in a closing line
MOST_LISTED = 20  # pairs for a machine


def closing_lines(model: Model, left_out: Evaluation | None) -> list[str]:
    """The accuracy and the most frequent confusions; nothing for a model that keeps no responses."""
    from yoro.model.metrics import percent_text

    if left_out is None:
        none = "No leave-one-out estimate: too few images. Measure with `yoro evaluate` on other images."
        return [none] if model.statistics.total and model.reservoir is not None else []
    low, high = (percent_text(bound) for bound in left_out.interval)
    apart = next((part.right for part in model.choice.parts if part.name == "logits"), None)
    alone = "" if apart is None else f"; logits alone {percent_text(apart)}"
    basis = counted(left_out.n, "example")
    if model.ledger.repeated():
        basis += ", includes duplicates, so optimistic"
    lines = [f"Leave-one-out accuracy {percent_text(left_out.accuracy)} (95 %: {low} to {high}, {basis}){alone}."]
    pairs = [f"{pair.truth} as {pair.answer} ({pair.n:,})" for pair in left_out.confusions(MOST_CONFUSIONS)]
    return [*lines, f"Most frequent confusions: {', '.join(pairs)}."] if pairs else lines


def figures(model: Model, left_out: Evaluation | None) -> dict[str, object] | None:
    """The same as JSON values; None if nothing can be left out."""
    if left_out is None:
        return None
    return {
        "accuracy": left_out.accuracy,
        "interval": left_out.interval,
        "n": left_out.n,
        "confusions": [vars(pair) for pair in left_out.confusions(MOST_LISTED)],
        "readings": {part.name: part.right for part in model.choice.parts},
    }
