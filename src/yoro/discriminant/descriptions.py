"""Class sentences: their zero-shot head, and means for classes without images.

Of an image-text model the responses are `z = scale T v`: similarities of the image vector v to the vectors of all
sentences, the rows of T. Everything here acts on v, so that z is never formed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.shrinkage import Spectrum, low_rank_spectrum
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import Array, class_codes


@dataclass(frozen=True)
class Descriptions:
    """Sentences as unit vectors (m, dimension), the class that each describes, and the model's logit scale."""

    vectors: NDArray[np.floating]
    owners: tuple[str, ...]
    scale: float

    def __post_init__(self) -> None:
        if self.vectors.ndim != 2 or len(self.vectors) != len(self.owners) or not len(self.owners):
            raise InputError(
                f"Got text vectors of shape {self.vectors.shape} for {len(self.owners)} sentences; expected one each."
            )
        if not np.isfinite(self.vectors).all() or not 0 < self.scale < np.inf:
            raise InputError(f"Text vectors must be finite and the scale positive; the scale is {self.scale}.")

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes described, sorted by name."""
        return tuple(sorted(set(self.owners)))

    @property
    def dimension(self) -> int:
        return int(self.vectors.shape[1])

    def means(self, classes: Sequence[str]) -> Array:
        """Mean vector of the sentences of each class, (classes, dimension)."""
        wanted = set(classes)
        lost = sorted(wanted - set(self.owners))
        if lost:
            raise InputError(f"There are no sentences for {', '.join(map(repr, lost))}.")
        rows = [i for i, owner in enumerate(self.owners) if owner in wanted]
        codes = class_codes((self.owners[i] for i in rows), classes)
        sums = np.zeros((len(classes), self.dimension))
        np.add.at(sums, codes, self.vectors[rows])
        return sums / np.bincount(codes, minlength=len(classes))[:, None]

    def head(self, classes: Sequence[str]) -> AffineMapping:
        """Zero-shot: the score of a class is its mean response, `scale <v, mean of its sentences>`."""
        return AffineMapping(self.scale * self.means(classes).T, np.zeros(len(classes)), tuple(classes))

    def spectrum(self, statistics: ResponseStatistics) -> Spectrum:
        """Spectrum of the covariance of the responses, from statistics over v."""
        return low_rank_spectrum(statistics, self.vectors, self.scale)

    def anchored(self, statistics: ResponseStatistics) -> ResponseStatistics:
        """The statistics with one imagined image for each class that has none, where its sentences would lie.

        Text and image vectors live apart, so the sentences are moved: their means are centred and
        scaled to predict the class means of the images best, in the least-squares sense. Classes
        that have images are left alone: anchors among them would tell leave-one-out what it must
        not know, because they are placed by all images together.
        """
        counts, classes = statistics.counts, statistics.classes
        empty = counts == 0
        if not empty.any():
            return statistics
        texts = self.means(classes)
        share = counts / counts.sum()
        centre, middle = share @ statistics.means, share @ texts
        spread = share @ ((texts - middle) ** 2).sum(axis=1)
        common = share @ ((texts - middle) * (statistics.means - centre)).sum(axis=1)
        stretch = common / spread if spread > 0 and common > 0 else 1.0
        result = statistics.copy()
        result.update((centre + stretch * (texts - middle))[empty], np.array(classes)[empty])
        return result


def blend(mapping: AffineMapping, head: AffineMapping, alpha: float) -> AffineMapping:
    """`mapping + alpha * head`: still one affine map."""
    if mapping.classes != head.classes:
        raise InputError("A mapping and a head over different classes cannot be added.")
    return AffineMapping(mapping.weights + alpha * head.weights, mapping.bias + alpha * head.bias, mapping.classes)
