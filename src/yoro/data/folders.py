"""Folders of images: class/image, split/class/image, or images alone."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from yoro.data.examples import SPLITS, Dataset, Example, Ignored, class_name, listed, shown
from yoro.errors import InputError

SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".apng", ".gif", ".bmp", ".dib", ".tif", ".tiff", ".webp"}
    | {".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".jpx", ".avif"}
)

EXPECTED = "expected FOLDER/class/image or FOLDER/{train,val,test}/class/image, or a CSV or JSONL list"

HIDDEN = "Ignored, hidden"
NOT_IMAGE = "Ignored, not an image by its suffix"
NOT_FILE = "Ignored, not a regular file"
LOOP = "Ignored, a link back to a folder already read"
OUTSIDE = "Ignored, outside any class folder"
EMPTY = "Ignored, a class folder without images"
EMPTY_SPLIT = "Ignored, a split folder without class folders"


def is_image(name: str) -> bool:
    """Whether a file name has the suffix of an image, in any case."""
    return Path(name).suffix.lower() in SUFFIXES


def find_labelled(root: Path) -> Dataset:
    """Examples of a folder of class folders, or of split folders of class folders; sorted by class, then path."""
    ignored = Ignored()
    entries = _entries(root, root, ignored)
    folders = [entry for entry in entries if _is_dir(entry)]
    for entry in entries:
        if not _is_dir(entry):
            ignored.add(OUTSIDE if is_image(entry.name) else NOT_IMAGE, shown(entry.name))
    remarks: list[str] = []
    if _are_splits(folders, root, remarks):
        examples = []
        for folder in folders:
            found = _classes_under(Path(folder.path), root, SPLITS[folder.name.lower()], ignored, remarks)
            if not found:
                ignored.add(EMPTY_SPLIT, shown(folder.name))
            examples.extend(found)
    else:
        examples = _classes_under(root, root, None, ignored, remarks)
    if not examples:
        loose = any(is_image(entry.name) for entry in entries if not _is_dir(entry))
        hint = " Its images lie in no class folder: give the folder above it, or a list." if loose else ""
        raise InputError(f"No labelled image was found in '{shown(root)}'; {EXPECTED}.{hint}")
    examples.sort(key=lambda example: (example.label or "", example.name))
    return Dataset(_named_apart(examples), (*remarks, *ignored.sentences()))


def find_unlabelled(root: Path) -> Dataset:
    """Every image in a folder and the folders below it, sorted by path, without labels."""
    ignored = Ignored()
    examples = [Example(image, None, name) for image, name in _images(root, root, ignored)]
    if not examples:
        raise InputError(f"No image was found in '{shown(root)}' or in the folders below it.")
    examples.sort(key=lambda example: example.name)
    return Dataset(_named_apart(examples), tuple(ignored.sentences()))


def _named_apart(examples: list[Example]) -> tuple[Example, ...]:
    """Examples with a name each: names that only differ in what cannot be shown get a number."""
    seen: Counter[str] = Counter()
    result = []
    for example in examples:
        seen[example.name] += 1
        again = seen[example.name]
        result.append(example if again == 1 else replace(example, name=f"{example.name} ({again})"))
    return tuple(result)


def _are_splits(folders: list[os.DirEntry[str]], root: Path, remarks: list[str]) -> bool:
    """Whether the top folders are splits: all have a split's name, and those with images have class folders."""
    named = [folder.name for folder in folders if folder.name.lower() in SPLITS]
    if not named:
        return False
    if len(named) < len(folders):
        others = [folder.name for folder in folders if folder.name not in named]
        remarks.append(f"Read as classes, not splits, beside {listed(others)}: {listed(named)}.")
        return False
    deep = [folder.name for folder in folders if _has_folders(folder)]
    flat = [folder.name for folder in folders if folder.name not in deep and _has_images(folder)]
    if deep and flat:
        raise InputError(
            f"In '{shown(root)}', {listed(deep)} holds class folders but {listed(flat)} holds images without a class: "
            f"give the first as DATA, or sort the others into class folders."
        )
    if flat:
        remarks.append(f"Read as classes, not splits, since they hold no class folders: {listed(flat)}.")
    return bool(deep)


def _has_folders(folder: os.DirEntry[str]) -> bool:
    return any(_is_dir(entry) for entry in _entries(Path(folder.path), Path(folder.path), Ignored()))


def _has_images(folder: os.DirEntry[str]) -> bool:
    entries = _entries(Path(folder.path), Path(folder.path), Ignored())
    return any(is_image(entry.name) for entry in entries if not _is_dir(entry))


def _classes_under(folder: Path, root: Path, split: str | None, ignored: Ignored, remarks: list[str]) -> list[Example]:
    """Examples of each class folder directly below `folder`; deeper folders belong to their class."""
    examples = []
    nested = []
    labels: set[str] = set()
    for entry in _entries(folder, root, Ignored() if folder == root else ignored):
        if not _is_dir(entry):
            if folder != root:
                ignored.add(OUTSIDE if is_image(entry.name) else NOT_IMAGE, _relative(entry.path, root))
            continue
        label = class_name(entry.name)
        if not label:
            name = _relative(entry.path, root)
            raise InputError(f"The class folder {name!r} has a name that cannot be seen; give it another.")
        if label in labels:
            remarks.append(f"Two folders are named {label!r}, spelled in two ways; both are taken for that class.")
        labels.add(label)
        _check_open(Path(entry.path), root)
        found = [Example(image, label, name, split=split) for image, name in _images(Path(entry.path), root, ignored)]
        if not found:
            ignored.add(EMPTY, _relative(entry.path, root))
        depth = _relative(entry.path, root).count("/") + 1
        if any(example.name.count("/") > depth for example in found):
            nested.append(_relative(entry.path, root))
        examples.extend(found)
    if nested:
        remarks.append(f"Folders nested in a class folder belong to that class: {listed(nested)}.")
    return examples


def _images(folder: Path, root: Path, ignored: Ignored) -> Iterator[tuple[Path | OSError, str]]:
    """Each image at or below `folder` with its shown name; every real folder is read once, so links cannot loop.

    What looks like an image and cannot be reached, and a folder that cannot be opened, are images that cannot be read.
    """
    real = Path(os.path.realpath(root))
    seen = {str(real), *map(str, real.parents)} - ({str(real)} if folder == root else set())
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        actual = os.path.realpath(here)
        if actual in seen:
            ignored.add(LOOP, _relative(here, root))
            continue
        seen.add(actual)
        try:
            entries = _entries(here, root, ignored)
        except OSError as error:
            yield OSError(error.errno, f"the folder cannot be opened: {error.strerror}"), _relative(here, root)
            continue
        for entry in entries:
            if _is_dir(entry):
                waiting.append(Path(entry.path))
            elif not is_image(entry.name):
                ignored.add(NOT_IMAGE, _relative(entry.path, root))
            elif entry.is_symlink() or entry.is_file():
                yield Path(entry.path), _relative(entry.path, root)
            else:
                ignored.add(NOT_FILE, _relative(entry.path, root))


def _check_open(folder: Path, root: Path) -> None:
    """Raise if a folder that stands for a class or a split cannot be opened: without it the model would be another."""
    try:
        os.scandir(folder).close()
    except OSError as error:
        what = f"The class folder '{_relative(folder, root)}' cannot be opened: {error.strerror}"
        raise InputError(f"{what}. Make it readable, or move it away.") from error


def _is_dir(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder or leads to one; a link that leads in a circle does not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def _entries(folder: Path, root: Path, ignored: Ignored) -> list[os.DirEntry[str]]:
    """What a folder holds, sorted by name, hidden names left out and recorded."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.name.startswith("."):
            ignored.add(HIDDEN, _relative(entry.path, root))
    return [entry for entry in found if not entry.name.startswith(".")]


def _relative(path: str | Path, root: Path) -> str:
    return shown(os.path.relpath(path, root))
