"""How an image becomes a square, and which part of it is looked at."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
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
    published : pixels as published transforms see them (torchvision on PIL images): every pixel is decoded, no EXIF
        rotation is applied, and Pillow's own conversion to RGB drops transparency.

    >>> Geometry(224).config()
    {'side': 224, 'fit': 'squash', 'interpolation': 'bilinear', 'reduced': True}
    """

    side: int
    fit: Literal["squash", "crop"] = "squash"
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    reduced: bool = True
    published: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.side, bool) or not isinstance(self.side, int) or not 1 <= self.side <= limits.CANVAS_SIDE:
            raise InputError(f"side is {self.side!r}, expected an integer from 1 to {limits.CANVAS_SIDE}.")
        if self.fit not in ("squash", "crop"):
            raise InputError(f"fit is {self.fit!r}, expected 'squash' or 'crop'.")
        if self.interpolation not in FILTERS:
            raise InputError(f"interpolation is {self.interpolation!r}, expected 'bilinear' or 'bicubic'.")
        for name, value in (("reduced", self.reduced), ("published", self.published)):
            if not isinstance(value, bool):
                raise InputError(f"{name} is {value!r}, expected true or false.")
        if self.published and self.reduced:
            raise InputError("reduced and published are both true; published pixels are decoded at full scale.")

    def config(self) -> dict[str, int | str | bool]:
        """The geometry as plain values, `published` only where it is true; `from_config` gives it back."""
        return {name: value for name, value in asdict(self).items() if name != "published" or value}

    @classmethod
    def from_config(cls, config: Mapping[str, object]) -> Geometry:
        """The geometry that `config` describes; every key but `published` must be there and no other."""
        expected = {field.name for field in fields(cls)}
        if not isinstance(config, Mapping) or {*config, "published"} != expected:
            raise InputError(f"A geometry has the keys {sorted(expected - {'published'})}; got {config!r}.")
        return cls(**config)  # type: ignore[arg-type]


Size = tuple[int, int]  # width and height in pixels
TRIES = 10  # boxes drawn until one lies within the image; then the largest central one of a permitted ratio is taken


@dataclass(frozen=True)
class View:
    """A part of an image in pixels, and whether it is mirrored.

    Pixels are those of the upright image, or of the image resized as a whole to `first` before the part is cut out.
    """

    left: int
    top: int
    width: int
    height: int
    mirrored: bool = False
    first: Size | None = None


Look = Callable[[Size, Geometry], View]  # the view of an image, given its size and how it becomes a square
Looks = Callable[[int], Look]  # how each image is looked at, by its index


@dataclass(frozen=True)
class Augmentation:
    """Random resized crops, as torchvision's: share of the area, proportions, and mirroring half of the time if `flip`.

    shorter_first : whether the shorter side is resized to that of the square before, as AttrVR, DVP and DGA are
        published; without, the crops are cut out of the image as it is.
    """

    scale: tuple[float, float] = (0.7, 1.0)
    ratio: tuple[float, float] = (0.9, 1.1)
    flip: bool = True
    shorter_first: bool = False

    def draw(self, numbers: Sequence[int], size: Size, geometry: Geometry) -> View:
        """A random view of an image; it depends on the numbers (the seed) and the size only."""
        rng = np.random.default_rng(list(numbers))
        mirrored = bool(rng.random() < 0.5) and self.flip
        first = shorter_to(geometry.side, size) if self.shorter_first else None
        return View(*self._box(rng, *(first or size)), mirrored, first)

    def _box(self, rng: np.random.Generator, width: int, height: int) -> tuple[int, int, int, int]:
        """Left, top, width and height of a part, in whole pixels."""
        least, most = self.ratio
        for _ in range(TRIES):
            area = width * height * rng.uniform(*self.scale)
            ratio = math.exp(rng.uniform(math.log(least), math.log(most)))
            across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < across <= width and 0 < down <= height:
                return int(rng.integers(width - across + 1)), int(rng.integers(height - down + 1)), across, down
        across = min(width, round(height * most))
        down = min(height, round(width / least))
        return (width - across) // 2, (height - down) // 2, across, down


@dataclass(frozen=True)
class Shifts:
    """A square of the image resized to one somewhat larger, shifted by whole pixels, as BLM's watermarks are published.

    margin : by how much larger, as a share of the side: 4 pixels of 224.
    """

    margin: float = 4 / 224
    flip: bool = True

    def draw(self, numbers: Sequence[int], size: Size, geometry: Geometry) -> View:
        """As that of `Augmentation`; the size of the image makes no difference."""
        rng = np.random.default_rng(list(numbers))
        mirrored = bool(rng.random() < 0.5) and self.flip
        margin = max(1, round(self.margin * geometry.side))
        left, top = (int(shift) for shift in rng.integers(margin + 1, size=2))
        return View(left, top, geometry.side, geometry.side, mirrored, (geometry.side + margin,) * 2)


Views = Augmentation | Shifts
WEAK = Augmentation()  # the paper's


def shorter_to(side: int, size: Size) -> Size:
    """The size of an image whose shorter side is resized to `side`, as torchvision's Resize(side)."""
    width, height = size
    return (side, int(side * height / width)) if width <= height else (int(side * width / height), side)
