"""Finds a dataset under the data roots: its folders, the copies in them, and the one that is used.

A folder holds a dataset whole, or images to which CoOp's published split file belongs, wherever the two lie.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from yoro.data.examples import SPLITS, Dataset, Example, Picture, shown
from yoro.data.file_trees import on_disk
from yoro.data.folders import find_labelled, is_image
from yoro.data.lists import FOLDERS, SplitRow, locate, read_split
from yoro.errors import DatasetError, InputError
from yoro.research.bench.datasets.dataset import Found, said_counts, split_counts

VARIABLE = "YORO_DATA"
DEFAULT = "data"  # in the working directory
SPLIT_FOLDERS = ("splits", "data_splits")  # of a root, where split files may be kept together
Read = Callable[[Path], Found | None]  # what a folder holds, or None if nothing of the dataset


def data_roots(given: Sequence[str | Path] = ()) -> list[Path]:
    """The roots given, else those of the variable YORO_DATA, else the folder 'data'; one that was named must exist."""
    named, origin = [str(root) for root in given], "--data"
    if not named:
        named, origin = [part for part in os.environ.get(VARIABLE, "").split(os.pathsep) if part.strip()], VARIABLE
    for root in named:
        if not Path(root).is_dir():
            state = "is not a folder" if Path(root).exists() else "does not exist"
            raise DatasetError(
                f"The data root '{shown(root)}' ({origin}) {state}; expected the folder that contains the datasets.",
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

    def _copies(self, folders: Sequence[Path]) -> list[Found]:
        """What each folder has; a folder inside one that was read is a part of it."""
        copies: dict[Path, Found] = {}
        for folder in folders:
            real = folder.resolve()
            if not folder.is_dir() or any(real.is_relative_to(read) for read in copies):
                continue
            try:
                copy = self.read(folder) or (read_class_folders(folder) if folder.name in self.folders else None)
            except DatasetError:
                raise
            except (InputError, OSError) as error:
                told = f"{self.title} in '{shown(folder)}' cannot be read: {error}"
                raise DatasetError(told, looked=[shown(folder)]) from error
            if copy is not None:
                copies[real] = copy
        return list(copies.values())


@dataclass(frozen=True)
class SplitFileFinder:
    """See `BenchDataset.find`: images in one of several folders, the split file beside them or elsewhere."""

    name: str
    title: str
    file: str
    folders: tuple[str, ...]  # names of the dataset's folder under a root
    images: tuple[str, ...] = ()  # where images lie in that folder, beside `FOLDERS`
    where: str = ""  # to get it

    def __call__(self, roots: Sequence[Path]) -> Found:
        """The one copy under the roots."""
        named = dataset_folders([root for root in roots if root.is_dir()], self.folders)
        folders = [*named, *(root for root in roots if (root / self.file).is_file() and root not in named)]
        plain = [copy for folder in folders if (copy := read_class_folders(folder)) is not None]
        split = self._split(roots)
        rows = self._rows(split) if split is not None else []
        copies = plain + (self._copies(rows, folders) if rows else [])
        if copies:
            return choose_copy(self.name, self.title, copies)
        present = next((folder for folder in named if _has_content(folder)), None)
        if present is not None and split is None:
            looked = [shown(place) for place in self.places(roots)]
            raise DatasetError(
                f"{self.title}: found '{shown(present)}', but its split file '{self.file}' is missing. Looked for "
                f"{', '.join(map(repr, looked))}. {self.where}".strip(),
                state="no split file",
                looked=looked,
            )
        if present is not None:
            return choose_copy(self.name, self.title, [self._copy(rows, [], rows, present)])
        beside = f"Only its split file was found: '{shown(split)}'." if split is not None else ""
        raise not_found(self.title, roots, self.folders, (), f"{beside} {self.where}".strip())

    def places(self, roots: Sequence[Path]) -> list[Path]:
        """Where the split file may be, in the order of looking."""
        folders = dataset_folders(roots, self.folders)
        shared = [root / folder for root in roots for folder in ("", *SPLIT_FOLDERS)]
        deeper = [folder / sub for folder in folders for sub in (*self.images, *FOLDERS)]
        return [folder / self.file for folder in dict.fromkeys([*folders, *deeper, *shared])]

    def _split(self, roots: Sequence[Path]) -> Path | None:
        """The split file; two that differ are an error."""
        present = [file for file in self.places(roots) if file.is_file()]
        for other in present[1:]:
            if not other.samefile(present[0]) and set(self._rows(other)) != set(self._rows(present[0])):
                raise DatasetError(
                    f"{self.title}: the split files '{shown(present[0])}' and '{shown(other)}' differ. Remove one, "
                    f'give one --data root, or write [data] {self.name} = "PATH" in the plan.',
                    state="two copies",
                    looked=[shown(present[0]), shown(other)],
                )
        return present[0] if present else None

    def _rows(self, file: Path) -> list[SplitRow]:
        try:
            return read_split(file)
        except (InputError, OSError) as error:
            raise DatasetError(f"{self.title}: {error}", looked=[shown(file)]) from error

    def _copies(self, rows: Sequence[SplitRow], folders: Sequence[Path]) -> list[Found]:
        """What each folder has of the split's images; folders without any are left out, each image base counts once."""
        copies: dict[tuple[int, int], Found] = {}
        for folder in folders:
            try:
                examples, missing = locate(rows, [folder / sub for sub in (*self.images, *FOLDERS)])
            except InputError as error:
                raise DatasetError(f"{self.title}: {error}", looked=[shown(folder)]) from error
            if examples and isinstance(first := examples[0].image, Path):
                copies.setdefault(identity(first), self._copy(rows, examples, missing, folder))
        return list(copies.values())

    def _copy(self, rows: Sequence[SplitRow], examples: list[Example], missing: list[SplitRow], folder: Path) -> Found:
        dataset, place = Dataset(tuple(examples)), shown(folder)
        if not missing:
            return Found(dataset, place)
        wanted = Counter(row.split for row in rows)
        have = split_counts(dataset)
        found = said_counts({split: have.get(split, 0) for split in wanted})
        problem = (
            f"'{place}' has {'only some' if examples else 'none'} of the images of '{self.file}': "
            f"found {found}; expected {said_counts(wanted)}. "
            f"The first missing one is {missing[0].place!r}. {self.where}"
        )
        return Found(dataset, place, problem=problem.strip())


def _has_content(folder: Path) -> bool:
    """Whether a folder holds images, or folders that may."""
    return any(
        is_image(entry.name) or (entry.is_dir() and entry.name != "split_fewshot")
        for entry in folder.iterdir()
        if not entry.name.startswith(".")
    )


def read_class_folders(folder: Path) -> Found | None:
    """The dataset of a plain folder `split/class/image`; None if it is not one."""
    inside = [entry.name for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith(".")]
    if not {"train", "test"} <= {SPLITS.get(name.lower()) for name in inside} or len(inside) > 3:
        return None
    dataset = find_labelled(on_disk(folder), shown(folder))
    return Found(dataset, shown(folder)) if dataset.splits else None


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


def choose_copy(name: str, title: str, copies: Sequence[Found]) -> Found:
    """The first copy, if all are complete and the same."""
    first = copies[0]
    for other in copies[1:]:
        difference = _difference(first.dataset, other.dataset)
        if difference:
            raise DatasetError(
                f"{title} was found twice, and the copies differ: '{first.place}' and '{other.place}': {difference}. "
                f'Choose one: give one --data root, or write [data] {name} = "PATH" in the plan.',
                state="two copies",
                looked=[first.place, other.place],
                found=split_counts(first.dataset),
            )
    if first.problem:
        raise DatasetError(
            f"{title}: {first.problem}", state="partial", looked=[first.place], found=split_counts(first.dataset)
        )
    notes = [f"{title} was also found in '{other.place}', the same; using '{first.place}'." for other in copies[1:]]
    return Found(first.dataset, first.place, (*first.dataset.notes, *notes))


def _difference(one: Dataset, other: Dataset) -> str:
    """What tells two copies apart, or nothing: names, splits and classes, then sizes, then contents."""
    ordered = (sorted(copy, key=lambda example: (example.name, example.split or "")) for copy in (one, other))
    pairs = list(zip(*ordered, strict=False))
    if len(one) != len(other):
        return f"one has {said_counts(split_counts(one))}, the other {said_counts(split_counts(other))}"
    for mine, yours in pairs:
        if (mine.name, mine.split, mine.label) != (yours.name, yours.split, yours.label):
            ours, theirs = (f"'{each.name}' ({each.split}, {each.label})" for each in (mine, yours))
            return f"one has {ours}, the other {theirs}"
    for mine, yours in pairs:
        if _size(mine.image) != _size(yours.image):
            return f"'{mine.name}' has {_size(mine.image):,} bytes in one and {_size(yours.image):,} in the other"
    for mine, yours in pairs:
        if not _same(mine.image, yours.image):
            return f"the contents of '{mine.name}' differ"
    return ""


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
