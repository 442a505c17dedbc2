"""Mapping and leave-one-out at fixed shrinkages and weights, by one Cholesky factorisation per reading.

A change of few images hardly moves what was chosen before. Kept fixed, it needs no eigendecomposition: with the shrunk
covariance `A = L L'`, responses get the coordinates `L^-1 z`, in which A is the identity.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from yoro.discriminant.calibration import Prior
from yoro.discriminant.evidence import Choice
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.leave_one_out import LeaveOneOut
from yoro.discriminant.mixture import LeaveOneOutScores, sum_of_mappings, sum_of_scores
from yoro.discriminant.readings import side_by_side
from yoro.discriminant.reservoir import Members
from yoro.discriminant.shrinkage import NARROW, Inverses, Spectrum
from yoro.discriminant.solve import ENOUGH, solve_path
from yoro.discriminant.statistics import ResponseStatistics
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import Array

JITTER = 1e-12  # relative to the mean square of the rows, so that equal rows can be factorised


class FixedTargetLeaveOneOut(LeaveOneOut):
    """Leave-one-out over a whitened basis, exact except that the shrinkage target stays that of all responses.

    Without one of n responses the target would be smaller by about one n-th of itself.
    """

    def _few_nodes(self, traces: Array, error: float) -> tuple[Array, Array]:
        return np.ones(1), np.ones((len(traces), 1))

    def _freedom(self, trace: Array, degrees: Array) -> Array:
        return 1.0 / np.where(degrees > 0, degrees, np.inf)

    def _inverse(self, traces: Array, rho: float) -> Inverses:
        return Inverses(np.full((len(traces), len(self._spectrum.values)), 1.0 / self._spectrum.degrees))


def whitened(statistics: ResponseStatistics, rho: float, *, whole: bool = False) -> Spectrum | None:
    """A basis in which the covariance at this shrinkage is the identity; None if it cannot be factorised.

    Of few responses it spans these alone, unless the `whole` space is wanted.
    """
    degrees, width, factor = statistics.degrees, statistics.width, None if whole else statistics.factor
    few = factor is not None and len(factor) + len(statistics.classes) < NARROW * width
    span = _span(statistics, factor) if few and factor is not None else None
    scatter = statistics.scatter if span is None else span[2]
    trace = float(np.trace(scatter))
    if rho < ENOUGH or degrees <= 0 or not trace > 0:
        return None
    scatter *= (1.0 - rho) / degrees
    scatter[np.diag_indices_from(scatter)] += rho * trace / degrees / width
    lower = _inverse_factor(scatter)
    if lower is None:
        return None
    basis = np.ascontiguousarray(lower.T) if span is None else span[0].T @ (lower @ span[1]).T
    rank = basis.shape[1]
    values = np.full(rank, 1.0 / (1.0 - rho + rho * rank / width))  # which this shrinkage turns into ones
    return Spectrum(values, basis, width, degrees)


def _span(statistics: ResponseStatistics, factor: Array) -> tuple[Array, Array, Array] | None:
    """Rows and a matrix whose product `rows' turned'` is an orthonormal basis of few responses; the scatter in it."""
    seen = statistics.counts > 0
    centre = statistics.counts @ statistics.means / statistics.total
    between = np.sqrt(statistics.counts[seen])[:, None] * (statistics.means[seen] - centre)
    alike = np.sqrt((factor**2).sum() / max(len(factor), 1) / (centre @ centre or 1.0))  # for a similar length
    rows = np.concatenate([factor, between, alike * centre[None]])
    products = rows @ rows.T
    products[np.diag_indices_from(products)] += JITTER * np.trace(products) / len(products)
    from scipy.linalg.lapack import dpotrf, dtrtri

    lower, failed = dpotrf(products.T, lower=1, clean=1, overwrite_a=1)
    if failed:
        return None
    turned, _ = dtrtri(lower, lower=1)
    inner = lower[: len(factor)]
    return rows, turned, inner.T @ inner


def _inverse_factor(matrix: Array) -> Array | None:
    """`L^-1` of a symmetric `L L'`; None if it is not positive definite."""
    from scipy.linalg.lapack import dpotrf, dtrtri

    factor, failed = dpotrf(matrix.T, lower=1, clean=1, overwrite_a=1)
    if failed:
        return None
    inverse, failed = dtrtri(factor, lower=1, overwrite_c=1)
    return None if failed else inverse


def solve_fixed_choice(
    statistics: JointStatistics, members: Members, choice: Choice, prior: Prior = "empirical"
) -> tuple[AffineMapping, LeaveOneOutScores | None] | None:
    """The mapping of an earlier choice, and leave-one-out scores of the members; None if it does not apply."""
    layout, parts = statistics.layout, choice.parts or (choice,)
    if len(parts) != len(layout.readings) or any(part.alpha for part in parts):
        return None

    def of_reading(i: int) -> tuple[AffineMapping, LeaveOneOutScores | None] | None:
        mine, part = statistics.parts[i], parts[i]
        if choice.parts and part.weight <= 0:
            many = len(mine.classes)
            return AffineMapping(np.zeros((mine.width, many)), np.zeros(many), mine.classes), None
        spectrum = whitened(mine, part.shrinkage)
        if spectrum is None:
            return None
        rows = replace(members, responses=members.responses[:, layout.slices[i]])
        left_out = FixedTargetLeaveOneOut(mine, spectrum, rows, prior=prior)
        mapping = solve_path(mine, spectrum, [part.shrinkage], prior=prior)[0]
        return mapping, LeaveOneOutScores(left_out.scores(part.shrinkage), left_out.rows) if len(left_out) else None

    found = [one for one in side_by_side(of_reading, range(len(parts)), layout.widths) if one is not None]
    if len(found) < len(parts):
        return None
    if not choice.parts:
        return found[0]
    speaking = [(part, head) for part, (_, head) in zip(parts, found, strict=True) if head is not None]
    heads = [head for _, head in speaking]
    scores = sum_of_scores([part for part, _ in speaking], heads) if heads else None
    return sum_of_mappings(parts, [mapping for mapping, _ in found]), scores
