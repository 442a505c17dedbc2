"""Which coordinates of a response to keep: the paper's ablations "Conditional 95 %" and "Adaptive".

The paper describes them in words only. Our reading: coordinates are taken greedily, each time the
one of largest

    log( T[j|A] / W[j|A] ),   A the coordinates taken so far,

where W is the shrunk within-class scatter, T = W plus the between-class scatter, and S[j|A] the
Schur complement: what is left of the variance of j once A is known. Under Gaussians of one
covariance this bounds the information that j adds on the class. Two pivoted Cholesky factorisations
run in lockstep; the statistics are all they need. "Conditional 95 %" keeps the first 95 % of
the coordinates, "Adaptive" chooses among shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yoro.errors import SelectionError
from yoro.mappings.affine import AffineMapping
from yoro.mappings.discriminant import check_shrinkage, solve_mapping
from yoro.selection import PAPER_GRID, Validation
from yoro.statistics import ResponseStatistics

Array = NDArray[np.float64]
Indices = NDArray[np.intp]

CONDITIONAL = (0.95,)
ADAPTIVE = (0.80, 0.85, 0.90, 0.95, 1.0)
NOTHING = 1e-12  # of the first variance of a coordinate: what is left below this is rounding


@dataclass(frozen=True)
class Retention:
    """Coordinates kept, in ascending order, and the shrinkage chosen with them."""

    columns: Indices
    share: float
    shrinkage: float
    correct: int  # right answers on the validation data


def order_coordinates(statistics: ResponseStatistics, rho: float) -> Indices:
    """All coordinates, the most telling first; among equals the first. Ours, see above.

    A coordinate that those before it determine has nothing left to tell and comes last.
    """
    within = shrunk_scatter(statistics, rho)
    total = within + between_scatter(statistics)
    width = len(within)
    left = np.stack([within.diagonal(), total.diagonal()])  # what is left of each variance, (2, width)
    least = NOTHING * left
    factors = np.zeros((2, width, width))  # columns of the two Cholesky factors, one a step
    free = np.ones(width, dtype=bool)
    order = np.empty(width, dtype=np.intp)
    for step in range(width):
        alive = free & (left > least).all(axis=0)
        ratio = np.divide(left[1], left[0], out=np.zeros(width), where=alive)
        pick = int(np.argmax(np.where(alive, ratio, np.where(free, 0.0, -1.0))))
        order[step], free[pick] = pick, False
        if not alive[pick]:
            continue
        for which, matrix in enumerate((within, total)):
            column = matrix[:, pick] - factors[which, :, :step] @ factors[which, pick, :step]
            column /= np.sqrt(left[which, pick])
            factors[which, :, step] = column
            left[which] = np.maximum(left[which] - column**2, 0.0)
    return order


def shrunk_scatter(statistics: ResponseStatistics, rho: float) -> Array:
    """Within-class scatter, shrunk towards the identity of equal trace."""
    scatter = statistics.scatter
    width = len(scatter)
    shrunk: Array = (1.0 - check_shrinkage(rho)) * scatter + rho * np.trace(scatter) / width * np.eye(width)
    return shrunk


def between_scatter(statistics: ResponseStatistics) -> Array:
    """Scatter of the class means about the mean of all, (width, width)."""
    centre = statistics.counts @ statistics.means / statistics.total
    rows = np.sqrt(statistics.counts)[:, None] * np.where(statistics.counts[:, None] > 0, statistics.means - centre, 0)
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


def solve_retained(statistics: ResponseStatistics, columns: Indices, rho: float) -> AffineMapping:
    """BDM on some coordinates, written as a mapping over all: the others have weight zero."""
    narrowed = solve_mapping(narrow(statistics, columns), rho)
    weights = np.zeros((statistics.width, len(narrowed.classes)))
    weights[columns] = narrowed.weights
    return AffineMapping(weights, narrowed.bias, narrowed.classes)


def select_retention(
    statistics: ResponseStatistics,
    validation: Validation,
    shares: Sequence[float] = ADAPTIVE,
    candidates: Sequence[float] = PAPER_GRID,
) -> Retention:
    """Share and shrinkage of most right answers on validation data; ties to more coordinates, then less shrinkage."""
    responses, labels = validation
    best: Retention | None = None
    for rho in sorted(candidates):
        order = order_coordinates(statistics, rho)
        for share in sorted(shares, reverse=True):
            columns = first_share(order, share)
            answers = solve_retained(statistics, columns, rho).predict(responses)
            found = Retention(columns, share, rho, int((answers == labels).sum()))
            if best is None or (found.correct, found.share) > (best.correct, best.share):
                best = found
    if best is None:
        raise SelectionError("No share of coordinates or no shrinkage was given to choose from.")
    return best


def first_share(order: Indices, share: float) -> Indices:
    """The first ceil(share * width) coordinates of an order, ascending."""
    return np.sort(order[: max(1, int(np.ceil(share * len(order) - 1e-9)))])
