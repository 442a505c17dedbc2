"""The pages of explanations, of classes and of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yoro.data.thumbnails import thumbnail_of
from yoro.model.open_model import OpenModel
from yoro.reports.page import render
from yoro.trust.explanations import ClassReasons, Explanation, ExplanationStream, Reason, strongest
from yoro.trust.occlusion import passes

MOST = 100  # images, or classes, on a page
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
    shown = [(one, bars([*one.speaking_for(top), *reversed(one.speaking_against(top))], 1.0)) for one in reasons[:MOST]]
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
        if len(self.found) < MOST:
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
