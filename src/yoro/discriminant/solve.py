"""Bayesian Discriminant Mapping: the Bayes rule of Gaussians that share a shrunk covariance."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from yoro.discriminant.calibration import Prior, log_prior
from yoro.discriminant.rules import check_shrinkage
from yoro.discriminant.shrinkage import Spectrum, dense_spectrum
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import DegenerateWarning, InputError
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import Array

ENOUGH = 1e-3  # shrinkage from which the covariance is well enough conditioned to be solved without its spectrum


def solve_mapping(statistics: ResponseStatistics, rho: float, *, prior: Prior = "empirical") -> AffineMapping:
    """BDM at one shrinkage, from the statistics of one pass."""
    return solve_path(statistics, dense_spectrum(statistics), [rho], prior=prior)[0]


def solve_once(statistics: ResponseStatistics, rho: float, *, prior: Prior = "empirical") -> AffineMapping:
    """`solve_mapping` by one Cholesky factorisation, many times as fast; the same numbers to rounding.

    From `ENOUGH` on no diagonal floor is ever needed, so that the eigenvalues need not be known. Smaller
    shrinkages, and classes without spread, are left to `solve_mapping`.
    """
    scatter = statistics.scatter
    trace = float(np.trace(scatter))
    if check_shrinkage(rho) < ENOUGH or statistics.degrees <= 0 or not trace > 0:
        return solve_mapping(statistics, rho, prior=prior)
    covariance = np.asfortranarray((1.0 - rho) / statistics.degrees * scatter)
    covariance[np.diag_indices_from(covariance)] += rho * trace / statistics.degrees / statistics.width
    from scipy.linalg.lapack import dposv

    _, weights, failed = dposv(covariance, statistics.means.T, overwrite_a=1)
    if failed:
        return solve_mapping(statistics, rho, prior=prior)
    priors = log_prior(statistics.counts, statistics.classes, prior)
    bias = priors - 0.5 * np.einsum("kd,dk->k", statistics.means, weights)
    return AffineMapping(np.ascontiguousarray(weights), bias, statistics.classes)


def solve_path(
    statistics: ResponseStatistics, spectrum: Spectrum, shrinkages: Sequence[float], *, prior: Prior = "empirical"
) -> list[AffineMapping]:
    """BDM at many shrinkages from one eigendecomposition (eq. bdm-solve).

    In the eigenbasis the regularised covariance is diagonal, so that a shrinkage costs one
    division and one product. The mappings take the vectors that the statistics were gathered
    over: responses, or v in the low-rank form.
    """
    grid = [check_shrinkage(rho) for rho in shrinkages]
    return _solve(statistics, spectrum, [partial(spectrum.whitened, rho=rho) for rho in grid], prior)


def solve_empirical(statistics: ResponseStatistics, spectrum: Spectrum, *, prior: Prior = "empirical") -> AffineMapping:
    """The discriminant without shrinkage, by the pseudo-inverse of the covariance (relative cut-off 1e-10).

    Where responses are few or repeat each other the covariance is singular; this ablation leaves
    its null directions out, and so cannot use what tells classes apart there.
    """
    return _solve(statistics, spectrum, [lambda means: means / spectrum.empirical()], prior)[0]


def _solve(
    statistics: ResponseStatistics, spectrum: Spectrum, metrics: Sequence[Callable[[Array], Array]], prior: Prior
) -> list[AffineMapping]:
    """A mapping for each inverse of the covariance, which takes the class means in the basis."""
    if statistics.total <= 0:
        raise InputError("No responses were seen, so there is nothing to map. Add a batch with update() first.")
    if spectrum.degenerate:
        warnings.warn(
            f"{statistics.total:g} responses of {int((statistics.counts > 0).sum())} classes show no spread within a "
            "class, so distances to the class means are plain Euclidean, as with the nearest class mean. "
            "More images of at least one class would give a covariance.",
            DegenerateWarning,
            stacklevel=3,
        )
    means = statistics.means @ spectrum.basis  # (classes, rank)
    priors = log_prior(statistics.counts, statistics.classes, prior)
    mappings = []
    for metric in metrics:
        whitened = metric(means)
        weights = spectrum.basis @ whitened.T  # Sigma_rho^-1 M
        bias = priors - 0.5 * np.einsum("kr,kr->k", means, whitened)
        mappings.append(AffineMapping(weights, bias, statistics.classes))
    return mappings
