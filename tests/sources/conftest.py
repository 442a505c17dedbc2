from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

Photos = Callable[[int], npt.NDArray[np.uint8]]


@pytest.fixture(autouse=True)
def no_network(socket_disabled: None) -> None:
    """Every test of the sources runs with sockets blocked."""


@pytest.fixture
def photos(no_network: None) -> Photos:
    """Photographs that ship inside scikit-image's wheel, squashed to a side: cat, coffee, astronaut."""
    from skimage import data

    def at(side: int) -> npt.NDArray[np.uint8]:
        pictures = [Image.fromarray(picture) for picture in (data.cat(), data.coffee(), data.astronaut())]
        return np.stack([np.asarray(p.resize((side, side), Image.Resampling.BILINEAR)) for p in pictures])

    return at
