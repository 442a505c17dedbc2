"""The low-rank mapping written over the responses themselves, to compare with the dense one."""

from __future__ import annotations

import numpy as np

from yoro.discriminant.shrinkage import low_rank_spectrum
from yoro.discriminant.solve import solve_path
from yoro.mappings.affine import AffineMapping


def solve_low_rank(statistics, texts, scale: float, rho: float) -> AffineMapping:
    """BDM on responses `scale * texts @ v`, from statistics over v: a row of weights for each text."""
    spectrum = low_rank_spectrum(statistics, texts, scale)
    return unfold(solve_path(statistics, spectrum, [rho])[0], spectrum, texts, scale)


def unfold(mapping: AffineMapping, spectrum, texts, scale: float) -> AffineMapping:
    """A mapping over v as one over responses `scale * texts @ v` (eq. clip-low-rank-solve).

    Of all weights that give the same scores these lie in the span of the texts' columns, as the dense solution does.
    """
    inverse = np.linalg.pinv(spectrum.basis)  # (rank, dimension)
    weights = scale * np.asarray(texts, dtype=np.float64) @ (inverse.T @ (inverse @ mapping.weights))
    return AffineMapping(weights, mapping.bias, mapping.classes)
