"""Test-time augmentation: one view and two (with the mirror image) in one pass; leave-one-out chooses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.calibration import doubtful_loss
from yoro.discriminant.readings import Layout, Reading
from yoro.model.gathered import Gathered
from yoro.model.model import Model, Origin
from yoro.model.pipeline import Pipeline
from yoro.model.settings import SolveSettings
from yoro.model.solve import solve


class BothViews(Pipeline):
    """A pipeline whose responses are those of one view, and then those of two averaged."""

    two: Layout  # of two views averaged

    def __init__(self, pipeline: Pipeline) -> None:
        two = pipeline.layout
        several = [(f"{reading.name}{mark}", reading.width) for mark in ("", ", mirrored") for reading in two.readings]
        both = Layout(tuple(Reading(name, width) for name, width in several), views=2)
        super().__init__(pipeline.source, pipeline.prompt, pipeline.geometry, both)
        object.__setattr__(self, "two", two)

    def respond(self, images: NDArray[np.uint8]) -> NDArray[np.floating]:
        plain, mirrored = self.asked(images, 2)
        one = replace(self.two, views=1)
        return np.concatenate([one.transformed([plain]), self.two.transformed([plain, mirrored])], axis=1)


def parted(gathered: Gathered, layout: Layout) -> dict[int, Gathered]:
    """What was gathered of both, by the number of views."""
    result, n = {}, len(layout.readings)
    for views, first in ((1, 0), (2, n)):
        mine = replace(layout, views=views)
        statistics = gathered.statistics.take(range(first, first + n), mine)
        columns = slice(0 if views == 1 else layout.width, layout.width * views)
        reservoir = gathered.reservoir and gathered.reservoir.take(columns)
        result[views] = replace(gathered, statistics=statistics, reservoir=reservoir)
    return result


def preferred_views(layout: Layout, gathered: Gathered, solving: SolveSettings) -> tuple[int, Gathered]:
    """How many views leave-one-out prefers, and what was gathered with them; `layout` is that of the pipeline."""
    both = parted(gathered, layout)
    if solving.shrinkage == "validation":
        solving = replace(solving, shrinkage="loo")
    losses = {views: left_out_loss(solve(part, solving, Origin())) for views, part in both.items()}
    views = 1 if losses[1] <= losses[2] < np.inf else 2
    return views, both[views]


def left_out_loss(model: Model) -> float:
    """Negative log-likelihood of the kept responses, each without itself; infinite where none can be left out."""
    found = model.left_out()
    if found is None:
        return np.inf
    scored, _ = found
    return doubtful_loss(scored.scores, scored.truth, scored.weights, model.choice.temperature)
