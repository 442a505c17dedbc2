"""Where a prompt lies on the canvas."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from yoro.errors import InputError

LARGEST_SIDE = 4096  # a canvas beyond this would exhaust the memory
FRAME = 16  # pixels on each side of the image, at any canvas
LEGACY_IMAGE = 128  # the image side of the older padding experiments, in a canvas of 224


def image_square(side: int, image_side: int) -> tuple[slice, slice]:
    """Rows and columns of the image in the middle of the canvas; an odd pixel goes to the top and left."""
    start = (side - image_side + 1) // 2
    return slice(start, start + image_side), slice(start, start + image_side)


def frame_mask(side: int, image_side: int) -> npt.NDArray[np.bool_]:
    """(side, side, 1): true around the image."""
    mask = np.ones((side, side, 1), np.bool_)
    mask[image_square(side, image_side)] = False
    return mask


def border_mask(side: int, pad: int | None) -> npt.NDArray[np.bool_]:
    """(side, side, 1): true on the outer `pad` pixels, everywhere for None."""
    mask = np.ones((side, side, 1), np.bool_)
    if pad is not None and 2 * pad < side:
        mask[pad : side - pad, pad : side - pad] = False
    return mask


def check_whole(value: object, low: int, high: int, what: str) -> int:
    """A whole number from low to high; a boolean is none."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or not low <= value <= high:
        raise InputError(f"{what} must be a whole number from {low} to {high}; {value!r} came.")
    return int(value)
