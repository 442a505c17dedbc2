"""CoOp's published files as data: split files and few-shot index files, JSON that names images and classes.

A split file is {"train": [[path, number, class], ...], "val": ..., "test": ...}; an index file is
{"train": {"data": [{"impath": path, "label": number, "classname": class}, ...], ...}, ...}. Their paths were
written on other machines: an image is looked for under given folders by ever shorter ends of its path.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from yoro.data.examples import SPLITS, Dataset, Example, class_name, shown
from yoro.errors import InputError

LARGEST_FILE = 256 * 2**20  # bytes
FOLDERS = ("", "images", "jpg")  # where the published data sets keep their images, from the file's folder on


@dataclass(frozen=True)
class Row:
    """One image as a split file names it."""

    place: str  # a path of another machine
    label: str
    split: str


def is_coop(path: Path) -> bool:
    """Whether a file name has the suffix of such a file."""
    return path.suffix.lower() == ".json"


def find_coop(path: Path) -> Dataset:
    """The examples of a split or index file, sorted by class, then path; every image must be there."""
    rows = read_split(path)
    examples, missing = locate(rows, [path.parent / folder for folder in FOLDERS])
    if missing:
        raise InputError(
            f"{len(missing):,} of the {len(rows):,} images of '{shown(path)}' are not there, such as "
            f"{missing[0].place!r}. They are looked for beside the file, and in 'images' and 'jpg' beside it; "
            "put the file into the folder of the data set."
        )
    return Dataset(tuple(examples))


def read_split(path: Path) -> list[Row]:
    """What a split or index file names, in its order; anything else is an error that says where."""
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
    return [
        Row(place, class_name(label), SPLITS[split])
        for split, rows in splits.items()
        for place, label in _pairs(rows, split, path)
    ]


def locate(rows: Sequence[Row], folders: Sequence[Path]) -> tuple[list[Example], list[Row]]:
    """Examples of the rows whose images are under `folders`, sorted by class, then path; and the rows without one.

    Two rows that name different images but end up at one file are an error: the ends of their paths say too little.
    """
    finder = _Finder(folders)
    examples, missing = [], []
    taken: dict[Path, str] = {}
    for row in rows:
        image = finder.find(row.place)
        if image is None:
            missing.append(row)
        elif taken.setdefault(image, row.place) != row.place:
            raise InputError(
                f"{taken[image]!r} and {row.place!r} are two images of the split, but only '{shown(image)}' was found "
                "for both. Restore the folders that their paths name."
            )
        else:
            examples.append(Example(image, row.label, shown(row.place), split=row.split))
    examples.sort(key=lambda example: (example.label or "", example.name))
    return examples, missing


def _pairs(rows: object, split: str, path: Path) -> list[tuple[str, str]]:
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
        if not isinstance(place, str) or not isinstance(label, str) or not _parts(place) or not label.strip():
            raise InputError(f"'{shown(path)}': image {number} of {split!r} is {item!r}; expected a path and a class.")
        result.append((place, label))
    return result


def _parts(place: str) -> list[str]:
    """The parts of a path; those that lead out of a folder are dropped."""
    return [part for part in PurePosixPath(place.replace("\\", "/")).parts if part not in ("/", ".", "..")]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name too long, or with characters that no file can have
        return False


class _Finder:
    """Finds images by the ends of their paths, and remembers which ending worked last."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = [folder for folder in folders if folder.is_dir()]
        self._guess: tuple[Path, int] | None = None  # folder, and how many leading parts of a path to drop

    def find(self, place: str) -> Path | None:
        """The image, or None."""
        parts = _parts(place)
        choices = [(folder, drop) for drop in range(len(parts)) for folder in self._folders]
        for folder, drop in choices if self._guess is None else [self._guess, *choices]:
            if drop < len(parts) and _is_file(image := folder.joinpath(*parts[drop:])):
                self._guess = folder, drop
                return image
        return None
