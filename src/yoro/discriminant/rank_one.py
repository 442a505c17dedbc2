"""A solved mapping after few images came or went: rank-one changes of metric and means instead of a new solve.

One image x of a class with n images and mean m changes the scatter by a multiple of (x - m)(x - m)'. With the inverse
of the shrunk covariance at hand, Woodbury's identity gives the changed one. Shrinkages, weights and the shrinkage
target stay those of before; without one of n images the target would be smaller by about one n-th of itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.calibration import Prior, log_prior
from yoro.discriminant.evidence import Choice
from yoro.discriminant.fixed_choice import whitened
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.mixture import side_by_side, sum_of_mappings
from yoro.discriminant.statistics import ResponseStatistics
from yoro.mappings.affine import AffineMapping

Array = NDArray[np.float64]


class Change(NamedTuple):
    """An image that came (1) or went (-1): its response (width of all readings,) and its class."""

    sign: int
    response: NDArray[np.floating]
    label: str


class HeldMapping:
    """A mapping at a choice, with what is needed to change it by few images."""

    def __init__(self, statistics: JointStatistics, choice: Choice, heads: Sequence[_Head], prior: Prior) -> None:
        self._classes, self._layout = statistics.classes, statistics.layout
        self._choice, self._heads, self._prior = choice, heads, prior

    def changed(self, changes: Sequence[Change]) -> AffineMapping | None:
        """The mapping after these changes, one by one; None if a class is new or would have no image left."""
        if any(change.label not in self._classes for change in changes):
            return None
        codes = [self._classes.index(change.label) for change in changes]
        signs = np.array([change.sign for change in changes], dtype=np.float64)
        parts = self._choice.parts or (self._choice,)
        mappings = []
        for part, head, own in zip(parts, self._heads, self._layout.slices, strict=True):
            responses = np.stack([change.response[own] for change in changes]).astype(np.float64)
            found = head.changed(responses, codes, signs, part.shrinkage)
            if found is None:
                return None
            weights, norms, counts = found
            bias = log_prior(counts, self._classes, self._prior) - 0.5 * norms
            mappings.append(AffineMapping(weights, bias, self._classes))
        return sum_of_mappings(parts, mappings) if self._choice.parts else mappings[0]


@dataclass(frozen=True)
class _Head:
    """One reading: the inverse of its covariance is `basis basis'`; its means, also in that basis."""

    basis: Array  # (width, rank)
    means: Array  # (classes, width)
    white: Array  # (classes, rank)
    counts: Array
    degrees: float

    def changed(
        self, responses: Array, codes: Sequence[int], signs: Array, rho: float
    ) -> tuple[Array, Array, Array] | None:
        """Weights (width, classes), squared lengths of the means in the new metric, and counts."""
        means, counts, rows = self.means.copy(), self.counts.copy(), []
        for response, code, sign in zip(responses, codes, signs, strict=True):
            left = counts[code] + sign
            if left <= 0:
                return None
            step = response - means[code]
            rows.append(np.sqrt(counts[code] / left) * step)
            means[code] += sign / left * step
            counts[code] = left
        degrees, white, mine = self.degrees + signs.sum(), self.white.copy(), sorted(set(codes))
        white[mine] = means[mine] @ self.basis
        turned = np.stack(rows) @ self.basis  # (changes, rank)
        core = turned @ turned.T + np.diag(signs * self.degrees / (1.0 - rho))
        solved = (white - np.linalg.solve(core, turned @ white.T).T @ turned) * (degrees / self.degrees)
        return self.basis @ solved.T, np.einsum("kr,kr->k", white, solved), counts


def hold_mapping(statistics: JointStatistics, choice: Choice, prior: Prior = "empirical") -> HeldMapping | None:
    """A mapping that can be changed by few images; None if it cannot be factorised, or sentences count."""
    parts = choice.parts or (choice,)
    plain = not any(part.alpha for part in parts) and all(part.shrinkage < 1 for part in parts)
    if not plain or len(parts) != len(statistics.parts) or not (statistics.counts > 0).all():
        return None

    def of_reading(i: int) -> _Head | None:
        return _head(statistics.parts[i], parts[i], alone=not choice.parts)

    heads = [head for head in side_by_side(of_reading, range(len(parts)), statistics.layout.widths) if head is not None]
    return HeldMapping(statistics, choice, heads, prior) if len(heads) == len(parts) else None


def _head(statistics: ResponseStatistics, part: Choice, *, alone: bool) -> _Head | None:
    """What a reading needs; one without weight is never asked, and needs nothing but its shape."""
    counts, means = statistics.counts.copy(), statistics.means.copy()
    if part.weight <= 0 and not alone:
        basis, white = np.zeros((statistics.width, 1)), np.zeros((len(counts), 1))
        return _Head(basis, means, white, counts, max(statistics.degrees, 1.0))
    spectrum = whitened(statistics, part.shrinkage, whole=True)
    if spectrum is None:
        return None
    return _Head(spectrum.basis, means, means @ spectrum.basis, counts, statistics.degrees)
