"""Torch's old weight files, read without torch and without running anything in them."""

from __future__ import annotations

import hashlib
import io
import struct
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypeGuard

import numpy as np
import numpy.typing as npt

from yoro.errors import SourceError
from yoro.files.unpickle import Call, Name, Persistent, PickleRefused, read_plain_pickle

Weights: TypeAlias = dict[str, npt.NDArray[np.generic]]

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C  # opens every file of the old format
PROTOCOL = 1001
MOST_BYTES = 1 << 30  # the largest embedded file has 25 million bytes
REBUILD = "torch._utils _rebuild_tensor_v2"
ELEMENTS: dict[str, np.dtype[np.generic]] = {
    "torch FloatStorage": np.dtype("<f4"),
    "torch LongStorage": np.dtype("<i8"),
}
ALLOWED = frozenset({"collections OrderedDict", REBUILD, *ELEMENTS})


@dataclass(frozen=True)
class _View:
    """A tensor as the file describes it: a strided window on a storage."""

    key: str
    element: np.dtype[np.generic]
    storage_size: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_torch_file(path: Path) -> tuple[Weights, str]:
    """The state dictionary in the file, as contiguous arrays, and the sha256 of the file."""
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise SourceError(f"{path} has {size} bytes; a weight file of at most {MOST_BYTES} was expected.")
        data = path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}. Install its package again.") from error
    return parse_torch_file(data, str(path)), hashlib.sha256(data).hexdigest()


def parse_torch_file(data: bytes, origin: str) -> Weights:
    """The state dictionary in the bytes of a file; `origin` names it in errors."""
    if data[:2] == b"PK":
        raise SourceError(f"{origin} is in torch's zip format; the embedded weights are in the older one.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd escapes in a damaged file are reported as what they are: damage
            return _parse(io.BytesIO(data), data)
    except PickleRefused as refusal:
        raise SourceError(
            f"{origin} is not a usable torch weight file: {refusal}. Install its package again."
        ) from None


def _parse(stream: io.BytesIO, data: bytes) -> Weights:
    nothing: frozenset[str] = frozenset()
    if read_plain_pickle(stream, nothing) != MAGIC_NUMBER or read_plain_pickle(stream, nothing) != PROTOCOL:
        raise PickleRefused("it does not begin as one")
    system = read_plain_pickle(stream, nothing)
    if not isinstance(system, dict) or system.get("little_endian") is not True:
        raise PickleRefused("it was not written on a little-endian machine")
    state = read_plain_pickle(stream, ALLOWED)
    keys = read_plain_pickle(stream, nothing)
    if not isinstance(state, dict) or not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise PickleRefused("it holds no dictionary of tensors")
    if len(set(keys)) != len(keys):
        raise PickleRefused("a storage is listed twice")
    views = {name: _view(value) for name, value in state.items()}
    elements = {view.key: (view.element, view.storage_size) for view in views.values()}
    storages = _storages(data, stream.tell(), keys, elements)
    budget = len(data) * 2  # strided windows may overlap: their sum must stay near the file's own size
    weights: Weights = {}
    for name, view in views.items():
        budget -= int(np.prod(view.shape, dtype=object)) * view.element.itemsize
        if budget < 0:
            raise PickleRefused("its tensors are larger than the file")
        weights[name] = _window(view, storages, name)
    return weights


def _view(value: object) -> _View:
    """Check one rebuilt tensor: (storage, offset, shape, strides, needs gradient, hooks)."""
    if not isinstance(value, Call) or value.function != REBUILD or len(value.arguments) != 6:
        raise PickleRefused("an entry is not a tensor")
    storage, offset, shape, strides = value.arguments[:4]
    identity = storage.identity if isinstance(storage, Persistent) else None
    if not isinstance(identity, tuple) or len(identity) != 6:
        raise PickleRefused("a tensor has no storage")
    tag, kind, key, _, size, parent = identity  # "_" is the device
    if tag != "storage" or not isinstance(kind, Name) or kind.text not in ELEMENTS or parent is not None:
        raise PickleRefused("a tensor has a storage of another kind than float or long")
    sizes = (size, offset)
    if not isinstance(key, str) or not _whole(sizes) or not _whole(shape) or not _whole(strides):
        raise PickleRefused("a tensor has sizes that are not whole numbers")
    if len(shape) != len(strides) or len(shape) > 8:
        raise PickleRefused("a tensor has a shape that does not fit its strides")
    return _View(key, ELEMENTS[kind.text], sizes[0], sizes[1], shape, strides)


def _whole(values: object) -> TypeGuard[tuple[int, ...]]:
    """True for a tuple of non-negative integers that fit a file."""
    return isinstance(values, tuple) and all(type(value) is int and 0 <= value <= MOST_BYTES for value in values)


def _storages(
    data: bytes, start: int, keys: list[str], elements: dict[str, tuple[np.dtype[np.generic], int]]
) -> Weights:
    """The storages in the order of the keys, each an int64 count and then its elements."""
    storages: Weights = {}
    for key in keys:
        if key not in elements:
            raise PickleRefused("a storage belongs to no tensor")
        element, size = elements[key]
        if start + 8 > len(data):
            raise PickleRefused("it is cut short")
        (count,) = struct.unpack_from("<q", data, start)
        end = start + 8 + count * element.itemsize
        if count != size or end > len(data):
            raise PickleRefused("it is cut short, or a storage has another size than its tensor says")
        storages[key] = np.frombuffer(data, element, count, start + 8)
        start = end
    if start != len(data):
        raise PickleRefused("there is more in it than its tensors")
    return storages


def _window(view: _View, storages: Weights, name: str) -> npt.NDArray[np.generic]:
    """Copy a strided window out of its storage, having checked that it lies inside."""
    storage = storages.get(view.key)
    if storage is None:
        raise PickleRefused(f"the storage of {name!r} is missing")
    steps = zip(view.shape, view.strides, strict=True)
    last = view.offset + sum((length - 1) * stride for length, stride in steps)
    if 0 in view.shape or storage.dtype != view.element or len(storage) != view.storage_size or last >= len(storage):
        raise PickleRefused(f"{name!r} reaches outside its storage")
    strides = [stride * view.element.itemsize for stride in view.strides]
    window = np.lib.stride_tricks.as_strided(storage[view.offset :], view.shape, strides, writeable=False)
    return np.array(window, order="C")  # the file's convolutions have TensorFlow's strides
