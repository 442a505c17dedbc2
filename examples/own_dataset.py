"""A dataset in one file: random shapes, the same ones every time."""

import numpy as np

from yoro.data.examples import Dataset, Example
from yoro.research.bench.datasets import BenchDataset, Found

SPLITS = {"train": 20, "val": 10, "test": 20}  # images of each shape
SHAPES = ("cross", "disc", "ring")


def draw(shape: str, seed: int) -> np.ndarray:
    """One image (48, 48, 3) of a shape in a random place, size and colour."""
    rng = np.random.default_rng([SHAPES.index(shape), seed])
    x, y = rng.uniform(16, 32, size=2)
    size = rng.uniform(8, 14)
    rows, columns = np.mgrid[:48, :48]
    distance = np.hypot(rows - y, columns - x)
    within = {
        "disc": distance < size,
        "ring": (distance < size) & (distance > 0.6 * size),
        "cross": (distance < size) & ((abs(rows - y) < 3) | (abs(columns - x) < 3)),
    }[shape]
    image = rng.integers(0, 90, size=(48, 48, 3))
    image[within] = rng.integers(120, 255, size=3)
    return image.astype(np.uint8)


def find(roots):
    """All images, each with class, name and split; `roots` are the folders of --data, not needed here."""
    numbered = [(split, shape, i) for split, count in SPLITS.items() for shape in SHAPES for i in range(count)]
    examples = [
        Example(draw(shape, 1000 * list(SPLITS).index(split) + i), shape, f"{split}/{shape}/{i}", split=split)
        for split, shape, i in numbered
    ]
    return Found(Dataset(tuple(examples)), "drawn by own_dataset.py")


DATASET = BenchDataset("shapes", "Shapes", classes=3, counts={"train": 60, "val": 30, "test": 60}, find=find)
