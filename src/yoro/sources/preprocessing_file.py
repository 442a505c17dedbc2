"""How the images of a hub's network are prepared: `preprocessor_config.json`, or timm's part of `config.json`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from yoro import limits
from yoro.errors import SourceError
from yoro.files.reading import read_json
from yoro.sources.protocol import Colour

FILE, TIMM_FILE = "preprocessor_config.json", "config.json"
BYTE = 255.0
CUBIC = (1, 3)  # Pillow's numbers of Lanczos and bicubic; whatever else it is, it becomes bilinear


@dataclass(frozen=True)
class Preprocessing:
    """What a network's images are: their side, how they become square, and `(x - mean) / std` of x in [0, 1]."""

    side: int
    mean: Colour
    std: Colour
    fit: str = "squash"
    interpolation: str = "bilinear"
    channels: str = "rgb"

    @property
    def options(self) -> dict[str, str]:
        """Side, mean, std and channels as the options of a source name."""
        mean, std = (",".join(map(repr, colour)) for colour in (self.mean, self.std))
        return {"side": str(self.side), "mean": mean, "std": std, "channels": self.channels}


def read_preprocessing(file: Path) -> Preprocessing | None:
    """What one of the two files says; None for a `config.json` that says nothing of images. Odd values are an error.

    Where it crops a part of the resized image, the whole shorter side is used here.
    """
    try:
        said = read_json(file, limits.HUB_SMALL_FILE_BYTES)
        if not isinstance(said, Mapping):
            raise ValueError("it is no table")
        if file.name == FILE:
            return _of_transformers(said)
        of_timm = said.get("pretrained_cfg")
        return _of_timm(of_timm) if isinstance(of_timm, Mapping) else None
    except ValueError as error:
        raise SourceError(
            f"{str(file)!r} does not say how images are prepared: {error}. Give it with the name, as in "
            "hf:OWNER/NAME?mean=0.5,0.5,0.5&std=0.5,0.5,0.5&side=224, or by --mean, --std and --side."
        ) from None


def _of_transformers(said: Mapping[str, object]) -> Preprocessing:
    size, crop = said.get("size"), bool(said.get("do_center_crop"))
    shortest = isinstance(size, Mapping) and "shortest_edge" in size
    side = _side(said.get("crop_size") if crop and said.get("crop_size") else size)
    # Rescaled pixels r = factor * byte are normalised as (r - mean) / std; in terms of x = byte / 255 both scale alike.
    factor = _number(said.get("rescale_factor", 1 / BYTE), "rescale_factor") if said.get("do_rescale", True) else 1.0
    normalised, scale = bool(said.get("do_normalize", "image_mean" in said)), factor * BYTE
    mean = _colour(said.get("image_mean"), "image_mean") if normalised else (0.0, 0.0, 0.0)
    std = _colour(said.get("image_std"), "image_std") if normalised else (1.0, 1.0, 1.0)
    flipped = bool(said.get("do_flip_channel_order"))
    if flipped and len({*mean}) + len({*std}) > 2:
        raise ValueError("it flips the order of colours that are normalised each by its own numbers")
    return Preprocessing(
        side,
        _colour([value / scale if scale > 0 else math.nan for value in mean], "image_mean"),
        _colour([value / scale if scale > 0 else math.nan for value in std], "image_std", positive=True),
        "crop" if crop or shortest or "crop_pct" in said else "squash",
        "bicubic" if said.get("resample") in CUBIC else "bilinear",
        "bgr" if flipped else "rgb",
    )


def _of_timm(said: Mapping[str, object]) -> Preprocessing:
    size = said.get("input_size")
    if not isinstance(size, list) or len(size) != 3:
        raise ValueError(f"its input_size is {size!r:.40}")
    crop = said.get("crop_mode", "center") != "squash"
    cubic = said.get("interpolation") in ("bicubic", "lanczos")
    side = _side({"height": size[1], "width": size[2]})
    mean, std = _colour(said.get("mean"), "mean"), _colour(said.get("std"), "std", positive=True)
    return Preprocessing(side, mean, std, "crop" if crop else "squash", "bicubic" if cubic else "bilinear")


def _side(size: object) -> int:
    """The side of a square, from a number or a table of height and width or of the shortest edge."""
    keys = ("height", "width", "shortest_edge")
    sides = [size[key] for key in keys if key in size] if isinstance(size, Mapping) else [size]
    found = sides[0] if sides and sides.count(sides[0]) == len(sides) else None
    if isinstance(found, bool) or not isinstance(found, int) or not 1 <= found <= limits.CANVAS_SIDE:
        raise ValueError(f"its size is {size!r:.60}, not that of a square")
    return found


def _colour(values: object, key: str, *, positive: bool = False) -> Colour:
    if not isinstance(values, list) or len(values) != 3:
        raise ValueError(f"its {key} is {values!r:.40}, not three numbers")
    red, green, blue = (_number(value, key) for value in values)
    if positive and not min(red, green, blue) > 0:
        raise ValueError(f"its {key} is {values!r:.40}, not three positive numbers")
    return red, green, blue


def _number(value: object, key: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"its {key} has {value!r:.40} for a number")
    return float(value)
