from __future__ import annotations

import importlib.util
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

Photos = Callable[[int], npt.NDArray[np.uint8]]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The one guard for the torch extra: `make test` installs it, so there these tests run."""
    if item.get_closest_marker("torch") is not None and importlib.util.find_spec("torch") is None:
        pytest.skip("the torch extra is not installed: pip install 'yoro-vr[torch]'")


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
