"""The page about predictions: every image with its answer, the most doubtful first."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from yoro.data.decoding import decode
from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.data.python_data import Label
from yoro.errors import ImageError
from yoro.model.answers import ImageAnswer
from yoro.reports.evaluation import SIDE, thumbnail
from yoro.reports.page import render

MOST = 300  # pictures on a page


@dataclass
class Gallery:
    """Gathers answers while they are made, and keeps the most doubtful."""

    threshold: float = 0.0
    total: int = 0
    unsure: int = 0
    unknown: int = 0
    counts: Counter[Label] = field(default_factory=Counter)
    sums: dict[Label, float] = field(default_factory=lambda: defaultdict(float))  # of probabilities
    doubtful: list[ImageAnswer] = field(default_factory=list)

    def add(self, answers: Sequence[ImageAnswer]) -> None:
        """Add a batch of answers with their best two classes."""
        for answer in answers:
            label, probability = answer.best[0]
            self.counts[label] += 1
            self.sums[label] += probability
            self.unsure += answer.unsure
            self.unknown += answer.unknown
        self.total += len(answers)
        self.doubtful = heapq.nsmallest(MOST, [*self.doubtful, *answers], key=_doubt)

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


def _doubt(answer: ImageAnswer) -> tuple[bool, float, str]:
    """A key that sorts the unknown first, then the least probable."""
    return not answer.unknown, answer.best[0][1], answer.name


def small(example: Example | None) -> bytes | None:
    """A thumbnail; none for what is gone since it was read."""
    if example is None:
        return None
    try:
        return thumbnail(decode(example.image, Geometry(2 * SIDE, "crop")))
    except ImageError:
        return None
