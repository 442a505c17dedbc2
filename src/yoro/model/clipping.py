"""Responses clipped to a length, so that one image can change a sum by so much and no more."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.readings import Layout
from yoro.model.pipeline import Pipeline

INSIDE = 1 - 1e-12  # rounding must not lead beyond the length


@dataclass(frozen=True)
class Clip:
    """The point that lengths are measured from (none is zero), and the length that every reading has at most."""

    length: float
    shift: tuple[float, ...] = ()

    def __call__(self, responses: NDArray[np.floating], layout: Layout) -> NDArray[np.float64]:
        """Responses (n, width): each reading that is too far from the point is moved towards it."""
        about = np.array(self.shift) if self.shift else np.zeros(layout.width)
        moved = np.asarray(responses, dtype=np.float64) - about
        for part in layout.slices:
            far = np.sqrt(np.einsum("ij,ij->i", moved[:, part], moved[:, part]))
            moved[:, part] *= np.where(far > self.length, INSIDE * self.length / np.maximum(far, 1e-300), 1.0)[:, None]
        return moved + about


class ClippedPipeline(Pipeline):
    """A pipeline whose responses are clipped."""

    clip: Clip

    def __init__(self, pipeline: Pipeline, clip: Clip) -> None:
        super().__init__(pipeline.source, pipeline.prompt, pipeline.geometry, pipeline.layout)
        object.__setattr__(self, "clip", clip)

    def respond(self, images: NDArray[np.uint8]) -> NDArray[np.floating]:
        return self.clip(super().respond(images), self.layout)
