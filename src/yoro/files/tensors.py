"""Safetensors files: written atomically, read as untrusted input."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from yoro.errors import StoreError
from yoro.files.atomic import write_file

Arrays = dict[str, NDArray[np.generic]]
Metadata = dict[str, object]


def write_tensors(path: Path, arrays: Arrays, metadata: Metadata) -> None:
    """Write arrays and JSON-able metadata; the file appears whole or not at all."""
    write_file(path, pack_tensors(arrays, metadata))


def pack_tensors(arrays: Arrays, metadata: Metadata) -> bytes:
    """The content of such a file; `parse_tensors` takes it apart."""
    header = {key: json.dumps(value, ensure_ascii=False) for key, value in metadata.items()}
    return save({key: np.ascontiguousarray(value) for key, value in arrays.items()}, metadata=header)


def read_tensors(path: Path, kind: str) -> tuple[Arrays, Metadata]:
    """Arrays and metadata of a file of this kind; anything else is a StoreError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise StoreError(f"{path} could not be read: {error.strerror or error}.") from error
    return parse_tensors(content, kind, str(path))


def parse_tensors(content: bytes, kind: str, name: str) -> tuple[Arrays, Metadata]:
    """The same for bytes already read; `name` is shown in errors."""
    try:
        arrays = load(content)
        metadata = {key: json.loads(value) for key, value in _header(content).items()}
        json.dumps(metadata, ensure_ascii=False).encode()  # refuses an escape for half a character
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise StoreError(f"{name} is damaged or not a safetensors file ({error}).") from error
    if metadata.get("kind") != kind:
        raise StoreError(f"{name} holds {metadata.get('kind', 'something else')!r}; expected {kind!r}.")
    return arrays, metadata


def content_digest(arrays: Arrays, metadata: Metadata) -> str:
    """A digest of arrays and metadata, whatever the order in a file."""
    hasher = hashlib.sha256(json.dumps(metadata, sort_keys=True, ensure_ascii=False).encode())
    for name, array in sorted(arrays.items()):
        hasher.update(f"{name} {array.dtype} {array.shape}".encode())
        hasher.update(np.ascontiguousarray(array).data)
    return hasher.hexdigest()


def _header(content: bytes) -> dict[str, str]:
    """The string metadata of a safetensors file; `load` has checked the layout before."""
    length = int.from_bytes(content[:8], "little")
    metadata = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    if not isinstance(metadata, dict):
        raise TypeError("metadata is not a table")
    return metadata
