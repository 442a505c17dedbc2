from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(scope="session")
def photos() -> Path:
    """Photographs that ship inside scikit-image's wheel."""
    skimage = pytest.importorskip("skimage")
    return Path(skimage.__file__).parent / "data"


@pytest.fixture
def flowers(tmp_path: Path) -> Path:
    """Two classes of three tiny images."""
    for label, value in (("rose", 200), ("tulip", 90)):
        for number in range(3):
            save(tmp_path / "flowers" / label / f"{number}.png", value + number)
    return tmp_path / "flowers"


def save(path: Path, value: int = 128, size: tuple[int, int] = (8, 6)) -> Path:
    """Write an image of one grey value."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((size[1], size[0], 3), value, dtype=np.uint8)).save(path)
    return path
