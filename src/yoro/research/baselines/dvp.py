"""DVP: several prompts, each for a part of the sentences, and weights of the sentences that are counted each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans

from yoro.errors import InputError
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import Array, class_codes
from yoro.option import check_range
from yoro.refining.heads import MappingHead
from yoro.refining.recipe import REFRESH
from yoro.research.baselines.clip_heads import Vectors
from yoro.research.baselines.published import NEAREST, PROMPTS

Places = NDArray[np.intp]


@dataclass(frozen=True)
class RoutedSentences:
    """Sentences (classes, sentences, dimension) and the prompt (classes, sentences) that an image is seen through.

    Responses are the image's vectors through every prompt, side by side: (n, prompts * dimension).
    """

    vectors: Vectors
    routes: Places
    classes: tuple[str, ...]
    scale: float

    def __post_init__(self) -> None:
        n_classes = len(self.classes)
        if self.vectors.ndim != 3 or self.routes.shape != self.vectors.shape[:2] or len(self.routes) != n_classes:
            raise InputError(
                f"Sentences {self.vectors.shape}, their prompts {self.routes.shape} and {n_classes} classes do not "
                "match; expected (classes, sentences, dimension) and (classes, sentences)."
            )

    @property
    def prompts(self) -> int:
        return int(self.routes.max()) + 1

    def own_similarities(self, responses: Array, codes: Places) -> Array:
        """Similarity of each image to the sentences of its own class, each through its prompt, (n, sentences)."""
        views = responses.reshape(len(responses), self.prompts, -1)
        seen = views[np.arange(len(views))[:, None], self.routes[codes]]  # (n, sentences, dimension)
        similarities: Array = np.einsum("nmd,nmd->nm", seen, self.vectors[codes])
        return similarities

    def mapping(self, weights: Array) -> AffineMapping:
        """Scores as the weighted sum (classes, sentences) of scaled similarities, as one affine map of responses."""
        blocks = np.zeros((self.prompts, self.vectors.shape[2], len(self.classes)))
        for prompt in range(self.prompts):
            share = np.where(self.routes == prompt, weights, 0.0)
            blocks[prompt] = np.einsum("km,kmd->dk", share, self.vectors)
        flat = self.scale * blocks.reshape(-1, len(self.classes))
        return AffineMapping(flat, np.zeros(len(self.classes)), self.classes)


class NearestCounts:
    """How often a sentence is among the nearest of its own class; see `Collector`. Among equals the first counts."""

    def __init__(self, sentences: RoutedSentences, nearest: int = NEAREST) -> None:
        check_range("nearest", nearest, 1)
        self.counts: Array = np.zeros(sentences.routes.shape)
        self._sentences, self._nearest = sentences, nearest

    def update(self, responses: NDArray[np.float64], labels: Sequence[str]) -> None:
        codes = class_codes(labels, self._sentences.classes)
        similarities = self._sentences.own_similarities(responses, codes)
        nearest = np.argsort(-similarities, axis=1, kind="stable")[:, : self._nearest]
        np.add.at(self.counts, (codes[:, None], nearest), 1.0)

    def weights(self) -> Array:
        """Shares (classes, sentences) that sum to 1 in a class; equal ones where nothing was counted."""
        totals = self.counts.sum(axis=1, keepdims=True)
        shares: Array = np.full_like(self.counts, 1.0 / self.counts.shape[1])
        np.divide(self.counts, totals, out=shares, where=totals > 0)
        return shares


def clustered(vectors: Vectors, classes: Sequence[str], scale: float, prompts: int = PROMPTS) -> RoutedSentences:
    """DVP-cls: one prompt for each of the clusters that k-means finds among all sentences."""
    flat = vectors.reshape(-1, vectors.shape[2])
    distinct = len(np.unique(flat, axis=0))  # sentences
    check_range("prompts", prompts, 1, distinct)
    routes = KMeans(n_clusters=prompts, random_state=0).fit_predict(flat).astype(np.intp)
    return RoutedSentences(vectors, routes.reshape(vectors.shape[:2]), tuple(classes), scale)


def caused(banks: Sequence[Vectors], classes: Sequence[str], scale: float) -> RoutedSentences:
    """DVP-cse: one prompt for each bank, such as one for each cause that a description is written for."""
    if len(banks) < 2:
        raise InputError(f"DVP-cse got {len(banks)} banks of sentences; expected two or more, one per prompt.")
    sizes = [bank.shape[1] for bank in banks]
    routes = np.tile(np.repeat(np.arange(len(banks)), sizes), (len(classes), 1))
    return RoutedSentences(np.concatenate(banks, axis=1), routes, tuple(classes), scale)


def dvp_head(
    sentences: RoutedSentences, *, nearest: int = NEAREST, device: torch.device | str = "cpu"
) -> MappingHead[NearestCounts]:
    """Equal weights first; then those counted among the nearest sentences of each epoch's own class, no smoothing.

    A class that no image was seen of gets equal weights again, where the published code divides by zero.
    """
    equal = NearestCounts(sentences, nearest).weights()
    return MappingHead(
        sentences.mapping(equal),
        REFRESH,
        collect=lambda: NearestCounts(sentences, nearest),
        solve=lambda counts: sentences.mapping(counts.weights()),
        device=device,
    )
