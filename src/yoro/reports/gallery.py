"""Pages of images: predictions, the least certain first; label issues, every image to review; explanations, and why."""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.data.python_data import Label
from yoro.data.thumbnails import thumbnail_of
from yoro.model.answers import ImageAnswer
from yoro.model.open_model import OpenModel
from yoro.reports.page import render
from yoro.trust.explanations import ClassReasons, Explanation, ExplanationStream, Reason, strongest
from yoro.trust.label_issues import KINDS, Issues
from yoro.trust.occlusion import passes

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


MOST_EXPLAINED = 100  # images, or classes, on a page
SIDE = 224  # pixels of a picture under a map
STRONGEST = 0.7  # of the colour of a cell that matters most: the picture shows through


class Bar(NamedTuple):
    """A number with its name, and its length from -1 to 1 beside the others."""

    name: str
    value: float
    length: float


class Cell(NamedTuple):
    """A part of a picture, in cells from the left and from the head: how strong its colour is, and for which side."""

    x: int
    y: int
    strength: float
    supports: bool


def classes_html(reasons: Sequence[ClassReasons], source: str, top: int) -> str:
    """The page about classes as HTML, self-contained and without scripts."""
    shown = [
        (one, bars([*one.speaking_for(top), *reversed(one.speaking_against(top))], 1.0))
        for one in reasons[:MOST_EXPLAINED]
    ]
    return render(
        "class_reasons.html", title="What defines each class", source=source, total=len(reasons), reasons=shown
    )


@dataclass
class ImagesPage:
    """Counts explanations as they come; the page shows the first ones."""

    classifier: OpenModel
    stream: ExplanationStream
    top: int
    total: int = 0
    found: list[Explanation] = field(default_factory=list)

    def add(self, one: Explanation) -> None:
        self.total += 1
        if len(self.found) < MOST_EXPLAINED:
            self.found.append(one)

    def html(self) -> str:
        """The page as HTML, self-contained and without scripts."""
        maps = [one.occlusion for one in self.found if one.occlusion is not None]
        grid = len(maps[0]) if maps else 0
        return render(
            "explanations.html",
            title="Why these predictions",
            source=self.classifier.model.origin.name,
            total=self.total,
            grid=grid,
            cost=passes(grid, self.classifier.model.statistics.layout.views),
            images=[_shown(one, self.stream, self.classifier, self.top) for one in self.found],
        )


def _shown(one: Explanation, stream: ExplanationStream, classifier: OpenModel, top: int) -> dict[str, object]:
    kept = [reason for reason in one.sums if reason[0] not in ("prior", "offset") or abs(reason[1]) > 1e-9]
    mine, theirs = strongest(one.parts, top)
    picture = stream.pictures.get(one.name)
    largest = max((abs(value) for _, value in (*mine, *theirs)), default=1.0)
    return {
        "one": one,
        "picture": None if picture is None else thumbnail_of(picture, classifier.pipeline.geometry, SIDE),
        "cells": [] if one.occlusion is None else cells(one.occlusion),
        "sums": bars(kept, max(abs(value) for _, value in kept)),
        "named": any(part.named and part.contributions.any() for part in one.parts),
        "mine": bars(mine, largest),
        "theirs": bars(theirs, largest),
        "nearest": [(n, thumbnail_of(stream.fitted.pictures.get(bytes.fromhex(n.digest)))) for n in one.nearest],
    }


def bars(reasons: Sequence[Reason], largest: float) -> list[Bar]:
    """Numbers beside each other; one as large as `largest` has the length 1."""
    return [Bar(name, value, value / (largest or 1.0)) for name, value in reasons]


def cells(occlusion: NDArray[np.float64]) -> list[Cell]:
    """The parts of a map: those that speak for the answer, and those that speak against it."""
    largest = float(np.abs(occlusion).max()) or 1.0
    return [
        Cell(x, y, STRONGEST * abs(value) / largest, value > 0)
        for y, row in enumerate(occlusion.tolist())
        for x, value in enumerate(row)
    ]
