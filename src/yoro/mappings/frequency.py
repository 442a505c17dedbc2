"""RLM, FLM and ILM: every target class answers to one source class, drawn or counted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yoro.errors import InputError
from yoro.mappings.affine import AffineMapping
from yoro.mappings.cooccurrence import Array, CoOccurrence, filled


def frequency_mapping(table: CoOccurrence) -> AffineMapping:
    """The greedy one-to-one mapping of a table of counts; FLM and ILM.

    >>> table = CoOccurrence()
    >>> table.update([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [0.0, 1.0, 0.0]], ["cat", "dog", "dog"])
    >>> frequency_mapping(table)([[5.0, 6.0, 7.0]]).tolist()
    [[5.0, 6.0]]
    """
    mass = filled(table)
    check_one_to_one(len(mass), table.classes)
    return select_sources(greedy_sources(mass), len(mass), table.classes)


def greedy_sources(mass: Array) -> NDArray[np.intp]:
    """Source class (classes,) of each target, from mass (width, classes) of zero or more.

    Again and again the largest entry is taken, and its row and column leave the game. Among equals
    the first in row-major order wins: the smallest source, then the smallest target. So targets
    left with nothing but zeros get the lowest free sources, in order.
    """
    width, classes = mass.shape
    result = np.full(classes, -1, dtype=np.intp)
    free = np.ones(width, dtype=np.bool_)
    rows, columns = np.nonzero(mass)  # in row-major order, which a stable sort keeps among equals
    order = np.argsort(-mass[rows, columns], kind="stable")
    for source, target in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if free[source] and result[target] < 0:
            result[target], free[source] = source, False
    left = np.flatnonzero(result < 0)
    result[left] = np.flatnonzero(free)[: len(left)]
    return result


def select_sources(sources: ArrayLike, width: int, classes: Sequence[str]) -> AffineMapping:
    """The mapping that gives each class the response of its source: one 1 a column, no bias."""
    weights = np.zeros((width, len(classes)))
    weights[np.asarray(sources, dtype=np.intp), np.arange(len(classes))] = 1.0
    return AffineMapping(weights, np.zeros(len(classes)), tuple(classes))


def check_one_to_one(width: int, classes: Sequence[str]) -> None:
    """Refuse more target classes than there are source classes to give them."""
    if len(classes) > width:
        raise InputError(
            f"{len(classes)} classes cannot each have one of {width} source classes to themselves. "
            "Use a source with more classes, or a mapping that shares them, such as BLM."
        )


def random_mapping(width: int, classes: Sequence[str], generator: np.random.Generator) -> AffineMapping:
    """The first sources of a random permutation of all `width`, one for each class in the order given.

    >>> mapping = random_mapping(1000, ("cat", "dog"), np.random.default_rng(0))
    >>> mapping.weights.shape, mapping.weights.sum(axis=0).tolist()
    ((1000, 2), [1.0, 1.0])
    """
    check_one_to_one(width, classes)
    return select_sources(generator.permutation(width)[: len(classes)], width, classes)
