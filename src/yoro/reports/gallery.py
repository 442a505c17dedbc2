"""The page about predictions: every image with its answer, the most doubtful first."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from yoro.data.decoding import decode
from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.errors import ImageError
from yoro.model.open_model import Answers
from yoro.reports.evaluation import SIDE, thumbnail
from yoro.reports.page import render

MOST = 300  # pictures on a page


class Answer(NamedTuple):
    """The best two classes of an image; in this order, the most doubtful is the least."""

    probability: float
    name: str
    label: str
    second: str
    next_probability: float
    unknown: bool = False  # whether it is of no known class


@dataclass
class Gallery:
    """Gathers answers while they are made, and keeps the most doubtful."""

    classes: tuple[str, ...]
    threshold: float = 0.0
    total: int = 0
    unsure: int = 0
    unknown: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    sums: dict[str, float] = field(default_factory=lambda: defaultdict(float))  # of probabilities
    doubtful: list[Answer] = field(default_factory=list)

    def add(self, batch: Answers) -> list[Answer]:
        """Note a batch; its answers in their order."""
        order = np.argsort(-batch.log_probabilities, axis=1, kind="stable")[:, :2]
        shares = np.exp(np.take_along_axis(batch.log_probabilities, order, axis=1))
        found = [
            Answer(first, name, self.classes[best], self.classes[other], second, batch.is_unknown(row))
            for row, (name, (best, other), (first, second)) in enumerate(
                zip(batch.names, order.tolist(), shares.tolist(), strict=True)
            )
        ]
        for answer in found:
            self.counts[answer.label] += 1
            self.sums[answer.label] += answer.probability
            self.unsure += answer.probability < self.threshold
            self.unknown += answer.unknown
        self.total += len(found)
        self.doubtful = heapq.nsmallest(MOST, [*self.doubtful, *found], key=lambda one: (not one.unknown, one))
        return found

    def page(self, pictures: Mapping[str, Example], title: str, source: str) -> str:
        """The whole page, to be written as UTF-8; it asks for no other file and runs no script."""
        rows = [(name, count, self.sums[name] / count) for name, count in self.counts.most_common()]
        shown = [(answer, made) for answer in self.doubtful if (made := small(pictures.get(answer.name)))]
        return render(
            "gallery.html",
            title=title,
            source=source,
            total=self.total,
            threshold=self.threshold,
            unsure=self.unsure,
            unknown=self.unknown,
            mean=sum(self.sums.values()) / max(self.total, 1),
            rows=rows,
            answers=shown,
        )


def small(example: Example | None) -> bytes | None:
    """A thumbnail; none for what is gone since it was read."""
    if example is None:
        return None
    try:
        return thumbnail(decode(example.image, Geometry(2 * SIDE, "crop")))
    except ImageError:
        return None
