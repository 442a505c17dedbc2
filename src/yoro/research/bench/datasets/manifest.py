"""The contents of a dataset as one digest, with a cache so that unchanged files are not read again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from yoro.data.examples import Dataset, Example, Picture, shown
from yoro.errors import InputError
from yoro.files.atomic import write_file
from yoro.files.reading import read_json

LARGEST_CACHE = 256 << 20  # bytes

FileStamp = tuple[int, int, str]  # size, mtime in ns (0 for what is no file), sha256


@dataclass(frozen=True)
class Manifest:
    """The digest of a dataset, and what differs from the last time."""

    digest: str  # sha256 over names, splits, labels, groups and contents
    changed: tuple[str, ...] = ()  # names whose contents are others than in the cache
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def take_manifest(
    dataset: Dataset, file: Path | None, progress: Callable[[str], object] | None = None, *, write: bool = True
) -> Manifest:
    """Digest a dataset; the order of its examples does not matter.

    `file` is a JSON cache {name: [size, mtime, sha256]}: a file of the same size and time is taken as unchanged. It is
    written anew where anything differs, unless `write` is off; one that is damaged is ignored. `progress` is called
    with each name.
    """
    known = {} if file is None else _read_cache(file)
    entries: dict[str, FileStamp] = {}
    rows = []
    for example in dataset:
        entry = _entry(example, known.get(example.name))
        if entries.setdefault(example.name, entry)[2] != entry[2]:
            raise InputError(f"Two images named '{example.name}' have different contents.")
        rows.append([example.name, example.split or "", example.label or "", example.group or "", entry[2]])
        if progress is not None:
            progress(example.name)
    if file is not None and write and entries != known:
        write_file(file, json.dumps(entries, ensure_ascii=True).encode())
    both = sorted(entries.keys() & known.keys())
    return Manifest(
        hashlib.sha256(json.dumps(sorted(rows), ensure_ascii=True).encode()).hexdigest(),
        tuple(name for name in both if entries[name][2] != known[name][2]),
        tuple(sorted(entries.keys() - known.keys())) if known else (),
        tuple(sorted(known.keys() - entries.keys())),
    )


def _entry(example: Example, known: FileStamp | None) -> FileStamp:
    if not isinstance(example.image, Path):
        return _memory_entry(example.image)
    try:
        found = example.image.stat()
        if known is not None and known[:2] == (found.st_size, found.st_mtime_ns):
            return known
        with example.image.open("rb") as content:
            return found.st_size, found.st_mtime_ns, hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"'{shown(example.image)}' cannot be read: {error.strerror or error}.") from error


def _memory_entry(image: Picture) -> FileStamp:
    if isinstance(image, bytes):
        return len(image), 0, hashlib.sha256(image).hexdigest()
    pixels = np.ascontiguousarray(image)
    hasher = hashlib.sha256(f"{pixels.shape} {pixels.dtype.str} ".encode())
    hasher.update(pixels.data)
    return int(pixels.nbytes), 0, hasher.hexdigest()


def _read_cache(file: Path) -> dict[str, FileStamp]:
    """The cache, or nothing if it is not there or not one."""
    try:
        content = read_json(file, LARGEST_CACHE)
    except ValueError:
        return {}
    entries: dict[str, FileStamp] = {}
    for name, entry in content.items() if isinstance(content, dict) else ():
        if not isinstance(entry, list) or [type(value) for value in entry] != [int, int, str]:
            return {}
        entries[name] = (entry[0], entry[1], entry[2])
    return entries
