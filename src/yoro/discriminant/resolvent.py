"""Inner products in many metrics that differ by a multiple of the identity, interpolated from few of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

ROUNDING = 1e-15  # what interpolation may add to a product, relatively


class LogNodes:
    """Few places between two positive numbers, from which what is smooth in the logarithm is interpolated.

    `x' (A + t)^-1 y`, A diagonal and never negative, has no pole nearer than pi as a function of log t, so that few
    Chebyshev nodes give it to rounding.
    """

    def __init__(self, low: float, high: float, error: float = ROUNDING) -> None:
        self._middle, self._half = np.log(low * high) / 2, max(np.log(high / low) / 2, 1e-6)
        count = int(np.ceil(np.log(4 / error) / np.arcsinh(np.pi / self._half)))
        angles = (2 * np.arange(count) + 1) * np.pi / (2 * count)
        self._nodes, self._weights = np.cos(angles), np.sin(angles) * (-1.0) ** np.arange(count)
        self.places: Array = np.exp(self._middle + self._half * self._nodes)

    def between(self, t: Array) -> Array:
        """Shares (len(t), nodes) by which products at the nodes make those at t."""
        apart = (np.log(t) - self._middle)[:, None] / self._half - self._nodes
        met = np.abs(apart) < 1e-14
        shares: Array = self._weights / np.where(met, 1.0, apart)
        shares /= shares.sum(axis=1, keepdims=True)
        shares[met.any(axis=1)] = met[met.any(axis=1)]
        return shares
