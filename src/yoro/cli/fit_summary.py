"""What a model is worth by leave-one-out: closing lines for a person, figures for a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yoro.errors import counted

if TYPE_CHECKING:
    from yoro.model.metrics import Evaluation
    from yoro.model.model import Model

MOST_CONFUSIONS = 3  # pairs in a closing line
MOST_LISTED = 20  # pairs for a machine


def closing_lines(model: Model, left_out: Evaluation | None) -> list[str]:
    """How good the model is, and what it confuses; nothing for a model that keeps no responses."""
    from yoro.model.metrics import percent_text

    if left_out is None:
        none = "No accuracy yet: no fitted image can be left out. Measure with `yoro evaluate` on other images."
        return [none] if model.statistics.total and model.reservoir is not None else []
    low, high = (percent_text(bound) for bound in left_out.interval)
    apart = next((part.right for part in model.choice.parts if part.name == "logits"), None)
    alone = "" if apart is None else f"; by the logits alone {percent_text(apart)}"
    basis = counted(left_out.n, "example")
    if model.ledger.repeated():
        basis += ", copies among them, which flatter it"
    lines = [f"Leave-one-out accuracy {percent_text(left_out.accuracy)} (95 %: {low} to {high}, {basis}){alone}."]
    pairs = [f"{pair.truth} for {pair.answer} ({pair.n:,})" for pair in left_out.confusions(MOST_CONFUSIONS)]
    return [*lines, f"Most often mistaken: {', '.join(pairs)}."] if pairs else lines


def figures(model: Model, left_out: Evaluation | None) -> dict[str, object] | None:
    """The same for a machine; None where nothing can be left out."""
    if left_out is None:
        return None
    return {
        "accuracy": left_out.accuracy,
        "interval": left_out.interval,
        "n": left_out.n,
        "confusions": [vars(pair) for pair in left_out.confusions(MOST_LISTED)],
        "readings": {part.name: part.right for part in model.choice.parts},
    }
