"""Conformal prediction sets: sets of labels that contain the right one with a given coverage."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.calibration import log_probabilities
from yoro.discriminant.conformal import FullConformalRanks, JackknifeRanks
from yoro.errors import InputError
from yoro.mappings.batches import Array, class_codes
from yoro.model.model import Model
from yoro.model.open_model import OpenModel
from yoro.model.question import BY_CLASS, FULL
from yoro.model.settings import USUAL, Loading

Ranks = Callable[[NDArray[np.floating], Array], Array]

ROUNDING = 1e-9  # of a product of a coverage and a number of examples


@dataclass(frozen=True)
class LabelSets:
    """Conformal prediction sets by ranks among `n` calibration examples.

    `beaten` gives the ranks (images, classes), by responses and log-probabilities: how many examples fit their own
    label better than the image fits the class. A class is in the set unless too many do.
    """

    beaten: Ranks
    n: int  # examples that it was found by
    coverage: float
    empty: bool = False  # whether a set may be empty; else the best class is always in it

    @property
    def everything(self) -> bool:
        """Whether the examples are too few for this coverage, so that every set contains all classes."""
        return self.n < self.coverage * (self.n + 1) - ROUNDING

    def __call__(self, responses: NDArray[np.floating], logs: Array) -> NDArray[np.bool_]:
        """Membership (n, classes) by responses (n, width) and log-probabilities (n, classes)."""
        inside: NDArray[np.bool_] = self.beaten(responses, logs) < self.coverage * (self.n + 1) - ROUNDING
        if not self.empty:
            inside[np.arange(len(logs)), logs.argmax(axis=1)] = True
        return inside


def left_out_sets(model: Model, coverage: float, by: str = BY_CLASS, *, empty: bool = False) -> LabelSets:
    """Sets by exact leave-one-out answers for the fitted examples; no example is set aside.

    "leave-one-out" judges a class by the models that lack one example of that class: as each fitted example was
    judged, and so the coverage is about what was asked for, also of few examples. "jackknife+" judges it by all models
    that lack an example: with a coverage of 1 - a asked for, it is at least 1 - 2a of independent examples of one
    distribution. "full" fits the new example in under every label: of such examples it is at least 1 - a.
    The two bounds are of choices (shrinkages, weights, temperature) that were made without these examples.
    """
    if model.uses_pile:
        return _pile_sets(model, coverage, by, empty=empty)
    members = model.members()
    evidence = None if members is None else model.evidence()
    found = None if evidence is None else model.left_out(evidence)
    zero = any(part.weight > 0 and part.shrinkage == 0 for part in model.choice.parts or (model.choice,))
    if members is None or evidence is None or found is None or zero:
        raise InputError(
            "No leave-one-out answers to calibrate with: this model stores no individual responses, or every class has "
            "a single one, or its shrinkage is zero. Give labelled data that were not fitted (--calibrate DATA), or "
            "fit again without --no-reservoir."
        )
    if by == FULL:
        if any(members.groups.tolist()):
            told = "Full conformal sets need independent images, but these are grouped."
            raise InputError(f"{told} Choose another kind of set.")
        full = FullConformalRanks(evidence, model.choice)
        return LabelSets(full.beaten, len(full), coverage, empty)
    ranks = JackknifeRanks(evidence, model.choice, found)
    beaten: Ranks = ranks.by_class if by == BY_CLASS else lambda responses, _: ranks.by_all(responses)
    return LabelSets(beaten, len(ranks), coverage, empty)


def _pile_sets(model: Model, coverage: float, by: str, *, empty: bool) -> LabelSets:
    """Sets of a model with unlabelled images, by labels that were held out in turn."""
    found = model.left_out()
    if by != BY_CLASS:
        raise InputError(f"Sets by {by} are not computed with unlabelled images; leave it out, or drop these images.")
    if found is None:
        raise InputError("No labels could be held out to calibrate with. Give labelled data (--calibrate DATA).")
    logs = log_probabilities(found.scored.scores, model.choice.temperature)
    return sets_of(logs[np.arange(len(logs)), found.scored.truth], coverage, empty=empty)


def held_out_sets(
    classifier: OpenModel, data: object, coverage: float, *, empty: bool = False, loading: Loading = USUAL
) -> LabelSets:
    """Sets by labelled examples that were not fitted (split conformal prediction).

    If these and a new example come from the same distribution, independently, the set of the new one holds its label
    with at least the probability asked for.
    """
    part, _ = classifier.to_measure(data)
    own = [np.empty(0)]
    for batch in classifier.measured(part, loading=loading):
        codes = class_codes(batch.labels or [], classifier.names)
        own.append(batch.log_probabilities[np.arange(len(codes)), codes])
    return sets_of(np.concatenate(own), coverage, empty=empty)


def sets_of(own: Array, coverage: float, *, empty: bool = False) -> LabelSets:
    """Sets by log-probabilities (n,) of right labels."""
    order = np.sort(own)

    def beaten(_: NDArray[np.floating], logs: Array) -> Array:
        return len(order) - np.searchsorted(order, logs, side="right").astype(np.float64)

    return LabelSets(beaten, len(order), coverage, empty)
