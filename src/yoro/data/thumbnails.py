"""Thumbnails: small JPEGs of images, for pages and notebooks."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.data.processes import decode_fenced
from yoro.errors import ImageError, InputError

SIDE = 112  # pixels of a thumbnail
CROPPED, SQUASHED = Geometry(2 * SIDE, "crop"), Geometry(2 * SIDE, "squash")


def thumbnail(image: NDArray[np.uint8], side: int = SIDE) -> bytes:
    """A JPEG of an image (height, width, 3) whose longer side is at most `side`; small images stay as they are."""
    pixels = np.asarray(image)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8 or not pixels.size:
        raise InputError(f"An image of shape {pixels.shape}, {pixels.dtype} was given; expected (h, w, 3), uint8.")
    picture = Image.fromarray(pixels)
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=85, optimize=True)
    return stream.getvalue()


def thumbnail_of(example: Example | None, geometry: Geometry = CROPPED, side: int = SIDE) -> bytes | None:
    """A thumbnail of an example; None if there is none, or if its file is gone since it was read."""
    if example is None:
        return None
    try:
        return thumbnail(decode_fenced(example.image, geometry, example.name), side)
    except ImageError:
        return None


def thumbnails_by_path(pictures: Mapping[str, Example]) -> Callable[[Mapping[str, object]], bytes | None] | None:
    """Gives the thumbnail of a row by its path; None without pictures."""
    return (lambda row: thumbnail_of(pictures.get(str(row["path"])))) if pictures else None
