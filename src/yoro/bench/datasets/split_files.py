"""Datasets that are images plus CoOp's published split file, in whatever folders the two lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from yoro.bench.datasets.contract import Copy, Found, said_counts, split_counts
from yoro.bench.datasets.finding import choose_copy, dataset_folders, identity, not_found, read_class_folders
from yoro.data.examples import Dataset, Example, shown
from yoro.data.folders import is_image
from yoro.data.lists import FOLDERS, SplitRow, locate, read_split
from yoro.errors import DatasetError, InputError

SPLIT_FOLDERS = ("splits", "data_splits")  # of a root, where split files may be kept together


@dataclass(frozen=True)
class SplitFileFinder:
    """See `BenchDataset.find`: images in one of several folders, the split file beside them or elsewhere."""

    name: str
    title: str
    file: str
    folders: tuple[str, ...]  # names of the dataset's folder under a root
    images: tuple[str, ...] = ()  # where images lie in that folder, beside `coop.FOLDERS`
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
        present = [folder for folder in named if _has_content(folder)]
        if present and split is None:
            raise self._no_split(present[0], roots)
        if present:
            return choose_copy(self.name, self.title, [self._copy(rows, [], list(rows), present[0])])
        beside = f"Its split file is there: '{shown(split)}'." if split is not None else ""
        raise not_found(self.title, roots, self.folders, (), f"{beside} {self.where}".strip())

    def places(self, roots: Sequence[Path]) -> list[Path]:
        """Where the split file may be, in the order of looking."""
        folders = dataset_folders(roots, self.folders)
        shared = [root / folder for root in roots for folder in ("", *SPLIT_FOLDERS)]
        deeper = [folder / sub for folder in folders for sub in self._subfolders()]
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

    def _copies(self, rows: Sequence[SplitRow], folders: Sequence[Path]) -> list[Copy]:
        """What each folder has of the split's images; folders without any are left out, each image base counts once."""
        copies: dict[tuple[int, int], Copy] = {}
        for folder in folders:
            try:
                examples, missing = locate(rows, [folder / sub for sub in self._subfolders()])
            except InputError as error:
                raise DatasetError(f"{self.title}: {error}", looked=[shown(folder)]) from error
            if examples and isinstance(first := examples[0].image, Path):
                copies.setdefault(identity(first), self._copy(rows, examples, missing, folder))
        return list(copies.values())

    def _copy(self, rows: Sequence[SplitRow], examples: list[Example], missing: list[SplitRow], folder: Path) -> Copy:
        dataset = Dataset(tuple(examples))
        if not missing:
            return Copy(dataset, shown(folder))
        wanted = Counter(row.split for row in rows)
        have = split_counts(dataset)
        found = said_counts({split: have.get(split, 0) for split in wanted})
        problem = (
            f"'{shown(folder)}' has {'only some' if examples else 'none'} of the images of '{self.file}': "
            f"found {found}; expected {said_counts(wanted)}. "
            f"The first that is missing is {missing[0].place!r}. {self.where}"
        )
        return Copy(dataset, shown(folder), problem.strip())

    def _subfolders(self) -> tuple[str, ...]:
        return (*self.images, *FOLDERS)

    def _no_split(self, folder: Path, roots: Sequence[Path]) -> DatasetError:
        looked = [shown(place) for place in self.places(roots)]
        return DatasetError(
            f"{self.title}: '{shown(folder)}' is there, but its split file '{self.file}' is missing. It was looked for "
            f"as {', '.join(repr(place) for place in looked)}. {self.where}".strip(),
            state="no split file",
            looked=looked,
        )


def _has_content(folder: Path) -> bool:
    """Whether a folder holds images, or folders that may."""
    return any(
        is_image(entry.name) or (entry.is_dir() and entry.name != "split_fewshot")
        for entry in folder.iterdir()
        if not entry.name.startswith(".")
    )
