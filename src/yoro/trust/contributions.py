"""The named terms that a score is a sum of: source classes, sentences, or numbered channels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.readings import LOGITS, Reading
from yoro.discriminant.statistics import ResponseStatistics
from yoro.mappings.batches import Array
from yoro.model.open_model import OpenModel
from yoro.sources.protocol import ResponseSource

SENTENCES = "sentences"


@dataclass(frozen=True)
class Terms:
    """The terms of one reading: its coordinates, or the similarities to sentences that they stand for.

    A score over vectors v of an image-text source is one over its responses `texts @ v`. Of all weights with the same
    scores the shortest are taken, which are those of the discriminant over the responses. A sentence that is there more
    than once is one term.
    """

    reading: str
    names: Sequence[str]
    named: bool  # by words, not by numbers
    texts: Array | None = None  # (terms, dimension), with the scale of the source
    counts: Array | None = None  # (terms,) how often each sentence is there

    def values(self, part: NDArray[np.floating]) -> Array:
        """The terms (n, terms) of a reading (n, width)."""
        rows = np.asarray(part, dtype=np.float64)
        return rows if self.texts is None else rows @ self.texts.T

    def weights(self, weights: Array) -> Array:
        """Weights (terms, k) of the terms, from those of the reading (width, k)."""
        return weights if self.texts is None else self._inverse @ weights

    def spread(self, statistics: ResponseStatistics) -> Array:
        """Standard deviation of each term over the fitted images; one where there are none."""
        if statistics.total == 0:
            return np.ones(len(self.names))
        between = self.values(np.sqrt(statistics.counts)[:, None] * (statistics.means - statistics.centre))
        total = np.einsum("ij,ij->j", between, between) + self._within(statistics)
        return np.asarray(np.sqrt(total / statistics.total))

    @cached_property
    def _inverse(self) -> Array:
        """From weights of vectors to weights of similarities, (terms, dimension)."""
        assert self.texts is not None
        assert self.counts is not None
        root = np.sqrt(self.counts)
        return np.asarray(root[:, None] * np.linalg.pinv(self.texts.T * root), dtype=np.float64)

    def _within(self, statistics: ResponseStatistics) -> Array:
        """The diagonal of the scatter of the terms."""
        rows = statistics.factor
        if rows is not None:
            values = self.values(rows)
            return np.asarray(np.einsum("ij,ij->j", values, values))
        if self.texts is None:
            return np.maximum(statistics.scatter.diagonal(), 0.0)
        rows = self.texts @ statistics.scatter
        return np.asarray(np.maximum(np.einsum("id,id->i", rows, self.texts), 0.0))


def terms_of(classifier: OpenModel) -> list[Terms]:
    """The terms of every reading; the source is opened for the names of its classes."""
    model, layout = classifier.model, classifier.model.statistics.layout
    if model.words is not None:
        counts = Counter(sentences := model.words.bank.flat()[0])
        rows = model.words.vectors[[sentences.index(sentence) for sentence in counts]]
        texts = model.words.scale * rows.astype(np.float64)
        spoken = Terms(SENTENCES, list(counts), True, texts, np.array(list(counts.values()), dtype=np.float64))
        return [spoken, *(_numbered(reading, None) for reading in layout.readings[1:])]
    source = classifier.pipeline.source if model.origin.images and layout.places(LOGITS) else None
    return [_numbered(reading, source) for reading in layout.readings]


def _numbered(reading: Reading, source: ResponseSource | None) -> Terms:
    names = None if source is None else source.member(reading.network).class_names
    if reading.layer == LOGITS and names is not None and len(names) == reading.width:
        return Terms(reading.name, names, True)
    return Terms(reading.name, [f"channel {j} of {reading.name}" for j in range(reading.width)], False)
