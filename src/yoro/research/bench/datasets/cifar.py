"""CIFAR-10 and CIFAR-100 in their original files, Python batches or binary ones.

The Python batches are pickles. Nothing in them is imported or called: only numpy's way of storing an array is accepted.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Dataset, class_name, shown
from yoro.files.reading import read_bounded
from yoro.files.unpickle import PickleRefused, StandIn, read_plain_pickle
from yoro.research.bench.datasets.dataset import Found, broken, lacking, view_examples

BINARY = ".bin"  # ending of the binary version
PIXELS = 3 * 32 * 32  # bytes of an image: all red, then green, then blue
MOST_BYTES = 1 << 28  # of one file; the largest, of CIFAR-100, has 155 million
MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")  # old and new numpy
ALLOWED = frozenset({*(f"{module} _reconstruct" for module in MODULES), "numpy ndarray", "numpy dtype"})

_broken = partial(broken, "a CIFAR batch")

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


@dataclass(frozen=True)
class Packing:
    """How one of the two datasets names its files and keys."""

    files: Mapping[str, tuple[str, ...]]  # of each split
    labels: str  # key of the labels in a Python batch
    meta: str  # Python file of the class names
    names: str  # key of the class names in it
    listing: str  # text file of the class names beside the binary version
    label_bytes: int  # before the pixels of a binary record; the last of them is the label


PACKING_10 = Packing(
    {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)},
    "labels", "batches.meta", "label_names", "batches.meta.txt", 1,
)  # fmt: skip
PACKING_100 = Packing(
    {"train": ("train",), "test": ("test",)},
    "fine_labels", "meta", "fine_label_names", "fine_label_names.txt", 2,
)  # fmt: skip


def read_cifar(folder: Path, packing: Packing) -> Found | None:
    """The batches of a folder, or None if it has none of their files; an incomplete set is an error."""
    files = [file for names in packing.files.values() for file in names]
    suffix = next((end for end in ("", BINARY) if any((folder / (f + end)).is_file() for f in files)), None)
    if suffix is None:
        return None
    needed = [*(file + suffix for file in files), packing.meta if not suffix else packing.listing]
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        count = f"{len(missing)} of {len(needed)} files"
        raise lacking(f"{missing[0]!r} is missing in '{shown(folder)}' ({count}); unpack the archive again.", folder)
    classes = _listed_classes(folder / packing.listing) if suffix else _pickled_classes(folder / packing.meta, packing)
    parts = (  # views of each file's own bytes: joining them would copy
        (split, *read_part(folder / (name + suffix), packing))
        for split in packing.files
        for name in packing.files[split]
    )
    return Found(Dataset(view_examples(parts, classes)), shown(folder))


def read_part(path: Path, packing: Packing) -> tuple[NDArray[np.uint8], list[int]]:
    """Images (n, 32, 32, 3), a view, and their labels."""
    content = _bytes(path)
    if path.suffix == BINARY:
        size = packing.label_bytes + PIXELS
        if not content or len(content) % size:
            raise _broken(path, f"its {len(content):,} bytes are not a multiple of {size:,}")
        records = np.frombuffer(content, np.uint8).reshape(-1, size)
        return _images(records[:, packing.label_bytes :]), records[:, packing.label_bytes - 1].tolist()
    batch = _unpickled(path, content)
    labels = batch.get(packing.labels)
    if not isinstance(labels, list) or not all(type(label) is int for label in labels):
        raise _broken(path, f"it has no list {packing.labels!r}")
    return _images(_array(batch.get("data"), path)), labels


def _images(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


def _bytes(path: Path) -> bytes:
    try:
        return read_bounded(path, MOST_BYTES)
    except ValueError as error:
        raise _broken(path, str(error)) from None


def _unpickled(path: Path, content: bytes) -> dict[str, object]:
    try:
        value = read_plain_pickle(io.BytesIO(content), ALLOWED)
    except PickleRefused as refusal:
        raise _broken(path, str(refusal)) from None
    if not isinstance(value, dict):
        raise _broken(path, "it is not a dictionary")
    return value


def _array(value: object, path: Path) -> NDArray[np.uint8]:
    """The array (n, 3072) of bytes that numpy's call and state describe: (version, shape, type, Fortran, bytes)."""
    state = value.state if isinstance(value, StandIn) and value.name.endswith(" _reconstruct") else None
    if not isinstance(state, tuple) or len(state) != 5:
        raise _broken(path, "'data' is not an array")
    _, shape, kind, fortran, content = state
    plain = isinstance(kind, StandIn) and kind.name == "numpy dtype" and kind.arguments[:1] == ("u1",)
    if not plain or fortran not in (0, False) or not isinstance(content, str):
        raise _broken(path, "'data' is not an array of bytes in C order")
    try:
        data = content.encode("latin-1")
    except UnicodeEncodeError:
        raise _broken(path, "'data' holds text, not bytes") from None
    numbers = isinstance(shape, tuple) and [type(length) for length in shape] == [int, int]
    if not numbers or shape[1] != PIXELS or shape[0] * PIXELS != len(data):
        came = shape if numbers else "of something else"
        raise _broken(path, f"'data' has the shape {came} and {len(data):,} bytes; expected (n, {PIXELS})")
    return np.frombuffer(data, np.uint8).reshape(-1, PIXELS)


def _pickled_classes(path: Path, packing: Packing) -> list[str]:
    names = _unpickled(path, _bytes(path)).get(packing.names)
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise _broken(path, f"it has no list {packing.names!r}")
    return [class_name(str(name)) for name in names]


def _listed_classes(path: Path) -> list[str]:
    lines = _bytes(path).decode("utf-8", "replace").splitlines()
    return [class_name(line) for line in lines if line.strip()]
