"""The door to the data: a folder, a list file, an image, or what Python holds becomes a Dataset."""

from __future__ import annotations

import os
from pathlib import Path

from yoro.data.accept import accept
from yoro.data.examples import Dataset, Example, shown
from yoro.data.folders import EXPECTED, find_labelled, find_unlabelled, is_image
from yoro.data.lists import find_coop, find_listed, is_coop, is_list
from yoro.errors import InputError

UNLABELLED = "expected an image, a folder of images, or a CSV or JSONL list"


def find(data: object, *, labelled: bool = True) -> Dataset:
    """Everything `data` holds, in a fixed order, with notes on what was ignored; no image is opened.

    data : a folder `class/image` or `{train,val,test}/class/image`; a CSV or JSONL list with columns
        path,label[,split][,group]; or what `accept` takes: (images, labels), pairs, tables, datasets of torch and
        Hugging Face. An image is a path, the bytes of a file, an open file, a PIL image or an array.
    labelled : False for prediction; then a folder is searched for images at any depth, and a single image, a list
        without labels or an iterable of images will do. Labels that are there are not read.

    Folders and lists are sorted by class, then path; what comes from memory keeps its order.
    """
    return _find_at(Path(data), labelled) if isinstance(data, str | os.PathLike) else accept(data, labelled=labelled)


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
