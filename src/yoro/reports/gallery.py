"""The page of predictions: every image with its predicted class, the least certain first."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from yoro.data.examples import Example
from yoro.data.python_data import Label
from yoro.data.thumbnails import thumbnail_of
from yoro.model.answers import ImageAnswer
from yoro.reports.page import render

MOST = 300  # pictures on a page


@dataclass
class Gallery:
    """Counts answers as they come, and keeps the least certain."""

    threshold: float = 0.0
    total: int = 0
    unsure: int = 0
    unknown: int = 0
    counts: Counter[Label] = field(default_factory=Counter)
    sums: dict[Label, float] = field(default_factory=lambda: defaultdict(float))  # of probabilities
    doubtful: list[ImageAnswer] = field(default_factory=list)

    def add(self, answers: Sequence[ImageAnswer]) -> None:
        for answer in answers:
            label, probability = answer.best[0]
            self.counts[label] += 1
            self.sums[label] += probability
            self.unsure += answer.unsure
            self.unknown += answer.unknown
        self.total += len(answers)
        self.doubtful = heapq.nsmallest(MOST, [*self.doubtful, *answers], key=_doubt)

    def page(self, pictures: Mapping[str, Example], title: str, source: str) -> str:
        """The page as HTML, self-contained and without scripts."""
        rows = [(name, count, self.sums[name] / count) for name, count in self.counts.most_common()]
        shown = [(answer, made) for answer in self.doubtful if (made := thumbnail_of(pictures.get(answer.name)))]
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
    """A sort key: unknown images first, then the least probable."""
    return not answer.unknown, answer.best[0][1], answer.name
