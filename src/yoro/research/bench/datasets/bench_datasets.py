"""The datasets of the bench by name, as `datasets.toml` lists them, and users' own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

from yoro.data.examples import shown
from yoro.data.find import find
from yoro.errors import DatasetError, InputError, did_you_mean
from yoro.research.bench.datasets.cifar import PACKING_10, PACKING_100, read_cifar
from yoro.research.bench.datasets.dataset import BenchDataset, Found, dataset_table, unchecked
from yoro.research.bench.datasets.finding import FolderFinder, Read, SplitFileFinder
from yoro.research.bench.datasets.makers import (
    SHIFT,
    read_aircraft,
    read_gtsrb,
    read_imagenet,
    read_svhn,
    read_variant,
    shifted,
)
from yoro.research.bench.datasets.packaged import FASHION_HOME, find_digits, installed_sheets, read_fashion, read_sheets
from yoro.user_code import import_attribute

LIST_ENDS = (".csv", ".tsv", ".jsonl", ".json")


def find_bench_dataset(name: str) -> BenchDataset:
    """The dataset of that name; "module:ATTRIBUTE", one that a user wrote; or a path, a user's folder or list.

    "ONE>OTHER" has the training images of one and the test images of the other.

    >>> find_bench_dataset("flowers102").title
    'Flowers102'
    """
    if name.lower() in DATASETS:
        return DATASETS[name.lower()]
    if SHIFT in name:
        return shifted(*map(find_bench_dataset, name.split(SHIFT, 1)))
    path = Path(name)
    if "/" in name or "\\" in name or path.suffix.lower() in LIST_ENDS or path.is_dir():
        return _own(path)
    if ":" in name:
        return import_attribute(name, BenchDataset)
    guess = did_you_mean(name.lower(), DATASETS, alike=0.4, else_all=False)
    raise InputError(
        f"Unknown dataset {name!r}. {guess} Choose one of {', '.join(DATASETS)}, or give a folder, a list or "
        "module:ATTRIBUTE."
    )


def find_at(dataset: BenchDataset, path: Path) -> Found:
    """The dataset in a folder of any name, or in a data root; nowhere else is looked."""
    if not path.is_dir():
        raise DatasetError(
            f"{dataset.title}: '{shown(path)}' is not a folder; expected the dataset's folder, or a data root.",
            state="missing",
            looked=[shown(path)],
        )
    try:
        return dataset.find([path])
    except DatasetError as error:
        finder = unchecked(dataset)
        if error.state != "missing" or not isinstance(finder, FolderFinder | SplitFileFinder):
            raise
        whole = path.resolve()
        return replace(dataset, find=replace(finder, folders=(whole.name,))).find([whole.parent])


def _own(path: Path) -> BenchDataset:
    """A user's folder or list, with whatever counts it has; here, or under a data root."""

    def look(roots: Sequence[Path]) -> Found:
        place = next((there for there in (path, *(root / path for root in roots)) if there.exists()), path)
        dataset = find(place)
        return Found(dataset, shown(place), dataset.notes)

    title = path.stem if path.suffix.lower() in LIST_ENDS else path.name
    return BenchDataset(shown(path), title or shown(path), 0, {}, look)


READERS: dict[str, Read] = {  # of folders that hold a dataset whole, by their names in the table
    "aircraft": read_aircraft,
    "cifar10": partial(read_cifar, packing=PACKING_10),
    "cifar100": partial(read_cifar, packing=PACKING_100),
    "fashion": read_fashion,
    "gtsrb": read_gtsrb,
    "imagenet": read_imagenet,
    "imagenet variant": read_variant,
    "sheets": read_sheets,
    "svhn": read_svhn,
}
ELSEWHERE: dict[str, Callable[[], Sequence[Path]]] = {  # folders outside the data roots
    "fashion": lambda: [FASHION_HOME],
    "sheets": installed_sheets,
}


def _listed(name: str, row: Mapping[str, Any]) -> BenchDataset:
    """A dataset of `datasets.toml`: images and a split file, or a folder that its reader reads whole."""
    title, folders, where = row["title"], tuple(row.get("folders", ())), row["where"]
    reader, split_file = row.get("reader"), row.get("split_file")
    find: Callable[[Sequence[Path]], Found] = find_digits
    if reader is not None:
        find = FolderFinder(name, title, folders, READERS[reader], where, ELSEWHERE.get(reader, tuple))
    elif split_file is not None:
        find = SplitFileFinder(name, title, split_file, folders, tuple(row.get("images", ())), where)
    known = {field.name for field in fields(BenchDataset)}
    return BenchDataset(name=name, find=find, **{**{k: v for k, v in row.items() if k in known}, "folders": folders})


DATASETS = {name: _listed(name, row) for name, row in dataset_table().items()}
