"""A dataset at the one path that a user gave for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from yoro.bench.datasets.contract import BenchDataset, Found, unchecked
from yoro.bench.datasets.looking import Looking
from yoro.bench.datasets.splitfiles import SplitFile
from yoro.data.examples import shown
from yoro.errors import DatasetError


def find_at(dataset: BenchDataset, path: Path) -> Found:
    """The dataset in a folder of any name, or in a data root; nowhere else is looked."""
    if not path.is_dir():
        raise DatasetError(
            f"{dataset.title}: '{shown(path)}' is no folder; expected the dataset's folder, or a data root.",
            state="missing",
            looked=[shown(path)],
        )
    try:
        return dataset.find([path])
    except DatasetError as error:
        look = unchecked(dataset)
        if error.state != "missing" or not isinstance(look, Looking | SplitFile):
            raise
        whole = path.resolve()
        return replace(dataset, find=replace(look, folders=(whole.name,))).find([whole.parent])
