"""Where datasets are looked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from yoro.data.examples import shown
from yoro.errors import DatasetError

VARIABLE = "YORO_DATA"
DEFAULT = "data"  # in the working directory


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
