"""Folders of images: class/image, split/class/image, or images alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from yoro.data.examples import SPLITS, Dataset, Example, Ignored, Picture, class_name, listed
from yoro.data.file_trees import Node
from yoro.errors import InputError

SUFFIXES = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jfif", ".mpo", ".png", ".apng", ".gif", ".bmp", ".dib", ".tif", ".tiff", ".webp"}
    | {".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".jpx", ".avif", ".heic", ".heif", ".hif"}
)

EXPECTED = (
    "expected FOLDER/class/image or FOLDER/{train,val,test}/class/image, an archive of either, or a CSV or JSONL list"
)

HIDDEN = "Ignored, hidden"
NOT_IMAGE = "Ignored, not an image by its suffix"
NOT_FILE = "Ignored, not a regular file"
LOOP = "Ignored, a link back to a folder already read"
OUTSIDE = "Ignored, outside any class folder"
EMPTY = "Ignored, a class folder without images"
EMPTY_SPLIT = "Ignored, a split folder without class folders"
BESIDE = "Ignored, next to the splits and without a class"

UNLABELLED = frozenset({"unlabelled", "unlabeled", "unsorted", "unknown"})  # folders whose name says so
FOREIGN = "__MACOSX"  # which a Mac puts into its archives beside the real thing
DEEPEST = 8  # folders around everything that are looked into


def is_image(name: str) -> bool:
    """Whether a file name has the suffix of an image, in any case."""
    return Path(name).suffix.lower() in SUFFIXES


def find_labelled(root: Node, called: str, known: Collection[str] = (), *, splits: bool | None = None) -> Dataset:
    """Examples of a folder of class folders, or of split folders of class folders; sorted by class, then path.

    A folder around everything, as is left when an archive is unpacked, is passed through, unless it has the name of a
    class that is `known`. `called` is what the person calls the root; `splits` says whether its folders are splits,
    which their names tell otherwise.
    """
    ignored, remarks = Ignored(), list[str]()
    whole, top = root, _within_wrapper(root, known)
    if top is not root:
        remarks.append(f"Everything is in '{top.shown}': the folders in it are read as classes or splits.")
    entries = _visible(top, ignored)
    folders = [entry for entry in entries if entry.folder]
    for entry in entries:
        if not entry.folder:
            ignored.add(OUTSIDE if is_image(entry.name) else NOT_IMAGE, entry.shown)
    if splits is None:
        _refuse_like_splits(folders, called, known)
        chosen = _splits(folders, called, remarks)
    else:
        chosen = [folder for folder in folders if _role_like(folder.name)] if splits else []
    if chosen:
        examples = []
        for folder in folders:
            if folder not in chosen:
                ignored.add(BESIDE, folder.shown)
                continue
            found = _classes_under(folder, whole, _role_like(folder.name), ignored, remarks)
            if not found:
                ignored.add(EMPTY_SPLIT, folder.shown)
            examples.extend(found)
    else:
        examples = _classes_under(top, whole, None, ignored, remarks)
    if not examples:
        loose = any(is_image(entry.name) for entry in entries if not entry.folder)
        hint = (
            " Its images are not in class folders: give its parent folder, a list, or --label-from "
            "'{label}_{n}.jpg' if the file names contain the class."
        )
        if called.endswith(".yoro"):
            raise InputError(f"'{called}' is a saved model, not data; {EXPECTED}.")
        raise InputError(f"No labelled image was found in '{called}'; {EXPECTED}.{hint if loose else ''}")
    examples.sort(key=lambda example: (example.label or "", example.name))
    return Dataset(_named_apart(examples), (*remarks, *ignored.sentences()))


def like_splits(root: Node) -> list[str]:
    """The names of the folders of a root, if they look like splits and are not named so: train_images, test_images."""
    return _like_splits([entry for entry in _visible(_within_wrapper(root, ()), Ignored()) if entry.folder])


def _like_splits(folders: Sequence[Node]) -> list[str]:
    if all(folder.name.lower() in SPLITS for folder in folders):
        return []
    names = [folder.name for folder in folders if _has_any_image(folder)]  # a saved model beside them has none
    roles = {_role_like(name) for name in names}
    named = all(name.lower() in SPLITS for name in names)
    return names if not named and None not in roles and "train" in roles and len(roles) > 1 else []


def _refuse_like_splits(folders: Sequence[Node], called: str, known: Collection[str]) -> None:
    """Raise if folders would be read as classes that look like splits and that no model knows."""
    names = _like_splits(folders)
    if not names or set(map(class_name, names)) <= set(known):
        return
    text = f"The folders {listed(names)} in '{called}' look like splits, not classes."
    if any(_content(folder)[0] for folder in folders):
        text += " If they are splits, add --label-from subfolders, or rename them train, val and test."
    else:
        text += " If they are splits, sort their images into class folders, or give a list or a pattern of file names."
    raise InputError(f"{text} If they really are the classes, add --label-from folders.")


def _role_like(name: str) -> str | None:
    """The one split that a word of a folder's name is a name of, as of train_images, val2017 and TestSet."""
    words = re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", name).lower())
    roles = {SPLITS[word] for word in words if word in SPLITS}
    return roles.pop() if len(roles) == 1 else None


def is_class_folder(root: Node) -> bool:
    """Whether a folder holds images but no folder with some, and is not named as a split or as having no labels."""
    folders, loose = _content(root)
    return loose and root.name.lower() not in {*SPLITS, *UNLABELLED} and not any(map(_has_any_image, folders))


def find_class(root: Node) -> Dataset:
    """The images of one class folder, sorted by path."""
    ignored = Ignored()
    examples = [Example(image, class_name(root.name), name) for image, name in _images(root, root, ignored)]
    examples.sort(key=lambda example: example.name)
    return Dataset(_named_apart(examples), tuple(ignored.sentences()))


def folder_of_several(root: Node) -> str | None:
    """The nearest folder below the root that holds several folders with images, which may be the classes meant."""
    waiting = [root]
    for _ in range(DEEPEST):
        waiting = [folder for here in waiting for folder in _content(here)[0]]
        for folder in waiting:
            if sum(map(_has_any_image, _content(folder)[0])) > 1:
                return folder.shown
    return None


def find_unlabelled(root: Node, called: str) -> Dataset:
    """Every image in a folder and the folders below it, sorted by path, without labels."""
    ignored = Ignored()
    examples = [Example(image, None, name) for image, name in _images(root, root, ignored)]
    if not examples:
        if called.endswith(".yoro"):
            raise InputError(f"'{called}' is a saved model, not images; the model comes first, then the images.")
        raise InputError(f"No image was found in '{called}' or in the folders below it.")
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


def _within_wrapper(root: Node, known: Collection[str]) -> Node:
    """The innermost of folders that contain only each other, if it holds several folders with images; else the root."""
    here = root
    for _ in range(DEEPEST):
        folders, loose = _content(here)
        if loose:
            return root
        if len(folders) != 1:
            return here if here is root or sum(map(_has_any_image, folders)) > 1 else root
        only = folders[0]
        if class_name(only.name) in known:
            return root
        if only.name.lower() in SPLITS:
            return here
        here = only
    return root


def _content(folder: Node) -> tuple[list[Node], bool]:
    """The folders in a folder, and whether images lie beside them."""
    try:
        entries = _visible(folder, Ignored())
    except OSError:
        return [], False
    return [entry for entry in entries if entry.folder], any(is_image(e.name) for e in entries if not e.folder)


def _has_any_image(folder: Node) -> bool:
    return next(_images(folder, folder, Ignored()), None) is not None


def _splits(folders: list[Node], called: str, remarks: list[str]) -> list[Node]:
    """The top folders that are splits: named so, with class folders in them; none if they are classes.

    A lone folder with the name of a split stays a class among classes, as in bus, car, train; beside a folder whose
    name says that it has no labels, it is a split.
    """
    named = [folder for folder in folders if folder.name.lower() in SPLITS]
    others = [folder.name for folder in folders if folder not in named and _has_any_image(folder)]
    deep = [folder for folder in named if _content(folder)[0]]
    flat = [folder.name for folder in named if folder not in deep and _content(folder)[1]]
    if not named:
        return []
    if not deep or (len(named) == 1 and not {name.lower() for name in others} <= UNLABELLED):
        where = f"beside {listed(others)}" if others else "since they hold no class folders"
        if others or flat:
            remarks.append(f"Read as classes, not splits, {where}: {listed([folder.name for folder in named])}.")
        return []
    if any(SPLITS[name.lower()] == "train" for name in flat):
        raise InputError(
            f"In '{called}', {listed([folder.name for folder in deep])} holds class folders but {listed(flat)} holds "
            "images without a class: give the first as DATA, or sort the others into class folders."
        )
    return [folder for folder in named if folder.name not in flat]


def _classes_under(folder: Node, root: Node, split: str | None, ignored: Ignored, remarks: list[str]) -> list[Example]:
    """Examples of each class folder directly below `folder`; deeper folders belong to their class."""
    examples = []
    nested = []
    labels: set[str] = set()
    for entry in _visible(folder, Ignored() if split is None else ignored):
        if not entry.folder:
            if split is not None:
                ignored.add(OUTSIDE if is_image(entry.name) else NOT_IMAGE, entry.shown)
            continue
        label = class_name(entry.name)
        if not label:
            raise InputError(f"The class folder {entry.shown!r} has an invisible name; rename it.")
        if label in labels:
            remarks.append(f"Two folders are named {label!r}, spelled in two ways; both are taken for that class.")
        labels.add(label)
        found = [Example(image, label, name, split=split) for image, name in _images(entry, root, ignored)]
        _refuse_closed(entry, found)
        if not found:
            ignored.add(EMPTY, entry.shown)
        depth = entry.shown.count("/") + 1
        if any(example.name.count("/") > depth for example in found):
            nested.append(entry.shown)
        examples.extend(found)
    if nested:
        remarks.append(f"Folders nested in a class folder belong to that class: {listed(nested)}.")
    return examples


def _images(folder: Node, root: Node, ignored: Ignored) -> Iterator[tuple[Picture, str]]:
    """Each image at or below `folder` with its shown name; every real folder is read once, so links cannot loop.

    What looks like an image and cannot be reached, and a folder that cannot be opened, are images that cannot be read.
    """
    real = Path(root.place)
    seen = {str(real), *map(str, real.parents)} - ({str(real)} if folder is root else set())
    waiting = [folder]
    while waiting:
        here = waiting.pop()
        if here.place in seen:
            ignored.add(LOOP, here.shown)
            continue
        seen.add(here.place)
        try:
            entries = _visible(here, ignored)
        except OSError as error:
            yield OSError(error.errno, f"the folder cannot be opened: {error.strerror}"), here.shown
            continue
        for entry in entries:
            if entry.folder:
                waiting.append(entry)
            elif not is_image(entry.name):
                ignored.add(NOT_IMAGE, entry.shown)
            elif (picture := entry.picture) is not None:
                yield picture, entry.shown
            else:
                ignored.add(NOT_FILE, entry.shown)


def _refuse_closed(folder: Node, found: list[Example]) -> None:
    """Raise if a folder that stands for a class cannot be opened: without it the model would be another."""
    if found and found[0].name == folder.shown and isinstance(found[0].image, OSError):
        why = str(found[0].image.strerror).removeprefix("the folder ")
        what = f"The class folder '{folder.shown}' {why}"
        raise InputError(f"{what}. Make it readable, or move it away.") from found[0].image


def _visible(folder: Node, ignored: Ignored) -> Sequence[Node]:
    """What a folder holds, sorted by name, hidden names left out and recorded."""
    found = folder.children()
    hidden = [entry for entry in found if entry.name.startswith(".") or entry.name == FOREIGN]
    for entry in hidden:
        ignored.add(HIDDEN, entry.shown)
    return [entry for entry in found if entry not in hidden] if hidden else found
