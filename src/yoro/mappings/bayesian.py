"""Bayesian label mappings (BLM, BLM+): each target class reads all sources, weighted by how they answer to it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from yoro.errors import InputError
from yoro.mappings.affine import AffineMapping
from yoro.mappings.cooccurrence import Array, CoOccurrence, filled

SMOOTHING = 1.0  # lambda, the published value for BLM and BLM+
SHARE = 0.15  # of the target classes: how many source classes an image speaks for under BLM+


def bayesian_mapping(table: CoOccurrence, *, smoothing: float = SMOOTHING) -> AffineMapping:
    """BLM from a table of counts, BLM+ from one made by `plus_table`; it maps logits, and has no bias.

    >>> table = CoOccurrence()
    >>> table.update([[2.0, 1.0], [0.0, 3.0], [0.0, 1.0], [0.0, 1.0]], ["cat", "dog", "dog", "cat"])
    >>> bayesian_mapping(table).weights.round(3).tolist()
    [[0.667, 0.0], [0.333, 1.0]]
    """
    return AffineMapping(bayesian_weights(filled(table), smoothing), np.zeros(len(table.classes)), table.classes)


def plus_table(classes: Iterable[object]) -> CoOccurrence:
    """An empty table for BLM+; every class is named beforehand, because their number sets how much is kept."""
    names = {str(name) for name in classes}
    return CoOccurrence(names, top=kept_sources(len(names)))


def kept_sources(classes: int) -> int:
    """K of BLM+ for a number of target classes; at least 1, where the published code has 0 below 7 classes."""
    return max(1, int(SHARE * classes))


def bayesian_weights(mass: Array, smoothing: float = SMOOTHING) -> Array:
    """Weights (width, classes) whose columns sum to 1, from mass (width, classes).

    The smoothing stands in the denominator alone. A class without any mass gets equal weights of
    1 / width, so that its score is the mean response: the published code divides by zero there.
    """
    if not smoothing >= 0 or not np.isfinite(smoothing):
        raise InputError(f"The smoothing is {smoothing}; expected a finite number of zero or more.")
    rows = mass.sum(axis=1, keepdims=True) + smoothing
    shares = np.divide(mass, rows, out=np.zeros_like(mass), where=rows > 0)  # P(target | source), smoothed
    columns = shares.sum(axis=0)
    weights: Array = np.full_like(mass, 1.0 / len(mass))
    np.divide(shares, columns, out=weights, where=columns > 0)
    return weights
