"""Simulated members with the same sums as the real ones, for leave-one-out where no individual response is kept.

An image that is left out changes the scores of its own class by its leverage, r' S^+ r with its residual r and the
scatter S. Sums fix the mean of the leverages (rank of S over images) and the covariance of the residuals, and
leave-one-out scores depend on little else. So residuals are drawn in all directions of the scatter alike, each with the
mean leverage, and left out as real ones would be.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.reservoir import Members
from yoro.discriminant.shrinkage import EPSILON, Spectrum
from yoro.discriminant.statistics import ResponseStatistics

MOST = 2048  # members that are invented
SEED = 0


def simulated_members(statistics: ResponseStatistics, spectrum: Spectrum) -> Members | None:
    """Members of the classes in proportion to their counts; None if no class could lack one.

    They are drawn in the coordinates of the responses, so that equal sums give equal members, whatever the signs and
    the order of eigenvectors; and for the classes in an order that comes from their means, so that a class that is
    renamed keeps its own.
    """
    counts, generator = statistics.counts, np.random.default_rng(SEED)
    order = np.argsort(statistics.means @ generator.standard_normal(statistics.width))
    codes = np.repeat(order, _shares(counts)[order])
    rank = spectrum.values > EPSILON * spectrum.width * spectrum.values.max()
    if not len(codes) or not rank.any():
        return None
    drawn = generator.standard_normal((len(codes), statistics.width))
    directions = drawn @ spectrum.basis[:, rank]
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    leverage = np.minimum(rank.sum() / statistics.total, 1.0 - 1.0 / counts[codes])
    sizes = np.sqrt(leverage)[:, None] * np.sqrt(spectrum.degrees * spectrum.values[rank])
    responses = statistics.means[codes] + (sizes * directions) @ spectrum.basis[:, rank].T
    labels = np.array(statistics.classes)[codes]
    return Members(responses, labels, np.full(len(codes), ""), np.ones(len(codes)))


def _shares(counts: NDArray[np.float64]) -> NDArray[np.intp]:
    """How many members of each class: all its images, or a share of them; none of a class that has only one."""
    whole = np.where(counts > 1, counts, 0.0)
    share = min(1.0, MOST / max(whole.sum(), 1.0))
    shares: NDArray[np.intp] = np.ceil(whole * share).astype(np.intp)
    return shares
