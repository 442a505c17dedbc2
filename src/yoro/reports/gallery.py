"""Pages of images: predictions, the least certain first; and label issues, every image to review, and why."""

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
from yoro.trust.label_issues import KINDS, Issues

MOST = 300  # pictures on a page
MOST_ISSUES = 100  # pictures of one kind on a page of issues
TOLD = {  # title and description of each kind of issue
    "label": ("Probably wrong labels", "As many as are expected to be wrong, the least likely label first."),
    "hard photo": ("Hard photos", "Another class is more probable, but most of these labels are right."),
    "outlier": ("Outliers", "Far from every class (out-of-distribution); the farthest first."),
    "duplicate": ("Duplicates", "The same image again."),
    "near duplicate": ("Near duplicates", "Nearly the same response; the most similar first."),
}


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


def issues_html(issues: Issues, source: str) -> str:
    """The page of label issues, to be written as UTF-8; it asks for no other file and runs no script."""
    pictures = issues.left_out.pictures
    parts = []
    for kind in KINDS:
        found = issues.of(kind)
        shown = [
            (issue, thumbnail_of(pictures.get(issue.name)), thumbnail_of(pictures.get(issue.like)))
            for issue in found[:MOST_ISSUES]
        ]
        parts.append((*TOLD[kind], len(found), shown))
    total, notes = len(issues.names), issues.left_out.notes
    return render("issues.html", title="Label issues", source=source, total=total, notes=notes, parts=parts)
