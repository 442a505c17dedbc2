"""Lists of images: CSV and JSONL with a row an image, and CoOp's split and index files."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TextIO, cast

from yoro import limits
from yoro.data.examples import SPLITS, Dataset, Example, class_name, shown, storable
from yoro.data.folders import is_image
from yoro.errors import InputError
from yoro.files.reading import read_json, refusing

DELIMITERS = {".csv": ",;\t", ".tsv": "\t"}  # the one most frequent in the header is used
COLUMNS = {  # names of columns as people give them, the first of each being ours
    "path": (
        "path", "file_name", "filename", "file", "filepath", "file_path", "image", "image_path", "image_name", "img",
    ),
    "label": ("label", "class", "target", "labels", "class_name", "classname", "label_name", "category"),
    "split": ("split", "set", "subset"),
    "group": ("group",),
}  # fmt: skip
JSON_LINES = frozenset({".jsonl", ".ndjson"})

Row = Mapping[str, object]


def is_list(path: Path) -> bool:
    """Whether a file name has the suffix of a list."""
    return path.suffix.lower() in DELIMITERS or path.suffix.lower() in JSON_LINES


def find_listed(path: Path, *, labelled: bool = True) -> Dataset:
    """Examples of a list file, sorted by class, then path; paths are relative to the list's own folder, or to ours."""
    examples = [_example(row, where, labelled) for where, row in listed_rows(path)]
    if not examples:
        raise InputError(f"'{shown(path)}' lists no image; expected a header path,label[,split][,group] and rows.")
    examples = [replace(e, image=_slashed(cast("Path", e.image), (path.parent, Path()))) for e in examples]
    folder, notes = _folder_of(examples, path)
    examples.sort(key=lambda example: (example.label or "", example.name))
    before = f"{shown(folder)}/" if folder != Path() else ""
    return Dataset(tuple(replace(e, image=folder / cast("Path", e.image)) for e in examples), notes, before)


def listed_rows(path: Path) -> Iterator[tuple[str, Row]]:
    """Each row of a list file as names of columns, in small letters, to values; and its place, for an error."""
    rows = _json_rows if path.suffix.lower() in JSON_LINES else _csv_rows
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield from rows(file, path)
    except UnicodeDecodeError:
        raise InputError(f"'{shown(path)}' is not UTF-8; save it as UTF-8 (in a spreadsheet: 'CSV UTF-8').") from None
    except (csv.Error, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"'{shown(path)}' cannot be read as a list: {error}. Expected UTF-8 CSV or JSONL.") from error


def _slashed(image: Path, folders: Sequence[Path]) -> Path:
    """A path with slashes where the list has Windows' backslashes and there is no file of that very name."""
    if "\\" not in str(image) or any(_is_file(folder / image) for folder in folders):
        return image
    return Path(str(image).replace("\\", "/"))


def _folder_of(examples: Sequence[Example], path: Path) -> tuple[Path, tuple[str, ...]]:
    """The folder that the paths of a list are relative to: its own, or the working directory if they lead to files
    there.

    The first image that is found decides for all; if none is, the error says where they were looked for.
    """
    beside, here = path.parent, Path()
    for example in examples:
        image = cast("Path", example.image)
        if _is_file(beside / image):
            return beside, ()
        if _is_file(here / image):
            return here, (f"The paths in '{shown(path)}' are relative to the working directory.",)
    nowhere = (
        f"None of the images listed in '{shown(path)}' exists, such as '{examples[0].name}'. Paths are relative to "
        f"the list's own folder, '{shown(beside.resolve())}', or to the working directory: correct the paths, or move "
        "the list."
    )
    return beside, (nowhere,)


def _csv_rows(file: TextIO, path: Path) -> Iterator[tuple[str, Row]]:
    """Each row as column name to text, with its place; the header is row 1."""
    lines = _lines(file, path)
    first = next(lines, "")
    delimiter = max(DELIMITERS[path.suffix.lower()], key=first.count)
    reader = csv.reader(chain([first], lines), delimiter=delimiter, strict=True)
    header = [_column(name) for name in next(reader, [])]
    if any(is_image(name) for name in header):
        raise InputError(
            f"'{shown(path)}' has no header: its first row is '{first.strip()}'. Put a row above it that names the "
            "columns, such as path,label."
        )
    for number, fields in enumerate(reader, start=2):
        where = f"'{shown(path)}', row {number}"
        if not fields:
            continue
        if len(fields) != len(header):
            raise InputError(f"{where} has {len(fields)} fields, the header {len(header)}: {', '.join(header)}.")
        yield where, dict(zip(header, fields, strict=True))


def _json_rows(file: TextIO, path: Path) -> Iterator[tuple[str, Row]]:
    for number, line in enumerate(_lines(file, path), start=1):
        where = f"'{shown(path)}', line {number}"
        if not line.strip():
            continue
        row = json.loads(line)
        if not isinstance(row, dict):
            raise InputError(f"{where} is {type(row).__name__}, expected an object with path and label.")
        yield where, {_column(str(key)): value for key, value in row.items()}


def _column(name: str) -> str:
    """The name of a column in small letters, with underscores where people put spaces or hyphens."""
    return re.sub(r"[\s-]+", "_", name.strip().lower())


def _lines(file: TextIO, path: Path) -> Iterator[str]:
    number = 0
    while line := file.readline(limits.LIST_LINE + 1):
        number += 1
        if len(line) > limits.LIST_LINE:
            raise InputError(
                f"'{shown(path)}', line {number} is longer than {limits.LIST_LINE} characters; is it a list?"
            )
        yield line


def _example(row: Row, where: str, labelled: bool) -> Example:
    for column in ("path", "label") if labelled else ("path",):
        if not set(COLUMNS[column]) & set(row):
            first, *others = COLUMNS[column]
            names = f"{first!r} (or {', '.join(map(repr, others[:5]))})"
            place = re.sub(r"row \d+$", "row 1, the header", where)  # of a CSV file; an object of JSONL names its own
            raise InputError(f"{place}: there is no column {names}; columns seen: {', '.join(row) or 'none'}.")
    path = _known(row, "path")
    if not isinstance(path, str) or not path.strip():
        raise InputError(f"{where} has no path.")
    label, group, split = described(row, f"{where} ('{path}')", labelled)
    return Example(Path(path), label, shown(path), group, split)


def _known(row: Row, column: str) -> object:
    """What a row has in a column, by any of the column's names; None for nothing."""
    return next((row[name] for name in COLUMNS[column] if row.get(name) is not None), None)


def _text(row: Row, column: str, where: str) -> str | None:
    """The text of a cell, fit to be stored; None if it is empty. Integers become text, anything else is refused."""
    value = _known(row, column)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"{where}: {column} is {value!r}, expected text or an integer.")
    return storable(str(value).strip()) or None


def split_named(name: str | None, where: str) -> str | None:
    """The canonical name of a split; None for none."""
    if name is None:
        return None
    if name.lower() not in SPLITS:
        raise InputError(f"{where}: split is '{name}', expected one of {', '.join(SPLITS)}.")
    return SPLITS[name.lower()]


def described(row: Row, name: str, labelled: bool) -> tuple[str | None, str | None, str | None]:
    """Label, group and split of a row; a missing label is an error if `labelled`."""
    label = class_name(_text(row, "label", name) or "") if labelled else None
    if label == "":
        raise InputError(
            f"{name} has no label. Add one (a column, or a .cls, .txt or .json file in WebDataset), or leave it out."
        )
    return label, _text(row, "group", name), split_named(_text(row, "split", name), name)


FOLDERS = ("", "images", "jpg")  # where the published data sets keep their images, from the file's folder on


@dataclass(frozen=True)
class SplitRow:
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
            f"{len(missing):,} of the {len(rows):,} images of '{shown(path)}' are missing, such as "
            f"{missing[0].place!r}. They are searched for next to the file, and in 'images' and 'jpg' next to it; "
            "move the file into the dataset's folder."
        )
    return Dataset(tuple(examples))


def read_split(path: Path) -> list[SplitRow]:
    """What a split or index file names, in its order; anything else is an error that says where."""
    with refusing(InputError, f"'{shown(path)}' lists no images"):
        content = read_json(path, limits.SPLIT_FILE_BYTES)
    splits = {key: rows for key, rows in content.items() if key in SPLITS} if isinstance(content, dict) else {}
    if not splits:
        raise InputError(
            f"'{shown(path)}' is not a split file; expected {{\"train\": [[path, number, class], ...], ...}}, "
            "or CoOp's few-shot index."
        )
    return [
        SplitRow(place, class_name(label), SPLITS[split])
        for split, rows in splits.items()
        for place, label in _pairs(rows, split, path)
    ]


def locate(rows: Sequence[SplitRow], folders: Sequence[Path]) -> tuple[list[Example], list[SplitRow]]:
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
        raise InputError(f"'{shown(path)}': the split {split!r} is not a list of images.")
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
        parts = _parts(place)
        choices = [(folder, drop) for drop in range(len(parts)) for folder in self._folders]
        for folder, drop in choices if self._guess is None else [self._guess, *choices]:
            if drop < len(parts) and _is_file(image := folder.joinpath(*parts[drop:])):
                self._guess = folder, drop
                return image
        return None
