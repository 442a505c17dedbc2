"""The way every finder goes: look into each folder it may be in, then choose among the copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from yoro.bench.datasets.contract import Found
from yoro.bench.datasets.copies import Copy, choose_copy
from yoro.bench.datasets.places import dataset_folders, not_found
from yoro.data.examples import SPLITS, shown
from yoro.data.folders import find_labelled
from yoro.errors import DatasetError, InputError

Read = Callable[[Path], Copy | None]  # what a folder holds, or None if nothing of the dataset


@dataclass(frozen=True)
class Looking:
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
