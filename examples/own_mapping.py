"""A label mapping in one file: a discriminant with diagonal covariance, from the statistics of one pass."""

import numpy as np

from yoro import AffineMapping, ResponseStatistics
from yoro.research.peers.method import mapping_method


def solve(statistics: ResponseStatistics) -> AffineMapping:
    """Weights (width, classes) and bias (classes,)."""
    variances = statistics.scatter.diagonal() / statistics.degrees
    weights = statistics.means.T / (variances + 0.1 * variances.mean())[:, None]
    bias = np.log(statistics.counts / statistics.total) - 0.5 * np.einsum("cw,wc->c", statistics.means, weights)
    return AffineMapping(weights, bias, statistics.classes)


METHOD = mapping_method("diagonal", solve)
