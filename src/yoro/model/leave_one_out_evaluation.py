"""How good a model is on what it was fitted on: each example answered by the model without it, exactly."""

from __future__ import annotations

from yoro.discriminant.calibration import log_probabilities
from yoro.model.metrics import Evaluation, Tally
from yoro.model.model import Model
from yoro.model.open_model import Answers


def left_out_answers(model: Model) -> Answers | None:
    """Answers for the examples that are kept, named by digest and label; None if none can be left out."""
    found = model.left_out()
    if found is None or model.reservoir is None:
        return None
    digests, classes = model.reservoir.members().digests, model.statistics.classes
    labels = [classes[i] for i in found.scored.truth]
    names = [f"{digests[row].hex()} {label}" for row, label in zip(found.rows, labels, strict=True)]
    return Answers(names, log_probabilities(found.scored.scores, model.choice.temperature), labels)


def left_out_evaluation(model: Model) -> Evaluation | None:
    """The figures of these answers."""
    answers, tally = left_out_answers(model), Tally(model.statistics.classes)
    if answers is None:
        return None
    tally.update(answers.log_probabilities, answers.labels or [])
    return tally.result()
