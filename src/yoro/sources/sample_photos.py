"""Real photographs to try a network on, from a package that is always here."""

from __future__ import annotations

import io
from importlib import resources

import numpy as np
import numpy.typing as npt
from PIL import Image


def real_photos(side: int) -> npt.NDArray[np.uint8]:
    """Six crops (6, side, side, 3) of the two photographs that scikit-learn carries."""
    crops = []
    folder = resources.files("sklearn.datasets.images")
    for file in ("china.jpg", "flower.jpg"):
        photo = Image.open(io.BytesIO(folder.joinpath(file).read_bytes())).convert("RGB")  # 640 x 427
        for left in (0, 106, 213):
            crop = photo.crop((left, 0, left + 427, 427)).resize((side, side), Image.Resampling.BILINEAR)
            crops.append(np.asarray(crop))
    return np.stack(crops)
