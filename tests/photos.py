"""Folders of real photographs for the tests: crops of pictures that ship with scikit-image."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw
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


LEAVES = {  # lobes, their depth, and the width of the leaf for its length
    "birch": (0, 0.0, 0.6),
    "ginkgo": (2, 0.3, 1.2),
    "maple": (5, 0.5, 1.0),
    "oak": (9, 0.2, 0.55),
    "willow": (0, 0.0, 0.15),
}


def leaf(name: str, seed: int, side: int = 200) -> Image.Image:
    """A drawn leaf on paper, turned and lit by chance."""
    lobes, depth, width = LEAVES[name]
    rng = np.random.default_rng([seed, len(name), lobes])
    angles = np.linspace(0, 2 * np.pi, 240)
    reach = side * rng.uniform(0.36, 0.44) * (1 - depth * np.sin(lobes * angles / 2) ** 2)
    points = np.stack([width * reach * np.sin(angles), reach * np.cos(angles)], axis=1)
    turn = rng.uniform(-0.5, 0.5)
    points = points @ np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]]) + side / 2
    paper = np.clip(rng.normal(rng.uniform(190, 240), 6, (side, side, 3)), 0, 255).astype(np.uint8)
    image = Image.fromarray(paper)
    green = (int(rng.integers(30, 90)), int(rng.integers(100, 160)), int(rng.integers(20, 70)))
    ImageDraw.Draw(image).polygon([tuple(point) for point in points.tolist()], fill=green, outline=(20, 60, 20))
    return image


def write_leaves(folder: Path, count: int) -> Path:
    """`folder/kind/number.jpg`, drawn leaves of five kinds."""
    for name in LEAVES:
        (folder / name).mkdir(parents=True)
        for i in range(count):
            leaf(name, i).save(folder / name / f"{i:03d}.jpg", quality=92)
    return folder
