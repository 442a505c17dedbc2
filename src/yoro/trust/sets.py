"""Sets of labels that hold the right one as often as asked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.calibration import log_probabilities
from yoro.errors import InputError
from yoro.mappings.batches import class_codes
from yoro.model.classifier import Classifier
from yoro.model.model import Model
from yoro.model.settings import HERE, Loading

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LabelSets:
    """Which classes are in the set of an image: those whose log-probability is at least a limit, and the best one."""

    limit: float
    n: int  # examples that it was found by

    def __call__(self, logs: Array) -> NDArray[np.bool_]:
        """Membership (n, classes) by log-probabilities (n, classes); a set is never empty."""
        inside: NDArray[np.bool_] = logs >= self.limit
        inside[np.arange(len(logs)), logs.argmax(axis=1)] = True
        return inside


def left_out_sets(model: Model, coverage: float) -> LabelSets:
    """Sets by exact leave-one-out answers for the fitted examples; no example is set aside.

    Each of these is answered by a model of one image less, a new image by the whole model. No bound holds for
    every kind of data: with few images a class the coverage can miss what was asked for by several points.
    """
    found = None if model.reservoir is None or not len(model.reservoir) else model.left_out()
    if found is None:
        raise InputError(
            "No fitted example can be left out: this model keeps no individual responses, or each is alone in its "
            "class. Give labelled data that were not fitted (--calibrate DATA), or fit again without --no-reservoir."
        )
    scored, _ = found
    logs = log_probabilities(scored.scores, model.choice.temperature)
    return sets_of(logs[np.arange(len(logs)), scored.truth], coverage)


def held_out_sets(classifier: Classifier, data: object, coverage: float, *, loading: Loading = HERE) -> LabelSets:
    """Sets by labelled examples that were not fitted (split conformal prediction).

    If these and a new example come from the same distribution, independently, the set of the new one holds its label
    with at least the probability asked for.
    """
    part, _ = classifier.to_measure(data)
    own = [np.empty(0)]
    for batch in classifier.measured(part, loading=loading):
        codes = class_codes(batch.labels or [], classifier.names)
        own.append(batch.log_probabilities[np.arange(len(codes)), codes])
    return sets_of(np.concatenate(own), coverage)


def sets_of(own: Array, coverage: float) -> LabelSets:
    """The limit that so many log-probabilities of right labels (n,) reach, one more counted as not reaching it."""
    if not 0.0 < coverage < 1.0:
        raise InputError(f"A coverage of {coverage:g} was asked for; expected a share between 0 and 1, such as 0.9.")
    rank = max(1, int(np.ceil(round(coverage * (len(own) + 1), 9))))
    return LabelSets(float(np.sort(own)[len(own) - rank]) if rank <= len(own) else -np.inf, len(own))
