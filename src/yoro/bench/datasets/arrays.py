"""Many small images in one array: examples that are views of it, never copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.errors import InputError


def view_examples(
    pixels: NDArray[np.uint8], labels: Sequence[int], names: Sequence[str], split: str, *, first: int = 0
) -> list[Example]:
    """Examples "split/00017" of images (n, height, width[, 3]), numbered from `first`.

    `labels` are positions in the class `names`.
    """
    if len(pixels) != len(labels):
        raise InputError(f"{len(pixels):,} images of the split {split!r} came with {len(labels):,} labels.")
    wrong = next((label for label in labels if not 0 <= label < len(names)), None)
    if wrong is not None:
        raise InputError(f"A label of the split {split!r} is {wrong}; expected 0 to {len(names) - 1}.")
    return [
        Example(image, names[label], f"{split}/{number:05d}", split=split)
        for number, (image, label) in enumerate(zip(pixels, labels, strict=True), first)
    ]
