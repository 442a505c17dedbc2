"""SVHN's cropped digits: train_32x32.mat and test_32x32.mat."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro.bench.datasets.contract import Copy, view_examples
from yoro.data.examples import Dataset, shown
from yoro.errors import DatasetError

FILES = {"train": "train_32x32.mat", "test": "test_32x32.mat"}
DIGITS = tuple("0123456789")
MOST_BYTES = 1 << 30  # of a file
MOST_IMAGES = 1_000_000  # also bounds what a compressed file may become: 3 GB


def read_svhn(folder: Path) -> Copy | None:
    """Both files of a folder, or None if it holds neither."""
    present = [name for name in FILES.values() if (folder / name).is_file()]
    if not present:
        return None
    for name in FILES.values():
        if name not in present:
            raise DatasetError(
                f"SVHN in '{shown(folder)}' lacks {name!r}; put it beside {present[0]!r}.",
                state="partial",
                looked=[shown(folder / name)],
            )
    examples = []
    for split, name in FILES.items():
        pixels, labels = _read(folder / name)
        examples += view_examples(pixels, (labels % 10).tolist(), DIGITS, split)  # label 10 is the digit 0
    return Copy(Dataset(tuple(examples)), shown(folder))


def _read(path: Path) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Images (n, 32, 32, 3), a view, and labels from 1 to 10."""
    from scipy.io import loadmat, whosmat

    if path.stat().st_size > MOST_BYTES:
        raise _broken(path, f"it has {path.stat().st_size:,} bytes; at most {MOST_BYTES:,} are read")
    try:
        shapes = {name: (shape, kind) for name, shape, kind in whosmat(path)}
        shape, kind = shapes.get("X", ((), ""))
        if len(shape) != 4 or shape[:3] != (32, 32, 3) or shape[3] > MOST_IMAGES or kind != "uint8":
            raise _broken(path, f"'X' is {kind or 'nothing'} {shape}; expected uint8 (32, 32, 3, n)")
        if np.prod(shapes.get("y", ((0,), ""))[0]) != shape[3]:
            raise _broken(path, f"there are not {shape[3]:,} labels 'y'")
        content = loadmat(path, variable_names=["X", "y"])
        pixels, labels = content["X"], np.asarray(content["y"]).ravel().astype(np.int64)
    except DatasetError:
        raise
    except Exception as error:  # a hostile file can raise anything inside the reader
        raise _broken(path, f"{type(error).__name__}: {error}") from error
    if pixels.shape != shape or labels.shape != shape[3:] or labels.min() < 1 or labels.max() > 10:
        raise _broken(path, "its images and labels do not fit together; labels are 1 to 10")
    return np.transpose(pixels, (3, 0, 1, 2)), labels


def _broken(path: Path, reason: str) -> DatasetError:
    return DatasetError(
        f"'{shown(path)}' is no file of SVHN's cropped digits: {reason}. Get it again.", looked=[shown(path)]
    )
