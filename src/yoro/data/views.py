"""Weak augmentation: which part of an image is looked at, and whether mirrored."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

TRIES = 10  # boxes drawn until one lies within the image; then the whole is taken


@dataclass(frozen=True)
class View:
    """A part of the square that the geometry makes of an image, in fractions of it, and whether it is mirrored."""

    left: float = 0.0
    top: float = 0.0
    width: float = 1.0
    height: float = 1.0
    mirrored: bool = False


@dataclass(frozen=True)
class Augmentation:
    """Random resized crops: share of the area, proportions, and mirroring half of the time if `flip`.

    Proportions are those within the square, so that scale 1 and ratio 1 give the image as a fit sees it.
    """

    scale: tuple[float, float] = (0.7, 1.0)
    ratio: tuple[float, float] = (0.9, 1.1)
    flip: bool = True

    def draw(self, seed: int, epoch: int, image: int) -> View:
        """The view of one image in one epoch; it depends on these three numbers and on nothing else."""
        rng = np.random.default_rng([seed, epoch, image])
        mirrored = bool(rng.random() < 0.5) and self.flip
        low, high = math.log(self.ratio[0]), math.log(self.ratio[1])
        for _ in range(TRIES):
            area, ratio = rng.uniform(*self.scale), math.exp(rng.uniform(low, high))
            width, height = math.sqrt(area * ratio), math.sqrt(area / ratio)
            if width <= 1.0 and height <= 1.0:
                left, top = rng.uniform(0.0, 1.0 - width), rng.uniform(0.0, 1.0 - height)
                return View(left, top, width, height, mirrored)
        return View(mirrored=mirrored)


WEAK = Augmentation()  # the paper's
