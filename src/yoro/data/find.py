"""The door to the data: a folder, a list file, an image, or a Python iterable becomes a Dataset."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from yoro.data.examples import Dataset, Example, Picture, class_name, shown
from yoro.data.folders import EXPECTED, find_labelled, find_unlabelled, is_image
from yoro.data.lists import find_coop, find_listed, is_coop, is_list
from yoro.errors import InputError

UNLABELLED = "expected an image, a folder of images, or a CSV or JSONL list"


def find(data: object, *, labelled: bool = True) -> Dataset:
    """Everything `data` holds, in a fixed order, with notes on what was ignored; no image is opened.

    data : a folder `class/image` or `{train,val,test}/class/image`; a CSV or JSONL list with columns
        path,label[,split][,group]; or an iterable of (image, label), an image being a path, the bytes of a file,
        a PIL image or an array (height, width[, channels]).
    labelled : False for prediction; then a folder is searched for images at any depth, and a single image, a list
        without labels or an iterable of images will do. Labels that are there are not read.

    Folders and lists are sorted by class, then path; an iterable keeps its order.
    """
    if isinstance(data, Dataset):
        return data
    if isinstance(data, str | Path):
        return _find_at(Path(data), labelled)
    if isinstance(data, bytes | Image.Image) or (isinstance(data, np.ndarray) and data.ndim in (2, 3)):
        if labelled:
            raise InputError("A single image came without a label; expected (image, label) pairs, a folder or a list.")
        return Dataset((Example(data, None, "item 0"),))
    if not isinstance(data, Iterable):
        raise InputError(f"Data of type {type(data).__name__} came; {EXPECTED}, or an iterable of (image, label).")
    examples = tuple(_from_item(item, number, labelled) for number, item in enumerate(data))
    if not examples:
        raise InputError("The iterable given as data is empty; expected at least one (image, label).")
    return Dataset(examples)


def _find_at(path: Path, labelled: bool) -> Dataset:
    if not path.exists():
        raise InputError(f"'{shown(path)}' does not exist; {EXPECTED if labelled else UNLABELLED}.")
    if path.is_dir():
        return find_labelled(path) if labelled else find_unlabelled(path)
    if is_list(path):
        return find_listed(path, labelled=labelled)
    if is_coop(path):
        return find_coop(path)
    if not is_image(path.name):
        raise InputError(f"'{shown(path)}' is no folder, image, .csv, .tsv or .jsonl list or .json split; {EXPECTED}.")
    if labelled:
        raise InputError(f"'{shown(path)}' is a single image without a label; {EXPECTED}.")
    return Dataset((Example(path, None, shown(path)),))


def _from_item(item: object, number: int, labelled: bool) -> Example:
    """The example of one item of an iterable: an Example, (image, label), or an image if no label is asked."""
    if isinstance(item, Example):
        if labelled and item.label is None:
            raise InputError(f"Item {number} ('{item.name}') has no label; expected one for every image.")
        return item
    image: object = item
    label: object = None
    if isinstance(item, tuple | list) and len(item) == 2:
        image, label = item
    elif labelled:
        raise InputError(f"Item {number} is {type(item).__name__}; expected a pair (image, label).")
    picture, name = _picture(image, number)
    return Example(picture, _label(label, number) if labelled else None, name)


def _picture(image: object, number: int) -> tuple[Picture, str]:
    """The image of an item and the name users are shown."""
    if isinstance(image, str | Path):
        return Path(image), shown(image)
    if isinstance(image, bytes | Image.Image | np.ndarray):
        return image, f"item {number}"
    came = type(image).__name__
    raise InputError(f"The image of item {number} is {came}; expected a path, bytes, PIL image or array.")


def _label(label: object, number: int) -> str:
    if isinstance(label, bool) or not isinstance(label, str | int | np.integer):
        raise InputError(f"The label of item {number} is {label!r}; expected text or an integer.")
    text = class_name(str(label))
    if not text:
        raise InputError(f"The label of item {number} is empty; expected text or an integer.")
    return text
