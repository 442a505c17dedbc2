"""What a fit leads to: the result and the next step for people, figures for machines."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from yoro.errors import counted, percent_text

if TYPE_CHECKING:
    from yoro.model.metrics import ClassFigures, Evaluation
    from yoro.model.model import Model
    from yoro.model.open_model import OpenModel

MOST_CONFUSIONS = 3  # pairs in a closing line
MOST_LISTED = 20  # pairs for a machine


LOPSIDED = 5  # times as many examples of the largest class as of the smallest: the accuracy says little of the latter
MANY = 1_000  # examples from which on a tenth of a per cent means something


def result_lines(classifier: OpenModel, left_out: Evaluation | None, out: Path) -> list[str]:
    """What was saved, the accuracy to expect, the weakest class, and the next step."""
    model = classifier.model
    what = counted(model.statistics.total, "photo" if model.origin.images else "example")
    classes = counted(len(classifier.names), "class")
    lines = [f"Saved {out}: {classes}, {what if model.statistics.total else 'zero-shot'}."]
    if left_out is not None:
        lines.append(" ".join(_expected(model, left_out)))
    elif model.statistics.total and model.reservoir is not None:
        lines.append("No leave-one-out estimate: too few images. Measure with `yoro evaluate` on other images.")
    from yoro.sources import needs_consent

    command = ["yoro", "predict", str(out), "NEW/" if model.origin.images else "NEW.npz"]
    if model.origin.images and needs_consent(model.origin.name):
        command += ["--source", model.origin.name]
    return [*lines, f"Next: {shlex.join(command)}"]


def _expected(model: Model, left_out: Evaluation) -> list[str]:
    """The accuracy by leave-one-out; of lopsided data with the mean over the classes and what the weakest is worth."""
    from yoro.model.metrics import wilson_interval

    places = 1 if left_out.n >= MANY else 0
    low, high = (percent_text(bound, places, "") for bound in left_out.interval)
    told = f"Expected accuracy {percent_text(left_out.accuracy, places, ' %')} ({low} to {high})"
    seen = [figures for figures in left_out.per_class if figures.n]
    lopsided = max(one.n for one in seen) > LOPSIDED * min(one.n for one in seen)
    if lopsided:
        told += f", {percent_text(left_out.balanced_accuracy, places, ' %')} averaged over the classes"
    sentences = [f"{told}."]
    repeated = [(content, label) for _, content, label in model.ledger.repeated()]
    if len(set(repeated)) < len(repeated):  # two classes with the same images mislead each other
        sentences.append("Duplicates are among the photos, so this is optimistic.")

    def bound(one: ClassFigures) -> float:
        return wilson_interval(one.recall or 0.0, one.n)[0]

    weak = min(seen, key=bound) if lopsided else min(seen, key=lambda one: one.recall or 0.0)
    taken = next((pair.answer for pair in left_out.confusions(len(seen) ** 2) if pair.truth == weak.name), None)
    mistaken = f", mistaken for {taken}" if taken else ""
    if lopsided:
        low, high = (percent_text(one, 0, "") for one in wilson_interval(weak.recall or 0.0, weak.n))
        right = f"{round((weak.recall or 0.0) * weak.n):,} of {weak.n:,} right ({low} to {high} %)"
        sentences.append(f"Weakest: {weak.name}, {right}{mistaken}; add photos of it.")
    elif mistaken:
        sentences.append(f"Weakest: {weak.name}{mistaken}.")
    return sentences


def closing_lines(model: Model, left_out: Evaluation | None) -> list[str]:
    """The accuracy and the most frequent confusions; nothing for a model that keeps no responses."""
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
