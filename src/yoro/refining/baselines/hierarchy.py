"""DGA's levels of super-classes: classes whose images look alike are merged, two by two."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from yoro.errors import InputError

Array = NDArray[np.float64]
Groups = NDArray[np.intp]  # (classes,): the super-class of each class


def super_classes(prototypes: Array, levels: int) -> list[Groups]:
    """For each level the super-class of every class, by the prototypes (classes, dimension) of the classes.

    A level merges the super-classes of the level before in strict pairs, the nearest first; an odd one stays alone.
    The prototype of a super-class is the mean over its classes. Super-classes are numbered in the order of merging.
    The published code averages other classes than these from the third level on, by an index of the wrong level.

    >>> [groups.tolist() for groups in super_classes(np.array([[0.0], [5.0], [1.0], [9.0], [5.5]]), 2)]
    [[1, 0, 1, 2, 0], [1, 0, 1, 0, 0]]
    """
    if prototypes.ndim != 2 or len(prototypes) < 2 or levels < 1:
        raise InputError(
            f"{levels} levels of super-classes were asked for over prototypes of shape {prototypes.shape}; "
            "expected at least one level, and two classes or more."
        )
    result: list[Groups] = []
    groups = np.arange(len(prototypes))
    for _ in range(levels):
        means = np.stack([prototypes[groups == group].mean(axis=0) for group in range(groups.max() + 1)])
        groups = _merged(means)[groups]
        result.append(groups)
    return result


def pooled(bank: NDArray[np.float32], groups: Groups, size: int) -> NDArray[np.float32]:
    """Sentences (super-classes, size * sentences, dimension): those of all members, from the start again if short."""
    _, sentences, dimension = bank.shape
    rows = [bank[groups == group].reshape(-1, dimension) for group in range(groups.max() + 1)]
    return np.stack([np.resize(row, (size * sentences, dimension)) for row in rows])


def _merged(means: Array) -> Groups:
    """The pair that each of the means belongs to; among equal distances the first indices are merged first."""
    distances = cdist(means, means)
    np.fill_diagonal(distances, np.inf)
    pair, number = np.full(len(means), -1), 0
    while np.isfinite(distances).any():
        one, two = np.unravel_index(int(distances.argmin()), distances.shape)
        pair[[one, two]] = number
        distances[[one, two]] = np.inf
        distances[:, [one, two]] = np.inf
        number += 1
    pair[pair < 0] = number
    return pair
