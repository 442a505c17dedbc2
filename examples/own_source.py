"""A backbone in one file: any function from images to numbers, here the mean brightness of 12 x 12 tiles."""

import numpy as np


def tiles(images: np.ndarray) -> np.ndarray:
    """Responses (n, 144) of images (n, 48, 48, 3) in [0, 255] or, behind a prompt, in [0, 1]."""
    scale = 255.0 if images.dtype == np.uint8 else 1.0
    grey = images.astype(np.float32).mean(axis=3) / scale
    return grey.reshape(len(grey), 12, 4, 12, 4).mean(axis=(2, 4)).reshape(len(grey), -1)


tiles.side = 48
