"""CoOp's published files as data: split files and few-shot index files, JSON that names images and classes.

A split file is {"train": [[path, number, class], ...], "val": ..., "test": ...}; an index file is
{"train": {"data": [{"impath": path, "label": number, "classname": class}, ...], ...}, ...}. Their paths were
written on other machines: an image is looked for under the file's own folder by ever shorter ends of its path.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

from yoro.data.examples import SPLITS, Dataset, Example, class_name, shown
from yoro.errors import InputError

LARGEST_FILE = 256 * 2**20  # bytes
FOLDERS = ("", "images", "jpg")  # where the published data sets keep their images, from the file's folder on


def is_coop(path: Path) -> bool:
    """Whether a file name has the suffix of such a file."""
    return path.suffix.lower() == ".json"


def find_coop(path: Path) -> Dataset:
    """The examples of a split or index file, sorted by class, then path; every image must be there."""
    if path.stat().st_size > LARGEST_FILE:
        raise InputError(f"'{shown(path)}' has {path.stat().st_size:,} bytes; at most {LARGEST_FILE:,} are read.")
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise InputError(f"'{shown(path)}' is no JSON: {error}.") from None
    splits = {key: rows for key, rows in content.items() if key in SPLITS} if isinstance(content, dict) else {}
    if not splits:
        raise InputError(
            f"'{shown(path)}' is no split file: expected {{\"train\": [[path, number, class], ...], ...}}, "
            "or CoOp's few-shot index."
        )
    finder = _Finder(path)
    examples = [
        Example(finder.find(place), class_name(label), shown(place), split=SPLITS[split])
        for split, rows in splits.items()
        for place, label in _rows(rows, split, path)
    ]
    finder.check(len(examples))
    examples.sort(key=lambda example: (example.label or "", example.name))
    return Dataset(tuple(examples))


def _rows(rows: object, split: str, path: Path) -> list[tuple[str, str]]:
    """(path, class) of each row of either layout."""
    items = rows.get("data") if isinstance(rows, dict) else rows
    if not isinstance(items, list):
        raise InputError(f"'{shown(path)}': the split {split!r} is no list of images.")
    result = []
    for number, item in enumerate(items):
        place, label = None, None
        if isinstance(item, dict):
            place, label = item.get("impath"), item.get("classname")
        elif isinstance(item, list) and len(item) == 3:
            place, _, label = item
        if not isinstance(place, str) or not isinstance(label, str) or not place or not label.strip():
            raise InputError(f"'{shown(path)}': image {number} of {split!r} is {item!r}; expected a path and a class.")
        result.append((place, label))
    return result


class _Finder:
    """Finds images by the ends of their paths, and remembers which ending worked last."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guess = ("", 0)  # folder, and how many leading parts of a path to drop
        self._missing: list[str] = []

    def find(self, place: str) -> Path:
        """The image; one that is not there is noted and given its first place."""
        parts = [part for part in PurePosixPath(place.replace("\\", "/")).parts if part not in ("/", ".", "..")]
        choices = [(folder, drop) for drop in range(len(parts)) for folder in FOLDERS]
        for folder, drop in [self._guess, *choices]:
            candidate = self._path.parent / folder / Path(*parts[drop:]) if drop < len(parts) else None
            if candidate is not None and candidate.is_file():
                self._guess = folder, drop
                return candidate
        self._missing.append(place)
        return self._path.parent / Path(*parts)

    def check(self, total: int) -> None:
        """Raise if images are missing: a part of a published split is another split."""
        if self._missing:
            raise InputError(
                f"{len(self._missing):,} of the {total:,} images of '{shown(self._path)}' are not there, such as "
                f"{self._missing[0]!r}. They are looked for beside the file, and in 'images' and 'jpg' beside it; "
                "put the file into the folder of the data set."
            )
