"""What one or more passes leave behind: statistics, a sample of responses, and a list of contents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from yoro.data.responses import ResponseBatch
from yoro.discriminant.reservoir import Reservoir
from yoro.discriminant.statistics import ResponseStatistics
from yoro.model.ledger import Ledger


@dataclass
class Gathered:
    """Statistics, ledger and reservoir of the same responses."""

    statistics: ResponseStatistics = field(default_factory=ResponseStatistics)
    ledger: Ledger = field(default_factory=Ledger)
    reservoir: Reservoir | None = None
    images: int = 0  # added by passes, those of a resumed run among them
    skipped: list[tuple[str, str]] = field(default_factory=list)  # what could not be read, and why

    @classmethod
    def empty(cls, capacity: int, seed: int) -> Self:
        """Nothing yet, with room for so many individual responses; none are kept without room."""
        return cls(reservoir=Reservoir(capacity, seed) if capacity else None)

    def add(self, batches: Sequence[ResponseBatch]) -> None:
        """Add batches as one: a product over many rows costs little more than over a few."""
        if not batches:
            return
        responses = np.concatenate([batch.responses for batch in batches])
        labels = [label for batch in batches for label in batch.labels or []]
        digests = [digest for batch in batches for digest in batch.digests]
        groups = [group for batch in batches for group in batch.groups or [""] * len(batch.names)]
        self.statistics.update(responses, labels)
        self.ledger.add(digests, labels)
        if self.reservoir is not None:
            self.reservoir.add(responses, labels, digests, groups=groups)
        self.images += len(labels)
