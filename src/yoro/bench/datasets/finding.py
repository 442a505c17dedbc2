"""Finds a dataset under the data roots: its folders, the copies in them, and the one that is used."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from yoro.bench.datasets.contract import Copy, Found, said_counts, split_counts
from yoro.data.examples import SPLITS, Dataset, Example, Picture, shown
from yoro.data.folders import find_labelled
from yoro.errors import DatasetError, InputError

VARIABLE = "YORO_DATA"
DEFAULT = "data"  # in the working directory
Read = Callable[[Path], Copy | None]  # what a folder holds, or None if nothing of the dataset


def data_roots(given: Sequence[str | Path] = ()) -> list[Path]:
    """The roots given, else those of the variable YORO_DATA, else the folder 'data'; one that was named must exist."""
    named = [str(root) for root in given]
    origin = "--data"
    if not named:
        named = [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part.strip()]
        origin = VARIABLE
    for root in named:
        if not Path(root).is_dir():
            state = "is no folder" if Path(root).exists() else "does not exist"
            raise DatasetError(
                f"The data root '{shown(root)}' ({origin}) {state}; expected the folder that the datasets lie in.",
                state="missing",
                looked=[shown(root)],
            )
    return [Path(root) for root in dict.fromkeys(named)] or [Path(DEFAULT)]


@dataclass(frozen=True)
class FolderFinder:
    """See `BenchDataset.find`: a dataset that one folder holds whole."""

    name: str
    title: str
    folders: tuple[str, ...]  # under a root; "" is the root itself
    read: Read
    where: str = ""
    further: Callable[[], Sequence[Path]] = tuple  # folders outside the roots, looked into if no root has the dataset

    def __call__(self, roots: Sequence[Path]) -> Found:
        """The one copy under the roots."""
        copies = self._copies(dataset_folders(roots, self.folders)) or self._copies(self.further())
        if copies:
            return choose_copy(self.name, self.title, copies)
        raise not_found(self.title, roots, self.folders, self.further(), self.where)

    def _copies(self, folders: Sequence[Path]) -> list[Copy]:
        """What each folder has; a folder inside one that was read is a part of it."""
        copies: dict[Path, Copy] = {}
        for folder in folders:
            real = folder.resolve()
            if folder.is_dir() and not any(real.is_relative_to(read) for read in copies):
                copy = self._read(folder)
                if copy is not None:
                    copies[real] = copy
        return list(copies.values())

    def _read(self, folder: Path) -> Copy | None:
        try:
            return self.read(folder) or (read_class_folders(folder) if folder.name in self.folders else None)
        except DatasetError:
            raise
        except (InputError, OSError) as error:
            raise DatasetError(
                f"{self.title} in '{shown(folder)}' cannot be read: {error}", looked=[shown(folder)]
            ) from error


def read_class_folders(folder: Path) -> Copy | None:
    """The dataset of a plain folder `split/class/image`; None if it is not one."""
    inside = [entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    if not {"train", "test"} <= {SPLITS.get(name.lower()) for name in inside} or len(inside) > 3:
        return None
    dataset = find_labelled(folder)
    return Copy(dataset, shown(folder)) if dataset.splits else None


def dataset_folders(roots: Iterable[Path], names: Sequence[str]) -> list[Path]:
    """Folders under the roots that have one of the names, and roots that have one themselves; each real one once."""
    folders: dict[tuple[int, int], Path] = {}
    for root in roots:
        own = [root] if root.resolve().name in names else []
        for folder in (*own, *(root / name for name in names)):
            if folder.is_dir():
                folders.setdefault(identity(folder), folder)
    return list(folders.values())


def identity(path: Path) -> tuple[int, int]:
    """What two names of one file or folder share, on every system."""
    found = path.stat()
    return found.st_dev, found.st_ino


def not_found(
    title: str, roots: Sequence[Path], names: Sequence[str], further: Sequence[Path], where: str
) -> DatasetError:
    """The error of a dataset that is neither under a root by any of the names, nor in a further place."""
    looked = [shown(place) for place in (*(root / name for root in roots for name in names), *further)]
    listed = ", ".join(f"'{name}'" for name in names if name)
    places = [f"{listed} under '{shown(root)}'" for root in roots] + [f"'{shown(place)}'" for place in further]
    text = f"{title} was not found. Looked for {'; '.join(places)}. {where}".strip()
    return DatasetError(text, state="missing", looked=looked)


def choose_copy(name: str, title: str, copies: Sequence[Copy]) -> Found:
    """The first copy, if all are complete and the same."""
    first = copies[0]
    for other in copies[1:]:
        difference = _difference(first.dataset, other.dataset)
        if difference:
            raise DatasetError(
                f"{title} was found twice, and the copies differ: '{first.place}' and '{other.place}': {difference}. "
                f'Say which is meant: give one --data root, or write [data] {name} = "PATH" in the plan.',
                state="two copies",
                looked=[first.place, other.place],
                found=split_counts(first.dataset),
            )
    if first.problem:
        raise DatasetError(
            f"{title}: {first.problem}", state="partial", looked=[first.place], found=split_counts(first.dataset)
        )
    notes = [f"{title} was also found in '{other.place}', the same; '{first.place}' is used." for other in copies[1:]]
    return Found(first.dataset, first.place, (*first.dataset.notes, *notes))


def _difference(one: Dataset, other: Dataset) -> str:
    """What tells two copies apart, or nothing: names, splits and classes, then sizes, then contents."""
    pairs = list(zip(sorted(one, key=_key), sorted(other, key=_key), strict=False))
    if len(one) != len(other):
        return f"one has {said_counts(split_counts(one))}, the other {said_counts(split_counts(other))}"
    for mine, yours in pairs:
        if (mine.name, mine.split, mine.label) != (yours.name, yours.split, yours.label):
            return f"one has {_said(mine)}, the other {_said(yours)}"
    for mine, yours in pairs:
        if _size(mine.image) != _size(yours.image):
            return f"'{mine.name}' has {_size(mine.image):,} bytes in one and {_size(yours.image):,} in the other"
    for mine, yours in pairs:
        if not _same(mine.image, yours.image):
            return f"'{mine.name}' has other contents"
    return ""


def _said(example: Example) -> str:
    return f"'{example.name}' ({example.split}, {example.label})"


def _key(example: Example) -> tuple[str, str]:
    return example.name, example.split or ""


def _size(image: Picture) -> int:
    if isinstance(image, Path):
        return image.stat().st_size
    return len(image) if isinstance(image, bytes) else int(np.asarray(image).nbytes)


def _same(one: Picture, other: Picture) -> bool:
    if isinstance(one, Path) and isinstance(other, Path):
        return one.samefile(other) or one.read_bytes() == other.read_bytes()
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return one == other
