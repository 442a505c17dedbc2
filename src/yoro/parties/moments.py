"""Statistics as one vector of sums about a point that all agree on: counts, class sums, second moments.

Vectors of several parties add up to that of all their data, entry by entry, which the centred form that statistics are
kept in does not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import listed
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.readings import Layout
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError, WidthError

Array = NDArray[np.float64]


def length(classes: int, layout: Layout) -> int:
    """How many numbers the vector has.

    >>> length(3, Layout.of(4))
    25
    """
    return classes + sum(classes * w + w * (w + 1) // 2 for w in _widths(layout))


def to_vector(statistics: JointStatistics, classes: Sequence[str], shift: Array) -> Array:
    """Counts, then for each reading the sums of its classes and the upper triangle of its second moment."""
    if stray := sorted(set(statistics.classes) - set(classes)):
        raise InputError(
            f"The data have the class {stray[0]!r}, which was not agreed on; the classes are {listed(sorted(classes))}."
        )
    if statistics.width != len(shift):
        raise WidthError(f"The responses have width {statistics.width}; width {len(shift)} was agreed on.")
    empty, blocks = ResponseStatistics(classes), []
    for part, columns in zip(statistics.parts, statistics.layout.slices, strict=True):
        whole = part + empty
        steps = np.where(whole.counts[:, None] > 0, whole.means - shift[columns], 0.0)  # (classes, width)
        sums = whole.counts[:, None] * steps
        second = whole.scatter + sums.T @ steps
        blocks += [sums.ravel(), _upper(second)]
    return np.concatenate([(statistics.parts[0] + empty).counts, *blocks])


def from_vector(vector: Array, classes: Sequence[str], layout: Layout, shift: Array) -> JointStatistics:
    """The statistics of a sum of such vectors; classes of which there is no example are left out."""
    if len(vector) != length(len(classes), layout):
        raise WidthError(f"A vector of {len(vector)} numbers came; expected {length(len(classes), layout)}.")
    k = len(classes)
    counts, parts = np.rint(vector[:k]), []
    if (counts < 0).any():
        raise InputError("A class has less than no examples: what was added up does not belong together.")
    present = counts > 0
    names = [name for name, there in zip(classes, present, strict=True) if there]
    for columns, sums, second in taken_apart(vector, k, layout):
        parts.append(_centred(counts[present], sums[present], second, names, shift[columns]))
    return JointStatistics(layout, parts)


def taken_apart(vector: Array, classes: int, layout: Layout) -> Iterator[tuple[slice, Array, Array]]:
    """For each reading where it stands, the sums of its classes (classes, width), and its second moment."""
    start = classes
    for w, columns in zip(_widths(layout), layout.slices, strict=True):
        middle, stop = start + classes * w, start + classes * w + w * (w + 1) // 2
        yield columns, vector[start:middle].reshape(classes, w), _square(vector[middle:stop], w)
        start = stop


def _centred(counts: Array, sums: Array, second: Array, names: Sequence[str], shift: Array) -> ResponseStatistics:
    """From sums about the shift to class means and the scatter about them."""
    steps = sums / counts[:, None]
    scatter = second - sums.T @ steps
    scatter = (scatter + scatter.T) / 2
    np.fill_diagonal(scatter, np.maximum(scatter.diagonal(), 0.0))  # rounding of what is constant within classes
    arrays: dict[str, NDArray[np.generic]] = {"counts": counts, "means": steps + shift, "scatter": scatter}
    return ResponseStatistics.from_arrays(arrays, names)


def _widths(layout: Layout) -> list[int]:
    return [reading.width for reading in layout.readings]


def _upper(matrix: Array) -> Array:
    """The upper triangle, row by row."""
    return np.concatenate([matrix[i, i:] for i in range(len(matrix))])


def _square(upper: Array, width: int) -> Array:
    """The symmetric matrix of an upper triangle."""
    ends = np.concatenate([[0], np.cumsum(np.arange(width, 0, -1))])
    matrix = np.zeros((width, width))
    for i, (start, stop) in enumerate(pairwise(ends)):
        matrix[i, i:] = upper[start:stop]
    return matrix + np.triu(matrix, 1).T
