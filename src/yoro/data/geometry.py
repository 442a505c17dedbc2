"""How an image becomes a square, and which part of it is looked at."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Literal

import numpy as np
from PIL import Image

from yoro import limits
from yoro.errors import InputError

FILTERS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}


@dataclass(frozen=True)
class Geometry:
    """How an image becomes a square: part of a saved model, since other pixels are another model.

    side : of the square, in pixels.
    fit : "squash" resizes to (side, side), as torchvision's Resize((side, side)); "crop" resizes the shorter side to
        `side` and keeps the centre, as Resize(side) and CenterCrop(side).
    interpolation : "bilinear" or "bicubic", both antialiased.
    reduced : decode large JPEGs at reduced scale, see decoding.MARGIN; False decodes every pixel.

    >>> Geometry(224).config()
    {'side': 224, 'fit': 'squash', 'interpolation': 'bilinear', 'reduced': True}
    """

    side: int
    fit: Literal["squash", "crop"] = "squash"
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    reduced: bool = True

    def __post_init__(self) -> None:
        if isinstance(self.side, bool) or not isinstance(self.side, int) or not 1 <= self.side <= limits.CANVAS_SIDE:
            raise InputError(f"side is {self.side!r}, expected an integer from 1 to {limits.CANVAS_SIDE}.")
        if self.fit not in ("squash", "crop"):
            raise InputError(f"fit is {self.fit!r}, expected 'squash' or 'crop'.")
        if self.interpolation not in FILTERS:
            raise InputError(f"interpolation is {self.interpolation!r}, expected 'bilinear' or 'bicubic'.")
        if not isinstance(self.reduced, bool):
            raise InputError(f"reduced is {self.reduced!r}, expected true or false.")

    def config(self) -> dict[str, int | str | bool]:
        """The geometry as plain values; `from_config` gives it back."""
        return asdict(self)

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Geometry:
        """The geometry that `config` describes; every key must be there and no other."""
        expected = {field.name for field in fields(cls)}
        if not isinstance(config, Mapping) or set(config) != expected:
            raise InputError(f"A geometry has the keys {sorted(expected)}, but {config!r} came.")
        return cls(**config)  # type: ignore[arg-type]


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
