"""Occlusion maps: parts of an image are covered one by one, to see how the prediction changes.

This needs forward passes only, no gradients and no layers, so it works with any backbone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from yoro.errors import InputError
from yoro.mappings.batches import Array
from yoro.model.pipeline import Pipeline

Score = Callable[[NDArray[np.floating]], Array]  # responses (n, width) to numbers (n,)

FINEST = 32  # cells to a side, so that a map costs at most about a thousand passes
BATCH_SIZE = 64  # covered images in one forward pass


def passes(grid: int, views: int = 1) -> int:
    """Forward passes for the map of one image, that of the whole image included."""
    return (grid * grid + 1) * views


def check_grid(grid: int) -> int:
    """The number of cells per side, if it is in range."""
    if not 2 <= grid <= FINEST:
        raise InputError(f"An occlusion map cannot have {grid} by {grid} cells; use 2 to {FINEST} per side, such as 8.")
    return grid


def occlusion_map(pipeline: Pipeline, image: NDArray[np.uint8], score: Score, grid: int, whole: float) -> Array:
    """By how much the score falls when a cell is covered, (grid, grid); `whole` is the score of the whole image.

    `image` is a square (side, side, 3) as the pipeline decodes it; a cell is covered with the image's mean colour.
    """
    found = [score(pipeline.respond(batch)) for batch in _covered(image, check_grid(grid))]
    return whole - np.concatenate(found).reshape(grid, grid)


def _covered(image: NDArray[np.uint8], grid: int) -> Iterator[NDArray[np.uint8]]:
    """The image with one cell covered, row by row, some at a time."""
    edges = np.linspace(0, len(image), grid + 1).round().astype(int)
    colour = image.reshape(-1, 3).mean(axis=0).round().astype(np.uint8)
    cells = [(i, j) for i in range(grid) for j in range(grid)]
    for start in range(0, len(cells), BATCH_SIZE):
        some = cells[start : start + BATCH_SIZE]
        images = np.repeat(image[None], len(some), axis=0)
        for one, (i, j) in zip(images, some, strict=True):
            one[edges[i] : edges[i + 1], edges[j] : edges[j + 1]] = colour
        yield images
