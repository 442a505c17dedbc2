"""Folders of real photographs for the tests: crops of pictures that ship with scikit-image."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image
from skimage import data

PHOTOS = {"astronaut": data.astronaut, "cat": data.chelsea, "coffee": data.coffee, "rocket": data.rocket}


@cache
def photograph(name: str) -> np.ndarray:
    """One photograph, decoded once."""
    return PHOTOS[name]()


def crops(name: str, count: int, side: int = 120, seed: int = 0) -> list[np.ndarray]:
    """Square crops of one photograph, uint8 (side, side, 3)."""
    photo = photograph(name)
    rng = np.random.default_rng([seed, len(name)])
    tops = rng.integers(0, photo.shape[0] - side, count)
    lefts = rng.integers(0, photo.shape[1] - side, count)
    return [photo[t : t + side, left : left + side] for t, left in zip(tops, lefts, strict=True)]


def write_folder(folder: Path, count: int = 8, seed: int = 0, names: tuple[str, ...] = tuple(PHOTOS)) -> Path:
    """`folder/class/number.jpg`, `count` crops of each photograph."""
    for name in names:
        (folder / name).mkdir(parents=True)
        for i, crop in enumerate(crops(name, count, seed=seed)):
            Image.fromarray(crop).save(folder / name / f"{i:03d}.jpg", quality=92)
    return folder
