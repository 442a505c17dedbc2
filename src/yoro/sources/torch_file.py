"""Torch's old weight files, read without torch and without running anything in them."""

from __future__ import annotations

import hashlib
import io
import math
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from yoro import limits
from yoro.errors import SourceError
from yoro.files.reading import read_bounded
from yoro.files.unpickle import PickleRefused, StandIn, read_plain_pickle

Weights: TypeAlias = dict[str, npt.NDArray[np.generic]]
# A tensor in the file is a window on a storage: key, type and number of its elements, then offset, shape and strides.
View: TypeAlias = tuple[str, np.dtype[np.generic], int, int, tuple[int, ...], tuple[int, ...]]

MAGIC_NUMBER = 0x1950A86A20F9469CFC6C  # opens every file of the old format
PROTOCOL = 1001
REBUILD = "torch._utils _rebuild_tensor_v2"
ELEMENTS = {f"torch {kind}Storage": np.dtype(code) for kind, code in (("Float", "<f4"), ("Long", "<i8"))}


def read_torch_file(path: Path, expected: str | None = None) -> tuple[Weights, str]:
    """The state dictionary as contiguous arrays, and the sha256 of the file, which must be the expected one."""
    try:
        data = read_bounded(path, limits.WEIGHT_FILE_BYTES)
    except ValueError as error:
        raise SourceError(f"{path} is not a weight file: {error}. Reinstall its package.") from error
    digest = hashlib.sha256(data).hexdigest()
    if expected is not None and expected != digest:
        raise SourceError(
            f"{path} has an unexpected sha256: {digest[:12]}..., not {expected[:12]}.... "
            "Reinstall its package from a source you trust."
        )
    return parse_torch_file(data, str(path)), digest


def parse_torch_file(data: bytes, origin: str) -> Weights:
    """The state dictionary in the bytes of a file; `origin` names it in errors."""
    if data[:2] == b"PK":
        raise SourceError(f"{origin} is in torch's zip format; the embedded weights are in the older one.")
    try:
        return _parse(data)
    except PickleRefused as refusal:
        text = f"{origin} is not a usable torch weight file: {refusal}. Reinstall its package."
        raise SourceError(text) from None


def _parse(data: bytes) -> Weights:
    """Five pickles (magic number, protocol, system, tensors, keys of the storages), then the storages."""
    stream = io.BytesIO(data[: limits.WEIGHT_PICKLE_BYTES])
    magic, protocol, system = (read_plain_pickle(stream) for _ in range(3))
    if (magic, protocol) != (MAGIC_NUMBER, PROTOCOL) or not isinstance(system, dict) or not system.get("little_endian"):
        raise PickleRefused("it does not begin as one that a little-endian machine wrote")
    state = read_plain_pickle(stream, {"collections OrderedDict", REBUILD, *ELEMENTS})
    keys = read_plain_pickle(stream)
    if not isinstance(state, dict) or not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise PickleRefused("it contains no dictionary of tensors")
    views = {name: _view(value) for name, value in state.items()}
    if sum(math.prod(shape) * element.itemsize for _, element, _, _, shape, _ in views.values()) > 2 * len(data):
        raise PickleRefused("its tensors are larger than the file")  # windows may overlap
    return _tensors(data, stream.tell(), keys, views)


def _view(value: object) -> View:
    """Check one rebuilt tensor: (storage, offset, shape, strides, needs gradient, hooks)."""
    match value:
        case StandIn(name, (StandIn("persistent", (identity,)), int(offset), tuple(shape), tuple(strides), _, _)):
            match identity:
                case ("storage", StandIn(kind), str(key), _, int(size), None) if name == REBUILD and kind in ELEMENTS:
                    sizes = (size, offset, *shape[:8], *strides[:8])
                    whole = all(type(number) is int and 0 <= number <= limits.WEIGHT_FILE_BYTES for number in sizes)
                    if whole and len(shape) == len(strides) <= 8 and 0 not in shape:
                        return key, ELEMENTS[kind], size, offset, shape, strides
    raise PickleRefused("an entry is no tensor of floats or longs with a storage, and a shape that fits its strides")


def _tensors(data: bytes, start: int, keys: list[str], views: dict[str, View]) -> Weights:
    """Copies of the windows; the storages stand in the order of the keys, each behind an int64 count of elements."""
    storages, places = {view[0]: view[:3] for view in views.values()}, {}
    for key in keys:
        storage = storages.pop(key, None)
        if storage is None or int.from_bytes(data[start : start + 8], "little", signed=True) != storage[2]:
            raise PickleRefused("it is cut short, or has a storage twice, or one that no tensor has in this size")
        places[storage] = start + 8
        start += 8 + storage[2] * storage[1].itemsize
    if start != len(data):
        raise PickleRefused("it is cut short, or there is more in it than its tensors")
    weights = {}
    for name, (key, element, size, offset, shape, strides) in views.items():
        last = offset + sum((length - 1) * stride for length, stride in zip(shape, strides, strict=True))
        if (key, element, size) not in places or last >= size:
            raise PickleRefused(f"{name!r} reaches outside its storage, or has none")
        place = places[key, element, size] + offset * element.itemsize
        window = np.ndarray(shape, element, data, place, [stride * element.itemsize for stride in strides])
        weights[name] = np.array(window, order="C")  # the file's convolutions have TensorFlow's strides
    return weights
