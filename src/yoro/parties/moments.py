"""Federated statistics as one vector of sums about an agreed origin: counts, class sums, second moments.

Vectors of several parties add up entry by entry to that of all their data; the centred form of `ResponseStatistics`
does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import refuse_stray
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.readings import Layout
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError, WidthError
from yoro.mappings.batches import Array


def length(classes: int, layout: Layout) -> int:
    """The length of the vector.

    >>> length(3, Layout.of(4))
    25
    """
    return classes + sum(classes * w + w * (w + 1) // 2 for w in layout.widths)


def to_vector(statistics: JointStatistics, classes: Sequence[str], shift: Array) -> Array:
    """Counts, then for each reading the sums of its classes and the upper triangle of its second moment."""
    refuse_stray(statistics.classes, classes)
    if statistics.width != len(shift):
        raise WidthError(f"The responses have width {statistics.width}; the agreement has width {len(shift)}.")
    empty, blocks = ResponseStatistics(classes), []
    for part, columns in zip(statistics.parts, statistics.layout.slices, strict=True):
        whole = part + empty
        steps = np.where(whole.counts[:, None] > 0, whole.means - shift[columns], 0.0)  # (classes, width)
        sums = whole.counts[:, None] * steps
        second = whole.scatter + sums.T @ steps
        blocks += [sums.ravel(), second[np.triu_indices(len(second))]]  # its upper triangle, row by row
    return np.concatenate([(statistics.parts[0] + empty).counts, *blocks])


def from_vector(vector: Array, classes: Sequence[str], layout: Layout, shift: Array) -> JointStatistics:
    """The statistics of a sum of such vectors; classes without examples are left out."""
    if len(vector) != length(len(classes), layout):
        raise WidthError(f"The vector has {len(vector)} numbers; expected {length(len(classes), layout)}.")
    k = len(classes)
    counts, parts = np.rint(vector[:k]), []
    if (counts < 0).any():
        raise InputError("A class has a negative count: the sums do not belong together.")
    present = counts > 0
    names = [name for name, there in zip(classes, present, strict=True) if there]
    for columns, sums, second in split_vector(vector, k, layout):
        parts.append(_centred(counts[present], sums[present], second, names, shift[columns]))
    return JointStatistics(layout, parts)


def split_vector(vector: Array, classes: int, layout: Layout) -> Iterator[tuple[slice, Array, Array]]:
    """For each reading its columns, its class sums (classes, width) and its second moment."""
    start = classes
    for w, columns in zip(layout.widths, layout.slices, strict=True):
        middle, stop = start + classes * w, start + classes * w + w * (w + 1) // 2
        yield columns, vector[start:middle].reshape(classes, w), _square(vector[middle:stop], w)
        start = stop


def _centred(counts: Array, sums: Array, second: Array, names: Sequence[str], shift: Array) -> ResponseStatistics:
    """Class means and within-class scatter from sums about the origin."""
    steps = sums / counts[:, None]
    scatter = second - sums.T @ steps
    scatter = (scatter + scatter.T) / 2
    np.fill_diagonal(scatter, np.maximum(scatter.diagonal(), 0.0))  # rounding, where a coordinate is constant
    arrays: dict[str, NDArray[np.generic]] = {"counts": counts, "means": steps + shift, "scatter": scatter}
    return ResponseStatistics.from_arrays(arrays, names)


def _square(upper: Array, width: int) -> Array:
    """The symmetric matrix of an upper triangle."""
    matrix = np.zeros((width, width))
    matrix[np.triu_indices(width)] = upper
    return matrix + np.triu(matrix, 1).T
