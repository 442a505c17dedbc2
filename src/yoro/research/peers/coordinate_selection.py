"""Which coordinates of a response to keep: the paper's ablations "Conditional 95 %" and "Adaptive".

The paper describes them in words only, which leave open whether coordinates are ordered anew for each shrinkage
that is tried, as they are here, or once, at the shrinkage that validation chooses for the whole response
(`once`, `order = "once"` in a plan). Our reading: coordinates are taken greedily, each time the
one of largest

    log( T[j|A] / W[j|A] ),   A the coordinates taken so far,

where W is the shrunk within-class scatter, T = W plus the between-class scatter, and S[j|A] the
Schur complement: what is left of the variance of j once A is known. Under Gaussians of one
covariance this bounds the information that j adds on the class. Two matrices are followed in
lockstep as coordinates become known; the statistics are all they need. "Conditional 95 %" keeps the
first 95 % of the coordinates, "Adaptive" chooses among shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yoro.discriminant.evidence import Validation
from yoro.discriminant.rules import check_shrinkage
from yoro.discriminant.selection import PAPER_GRID
from yoro.discriminant.shrinkage import low_rank_spectrum
from yoro.discriminant.solve import solve_once, solve_path
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import SelectionError
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import Array

Indices = NDArray[np.intp]

CONDITIONAL = (0.95,)
ADAPTIVE = (0.80, 0.85, 0.90, 0.95, 1.0)
COLUMNS_PER_UPDATE = 64  # of the factor, subtracted in one product
NOTHING = 1e-12  # of the first variance of a coordinate: what is left below this is rounding


@dataclass(frozen=True)
class Retention:
    """Coordinates kept, in ascending order, and the shrinkage chosen with them."""

    columns: Indices
    share: float
    shrinkage: float
    correct: int  # right answers on the validation data


class DenseRemainder:
    """A covariance matrix of which coordinates become known one by one; `left` (width,) is left of each variance.

    It is a Cholesky factorisation that takes the coordinates as they are picked. Its columns are subtracted from the
    matrix many at a time, because one large product is faster than many small.
    """

    def __init__(self, matrix: Array) -> None:
        self.left = matrix.diagonal().copy()
        self._matrix, self._factor, self._waiting = matrix.copy(), np.empty((len(matrix), COLUMNS_PER_UPDATE)), 0

    def take(self, pick: int) -> None:
        before = self._factor[:, : self._waiting]
        column = self._matrix[pick] - before @ before[pick]
        column /= np.sqrt(self.left[pick])
        self._factor[:, self._waiting] = column
        self.left = np.maximum(self.left - column**2, 0.0)
        self._waiting += 1
        if self._waiting == COLUMNS_PER_UPDATE:
            self._matrix -= self._factor @ self._factor.T
            self._waiting = 0


class LowRankRemainder:
    """The same of `rows @ middle @ rows.T + noise I`, from the small matrix in the middle.

    Each coordinate is a noisy reading. What is left of the middle after a reading is a matrix of the same size, so
    the large one is never formed.
    """

    def __init__(self, rows: Array, middle: Array, noise: float) -> None:
        self._rows, self._middle = rows, middle.copy()
        self.left = noise + np.einsum("ij,jk,ik->i", rows, middle, rows, optimize=True)

    def take(self, pick: int) -> None:
        towards = self._middle @ self._rows[pick]
        variance = self.left[pick]
        column = self._rows @ towards
        self._middle -= np.outer(towards, towards / variance)
        self.left = np.maximum(self.left - column**2 / variance, 0.0)


Remainders = tuple[DenseRemainder, DenseRemainder] | tuple[LowRankRemainder, LowRankRemainder]  # within and total


def order_coordinates(statistics: ResponseStatistics, rho: float, texts: ArrayLike | None = None) -> Indices:
    """All coordinates, the most telling first; among equals the first. Ours, see above.

    A coordinate that those before it determine has nothing left to tell and comes last. With `texts`
    (width, dimension) the statistics are over vectors v, and the coordinates are those of `texts @ v`.
    """
    within, total = _remainders(statistics, rho, texts)
    width = len(within.left)
    least = NOTHING * np.stack([within.left, total.left])
    free = np.ones(width, dtype=bool)
    order = np.empty(width, dtype=np.intp)
    for step in range(width):
        alive = free & (within.left > least[0]) & (total.left > least[1])
        ratio = np.divide(total.left, within.left, out=np.zeros(width), where=alive)
        pick = int(np.argmax(np.where(alive, ratio, np.where(free, 0.0, -1.0))))
        order[step], free[pick] = pick, False
        if alive[pick]:
            within.take(pick)
            total.take(pick)
    return order


def _remainders(statistics: ResponseStatistics, rho: float, texts: ArrayLike | None) -> Remainders:
    """Within-class and total scatter of the responses; with texts, of `texts @ v` from statistics over v."""
    if texts is None:
        within = shrunk_scatter(statistics, rho)
        return DenseRemainder(within), DenseRemainder(within + between_scatter(statistics))
    rows = np.asarray(texts, dtype=np.float64)
    scatter = statistics.scatter
    noise = rho * float(np.einsum("ij,ij->", rows @ scatter, rows)) / len(rows)
    within = (1.0 - check_shrinkage(rho)) * scatter
    total = within + between_scatter(statistics)
    return LowRankRemainder(rows, within, noise), LowRankRemainder(rows, total, noise)


def shrunk_scatter(statistics: ResponseStatistics, rho: float) -> Array:
    """Within-class scatter, shrunk towards the identity of equal trace."""
    scatter = statistics.scatter
    width = len(scatter)
    shrunk: Array = (1.0 - check_shrinkage(rho)) * scatter + rho * np.trace(scatter) / width * np.eye(width)
    return shrunk


def between_scatter(statistics: ResponseStatistics) -> Array:
    """Scatter of the class means about the mean of all, (width, width)."""
    apart = np.where(statistics.counts[:, None] > 0, statistics.means - statistics.centre, 0)
    rows = np.sqrt(statistics.counts)[:, None] * apart
    between: Array = rows.T @ rows
    return between


def narrow(statistics: ResponseStatistics, columns: Indices) -> ResponseStatistics:
    """The statistics of some coordinates alone."""
    arrays: dict[str, NDArray[np.generic]] = {
        "counts": statistics.counts,
        "means": statistics.means[:, columns],
        "scatter": statistics.scatter[np.ix_(columns, columns)],
    }
    return ResponseStatistics.from_arrays(arrays, list(statistics.classes))


def solve_retained(
    statistics: ResponseStatistics, columns: Indices, rho: float, texts: ArrayLike | None = None
) -> AffineMapping:
    """BDM on some coordinates, written as a mapping over all: the others have weight zero.

    With `texts` the mapping is over the vectors v that the statistics are of.
    """
    if texts is not None:
        spectrum = low_rank_spectrum(statistics, np.asarray(texts)[columns], 1.0)
        return solve_path(statistics, spectrum, [rho])[0]
    narrowed = solve_once(narrow(statistics, columns), rho)
    weights = np.zeros((statistics.width, len(narrowed.classes)))
    weights[columns] = narrowed.weights
    return AffineMapping(weights, narrowed.bias, narrowed.classes)


def select_retention(
    statistics: ResponseStatistics,
    validation: Validation,
    shares: Sequence[float] = ADAPTIVE,
    candidates: Sequence[float] = PAPER_GRID,
    *,
    texts: ArrayLike | None = None,
    once: bool = False,
) -> Retention:
    """Share and shrinkage of most right answers on validation data; ties to more coordinates, then less shrinkage.

    With `texts` (width, dimension), statistics and validation data are of vectors v, and the coordinates are
    those of `texts @ v`; their scale makes no difference.
    """
    responses, labels = validation
    best: Retention | None = None
    whole = select_retention(statistics, validation, (1.0,), candidates, texts=texts).shrinkage if once else None
    for rho in sorted(candidates):
        order = order_coordinates(statistics, rho if whole is None else whole, texts)
        for share in sorted(shares, reverse=True):
            columns = first_share(order, share)
            answers = solve_retained(statistics, columns, rho, texts).predict(responses)
            found = Retention(columns, share, rho, int((answers == labels).sum()))
            if best is None or (found.correct, found.share) > (best.correct, best.share):
                best = found
    if best is None:
        raise SelectionError("No share of coordinates or no shrinkage was given to choose from.")
    return best


def first_share(order: Indices, share: float) -> Indices:
    """The first ceil(share * width) coordinates of an order, ascending."""
    return np.sort(order[: max(1, int(np.ceil(share * len(order) - 1e-9)))])
