"""A dataset: what is known of it beforehand, what was found on disk, and the digest of its contents."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Dataset, Example, Picture, shown
from yoro.errors import DatasetError, InputError
from yoro.files.atomic import write_file
from yoro.files.reading import read_json


@dataclass(frozen=True)
class Found:
    """A dataset as found in one place: every example has its split; labels are class names."""

    dataset: Dataset
    place: str  # a folder or package, for users
    notes: tuple[str, ...] = ()
    problem: str = ""  # what is missing of it


@dataclass(frozen=True)
class BenchDataset:
    """A dataset of the bench. What `find` returns is checked against `classes` and `counts`; errors are DatasetErrors.

    >>> def look(roots):
    ...     return Found(Dataset(()), "nowhere")
    >>> BenchDataset("mine", "Mine", 0, {}, look).find([]).place
    'nowhere'
    >>> BenchDataset("mine", "Mine", 2, {"train": 10, "test": 5}, look).find([])
    Traceback (most recent call last):
    yoro.errors.DatasetError: Mine in 'nowhere': found train 0, test 0, 0 classes; expected train 10, test 5, 2 classes.
    """

    name: str  # as plans say it: lower case
    title: str  # as the paper prints it
    classes: int  # expected; 0 if unknown
    counts: Mapping[str, int] = field(hash=False)  # expected images of each split that is on disk; empty if unknown
    find: Callable[[Sequence[Path]], Found] = field(repr=False, compare=False)  # given the data roots
    flip: bool = True  # False where left and right matter
    legacy_side: int = 128  # of the image under legacy padding
    bank: str | None = None  # name of its attribute files, where some were published
    where: str = ""  # where to get it
    split_file: str | None = None  # name of its published split file, where it needs one
    folders: tuple[str, ...] = ()  # names of its folder under a data root
    mistaken_for: Mapping[str, Mapping[str, int]] = field(default_factory=dict, hash=False)  # other splits, by counts
    template: str = "a photo of a {name}."  # the one sentence a class of Tip-Adapter and its kin

    def __post_init__(self) -> None:
        object.__setattr__(self, "find", _Checked(unchecked(self), self))


@cache
def dataset_table() -> dict[str, dict[str, Any]]:
    """The rows of `datasets.toml` by the names of the datasets."""
    return tomllib.loads((files(__package__) / "datasets.toml").read_text("utf-8"))


class _Checked:
    """A finder whose answer has the expected counts, or is an error."""

    def __init__(self, look: Callable[[Sequence[Path]], Found], expected: BenchDataset) -> None:
        self.look = look
        self._expected = expected

    def __call__(self, roots: Sequence[Path]) -> Found:
        try:
            found = self.look(roots)
        except DatasetError:
            raise
        except (InputError, OSError) as error:
            raise DatasetError(f"{self._expected.title} cannot be read: {error}") from error
        check_counts(found, self._expected)
        return found


def unchecked(dataset: BenchDataset) -> Callable[[Sequence[Path]], Found]:
    """The finder as given, without the check of counts."""
    return dataset.find.look if isinstance(dataset.find, _Checked) else dataset.find


def split_counts(dataset: Dataset) -> dict[str, int]:
    """Images of each split, in the order train, val, test."""
    counts = Counter(example.split or "no split" for example in dataset)
    known = [split for split in ("train", "val", "test") if split in counts]
    return {split: counts[split] for split in (*known, *sorted(counts.keys() - set(known)))}


def said_counts(counts: Mapping[str, int], classes: int | None = None) -> str:
    """Counts in words.

    >>> said_counts({"train": 4093, "test": 2463}, 102)
    'train 4,093, test 2,463, 102 classes'
    """
    words = [f"{split} {count:,}" for split, count in counts.items()]
    return ", ".join([*words, f"{classes or 0:,} classes"] if classes is not None or not words else words)


def check_counts(found: Found, expected: BenchDataset) -> None:
    """Raise if splits, images or classes differ from what is expected; unknown counts are not checked."""
    counts = split_counts(found.dataset)
    classes = len(found.dataset.classes)
    if (not expected.counts or counts == dict(expected.counts)) and expected.classes in (0, classes):
        return
    said = {split: counts.get(split, 0) for split in (*expected.counts, *(counts.keys() - expected.counts.keys()))}
    came = said_counts(said, classes if expected.classes else None)
    wanted = said_counts(expected.counts, expected.classes or None)
    text = f"{expected.title} in '{found.place}': found {came}; expected {wanted}."
    others = [name for name, other in expected.mistaken_for.items() if counts == dict(other)]
    if others:
        text += f" These are the counts of {others[0]}, not of the split that the protocol uses."
        if expected.split_file:
            text += f" Use '{expected.split_file}'. {expected.where}"
    raise DatasetError(text, state="another split" if others else "partial", looked=[found.place], found=counts)


def incomplete(text: str, place: Path) -> DatasetError:
    """The error of an incomplete dataset."""
    return DatasetError(text, state="partial", looked=[shown(place)])


def broken(what: str, path: Path, reason: str) -> DatasetError:
    """The error of a file that cannot be used."""
    return DatasetError(f"'{shown(path)}' is not {what}: {reason}. Download or install it again.", looked=[shown(path)])


def view_examples(
    parts: Iterable[tuple[str, NDArray[np.uint8], Sequence[int]]], names: Sequence[str]
) -> tuple[Example, ...]:
    """Examples "split/00017" that are views of images (n, height, width[, 3]), numbered within their split.

    A part is a split, images, and their labels as indices of the class `names`; a split may have several parts.
    """
    examples: list[Example] = []
    numbers: Counter[str] = Counter()
    for split, pixels, labels in parts:
        if len(pixels) != len(labels):
            raise InputError(f"The split {split!r} has {len(pixels):,} images but {len(labels):,} labels.")
        wrong = next((label for label in labels if not 0 <= label < len(names)), None)
        if wrong is not None:
            raise InputError(f"A label of the split {split!r} is {wrong}; expected 0 to {len(names) - 1}.")
        examples += [
            Example(image, names[label], f"{split}/{number:05d}", split=split)
            for number, (image, label) in enumerate(zip(pixels, labels, strict=True), numbers[split])
        ]
        numbers[split] += len(pixels)
    return tuple(examples)


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
