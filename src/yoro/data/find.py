"""Finds the data: folders, archives, lists, Parquet, WebDataset, URLs and Python objects become a Dataset."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from pathlib import Path, PurePosixPath

from yoro.data.archives import is_archive, is_other_archive, read_tree
from yoro.data.examples import SPLITS, Dataset, Example, Ignored, class_name, listed, shown
from yoro.data.file_trees import Node, on_disk
from yoro.data.folders import EXPECTED, find_class, find_labelled, find_unlabelled, is_class_folder, is_image
from yoro.data.lists import find_coop, find_listed, is_coop, is_list
from yoro.data.python_data import accept
from yoro.data.remote_files import is_url, remote_tree
from yoro.data.row_files import WEBDATASET, find_rows, places_of, response_places
from yoro.errors import InputError

SPREADSHEETS = frozenset({".xlsx", ".xls", ".ods", ".numbers"})
UNLABELLED = "expected an image, a folder or an archive of images, or a CSV or JSONL list"
UNMATCHED = "Ignored, a name that does not follow the pattern"
FIELD = re.compile(r"\{(\w*)\}")
FOLDERS = {"folders": False, "subfolders": True}  # whether the folders are splits
NUMBERS = frozenset({"n", "number", "index", "id"})  # fields that stand for digits


def find_in_folders(data: object, *, splits: bool) -> Dataset:
    """The labelled images of a folder or archive whose folders are said to be splits, or classes."""
    path = Path(os.fspath(data)) if isinstance(data, str | os.PathLike) else None
    if path is None or not (path.is_dir() or is_archive(path)):
        raise InputError(f"Labels from folders need a folder or an archive; got {data!r}.")
    return _in_tree(path, partial(find_labelled, splits=splits))


def find(data: object, *, labelled: bool = True, known: Collection[str] = ()) -> Dataset:
    """Everything `data` holds, in a fixed order, with notes on what was ignored; no image is opened.

    data : a folder or archive `class/image` or `{train,val,test}/class/image`, on a disk or at a URL that fsspec knows;
        a CSV or JSONL list with columns path,label[,split][,group]; Parquet files with such columns; WebDataset shards;
        several of these in a list, or several folders of a class each; or what `accept` takes: (images, labels), pairs,
        tables, datasets of torch and Hugging Face. An image is a path, the bytes of a file, an open file, a PIL image
        or an array.
    labelled : False for prediction; then a folder is searched for images at any depth, and a single image, a list
        without labels or an iterable of images will do. Labels that are there are not read.
    known : names of classes, by which one folder around all others is told from a class.

    Folders and lists are sorted by class, then path; Parquet files, shards and what comes from memory keep their order.
    """
    if isinstance(data, str | os.PathLike):
        return _find_at(os.fspath(data), labelled, known)
    if isinstance(data, list | tuple) and data and all(isinstance(item, str | os.PathLike) for item in data):
        return _joined([os.fspath(item) for item in data], labelled, known)
    return accept(data, labelled=labelled)


def _find_at(place: str, labelled: bool, known: Collection[str]) -> Dataset:
    if (places := places_of(place)) is not None:
        _refuse_responses(place)
        found = find_rows(places, labelled=labelled)
        path = Path(place.removeprefix(WEBDATASET))
        folder = "." if is_url(place) else shown(path if path.is_dir() else path.parent)
        return found if folder == "." else replace(found, before=f"{folder}/")
    if is_url(place):
        return _find_url(place, labelled, known)
    path = Path(place)
    if not path.exists():
        meant = _near(path)
        what = f". Did you mean '{meant}'?" if meant else f"; {EXPECTED if labelled else UNLABELLED}."
        raise InputError(f"'{shown(path)}' does not exist{what}")
    if labelled and _is_class(path) and (label := class_name(on_disk(path).name)) in known:
        found = _class_at(path)
        return replace(found, notes=(*found.notes, f"'{shown(path)}' is read as images of the class {label!r}."))
    if path.is_dir() or is_archive(path):
        return _in_tree(path, partial(find_labelled, known=known) if labelled else find_unlabelled)
    if is_list(path):
        return find_listed(path, labelled=labelled)
    if is_coop(path):
        return find_coop(path)
    if not is_image(path.name):
        raise InputError(f"'{shown(path)}' {_no_data(path)}; {EXPECTED}.")
    if labelled:
        raise InputError(f"'{shown(path)}' is a single image without a label; {EXPECTED}.")
    return _image(path)


def _in_tree(path: Path, search: Callable[[Node, str], Dataset]) -> Dataset:
    """What a search finds in a folder or an archive."""
    ignored = Ignored()
    found = search(on_disk(path) if path.is_dir() else read_tree(path, ignored), shown(path))
    return replace(found, notes=(*found.notes, *ignored.sentences()), before=f"{shown(path)}/")


def _near(path: Path) -> str:
    """The file or folder beside a path with the most similar name; empty if none is similar."""
    try:
        beside = {entry.name: entry for entry in path.parent.iterdir() if not entry.name.startswith(".")}
    except OSError:
        return ""
    near = get_close_matches(path.name, beside, n=1, cutoff=0.7)
    return f"{shown(beside[near[0]])}{'/' if beside[near[0]].is_dir() else ''}" if near else ""


def _find_url(url: str, labelled: bool, known: Collection[str]) -> Dataset:
    """The images of a folder at a URL, or the one image there."""
    root = remote_tree(url)
    if root.picture is not None and not root.inside:
        if labelled or not is_image(root.name):
            raise InputError(f"{url} is a single file; expected a folder of images, Parquet or WebDataset files.")
        return Dataset((Example(root.picture, None, url),))
    found = find_labelled(root, url, known) if labelled else find_unlabelled(root, url)
    return replace(found, before=f"{url.rstrip('/')}/")


def _refuse_responses(place: str) -> None:
    if response_places(place) is not None:
        raise InputError(f"'{shown(place)}' holds responses, not images.")


def _no_data(path: Path) -> str:
    if is_other_archive(path):
        return "is an unsupported kind of archive: unpack it, or repack it as .zip or .tar.gz"
    if path.suffix.lower() in SPREADSHEETS:
        return "is a spreadsheet: save it as 'CSV UTF-8', with the columns path and label"
    if path.suffix.lower() == ".npz":
        return "holds responses, which cannot be combined with other data"
    if path.suffix.lower() == ".yoro":
        return "is a model, not data"
    return "is not a folder, image, .zip or .tar archive, .csv, .tsv or .jsonl list, or .json split"


def _joined(given: Sequence[str], labelled: bool, known: Collection[str]) -> Dataset:
    """Several folders, archives, lists or images as one, in their order; a name begins with what was given."""
    if (places := places_of(list(given))) is not None:
        _refuse_responses(given[0])
        return find_rows(places, labelled=labelled)
    examples: list[Example] = []
    notes: list[str] = []
    paths = [Path(place) for place in given]
    if each_a_class := labelled and len(paths) > 1 and all(map(_is_class, paths)):
        notes.append(f"Each folder given is read as a class: {listed([on_disk(path).name for path in paths])}.")
    for place, path in zip(given, paths, strict=True):
        if each_a_class:
            found = _class_at(path)
        else:
            found = _find_at(place, labelled, known) if labelled or _holds_images(place) else _image(path)
        examples += found.from_here()
        notes += [f"{shown(place)}: {note}" for note in found.notes]
    return Dataset(tuple(examples), tuple(notes))


def _is_class(path: Path) -> bool:
    return path.is_dir() and is_class_folder(on_disk(path))


def _class_at(path: Path) -> Dataset:
    """The images of a folder as those of the class it is named after."""
    return replace(find_class(on_disk(path)), before=f"{shown(path)}/")


def _holds_images(place: str) -> bool:
    """Whether a place is of what holds images, not of an image."""
    path = Path(place)
    if is_url(place) or places_of(place) is not None:
        return True
    return is_archive(path) or is_list(path) or path.suffix.lower() in (".json", ".npz", ".yoro") or path.is_dir()


def _image(path: Path) -> Dataset:
    """One image of several; that it cannot be read is said of it alone."""
    return Dataset((Example(path, None, shown(path)),))


def find_named(data: object, pattern: str) -> Dataset:
    """The images of unlabelled data with labels by a pattern such as `{label}_{n}.jpg`, sorted by class, then path.

    `{label}` is the class, `{n}` a number, any other field anything. A pattern without a slash is that of the file's
    name, one with slashes that of the end of its path. The ending may be another kind of image. Images in a folder
    named after a split belong to it. In place of a pattern, "folders" says that folders are classes whatever they are
    called, "subfolders" that they are splits, with classes within.
    """
    if pattern in FOLDERS:
        return find_in_folders(data, splits=FOLDERS[pattern])
    rule, found, ignored = compiled(pattern), find(data, labelled=False), Ignored()
    examples: list[Example] = []
    for example in found:
        label = _label(example.name, pattern, rule)
        if label:
            examples.append(replace(example, label=label, split=_split(example.name)))
        else:
            ignored.add(UNMATCHED, example.name)
    if not examples:
        raise InputError(
            f"No file follows the pattern {pattern!r}; the first is {found.examples[0].name!r}. "
            "{label} stands for the class, {n} for a number, {any} for anything."
        )
    examples.sort(key=lambda example: (example.label or "", example.name))
    return Dataset(tuple(examples), (*found.notes, *ignored.sentences()))


def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern as a regular expression without its ending.

    >>> compiled("{label}_{n}.jpg").fullmatch("tabby_cat_017")["label"]
    'tabby_cat'
    """
    fields = FIELD.findall(pattern)
    if fields.count("label") != 1:
        raise InputError(
            f"The pattern {pattern!r} names {{label}} {fields.count('label')} times; expected once, such as in "
            "'{label}_{n}.jpg' for cat_01.jpg."
        )
    stem = pattern.removesuffix(PurePosixPath(pattern).suffix) if not pattern.endswith("}") else pattern
    parts = FIELD.split(stem)
    texts = [re.escape(part) if i % 2 == 0 else _field(part) for i, part in enumerate(parts)]
    return re.compile("".join(texts), re.DOTALL)


def _field(name: str) -> str:
    if name == "label":
        return "(?P<label>[^/]+)"
    return "[0-9]+" if name in NUMBERS else "[^/]*?"


def _label(name: str, pattern: str, rule: re.Pattern[str]) -> str:
    """The class in a file name; empty if the name does not follow the pattern."""
    path = PurePosixPath(name)
    depth = pattern.count("/") + 1
    found = rule.fullmatch("/".join(path.with_suffix("").parts[-depth:]))
    return class_name(found["label"]) if found else ""


def _split(name: str) -> str | None:
    folders: Collection[str] = PurePosixPath(name).parts[:-1]
    return next((SPLITS[folder.lower()] for folder in folders if folder.lower() in SPLITS), None)
