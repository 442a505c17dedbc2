"""How an image becomes a square: plain values that travel with a saved model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Literal

from PIL import Image

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
        if isinstance(self.side, bool) or not isinstance(self.side, int) or not 1 <= self.side <= 4096:
            raise InputError(f"side is {self.side!r}, expected an integer from 1 to 4096.")
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
