"""Datasets in their original layouts: GTSRB, SVHN, FGVC Aircraft, ImageNet and its variants."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Dataset, Example, class_name, shown
from yoro.errors import DatasetError, InputError
from yoro.files.reading import read_bounded
from yoro.research.bench.datasets.dataset import (
    BenchDataset,
    Found,
    broken,
    dataset_table,
    incomplete,
    said_counts,
    split_counts,
    view_examples,
)

TRAINING = ("GTSRB/Training", "Training")  # from the dataset's folder on
TEST = ("GTSRB/Final_Test/Images", "Final_Test/Images")
LIST = "GT-final_test.csv"
PLACES = ("", "GTSRB", "GTSRB/Final_Test/Images", "Final_Test/Images")
MOST_LIST = 16 << 20  # bytes
COMPETITION = "GTSRB/Final_Training"  # the larger training set of the makers' own page

SIGNS: tuple[str, ...] = tuple(dataset_table()["gtsrb"]["names"])

_no_list = partial(broken, "GTSRB's list of test images with the columns Filename and ClassId")
_no_digits = partial(broken, "a file of SVHN's cropped digits")


def read_gtsrb(folder: Path) -> Found | None:
    """Training folders and listed test images of a folder, or None if it holds neither.

    Groups are tracks: thirty photographs of one sign from nearing it.
    """
    training = next((folder / name for name in TRAINING if (folder / name).is_dir()), None)
    test = next((folder / name for name in TEST if (folder / name).is_dir()), None)
    if training is None and test is None:
        return None
    listing = next((folder / name / LIST for name in PLACES if (folder / name / LIST).is_file()), None)
    if training is None or test is None or listing is None:
        missing = TRAINING[0] if training is None else TEST[0] if test is None else LIST
        other = any((folder / name).is_dir() for name in (COMPETITION, Path(COMPETITION).name))
        hint = f" '{COMPETITION}' is another training set (39,209 images)." if other else ""
        expected = f"expected {TRAINING[0]}, {TEST[0]} and {LIST}.{hint}"
        raise incomplete(f"GTSRB: '{missing}' is missing in '{shown(folder)}'; {expected}", folder / missing)
    tests, gone = _tests(test, listing)
    problem = f"{len(gone):,} images of '{LIST}' are missing in '{shown(test)}', first {gone[0]!r}." if gone else ""
    return Found(Dataset((*_training(training), *tests)), shown(folder), problem=problem)


def _training(folder: Path) -> list[Example]:
    examples = []
    for number, sign in enumerate(SIGNS):
        for image in sorted((folder / f"{number:05d}").glob("*.ppm")):
            track = f"{number:05d}/{image.stem.partition('_')[0]}"
            examples.append(Example(image, sign, f"Training/{number:05d}/{image.name}", track, "train"))
    return examples


def _tests(folder: Path, listing: Path) -> tuple[list[Example], list[str]]:
    """Examples of the listed images, and the names of those that are not there."""
    try:
        text = read_bounded(listing, MOST_LIST).decode("utf-8-sig", "replace")
    except ValueError as error:
        raise _no_list(listing, str(error)) from None
    examples, gone = [], []
    for row in csv.DictReader(text.splitlines(), delimiter=";"):
        name, number = row.get("Filename") or "", row.get("ClassId") or ""
        if not name or name != Path(name).name or not number.isdecimal() or int(number) >= len(SIGNS):
            raise _no_list(listing, f"a row has the file {name!r} and the class {number!r}")
        if (folder / name).is_file():
            examples.append(Example(folder / name, SIGNS[int(number)], f"Final_Test/{name}", split="test"))
        else:
            gone.append(name)
    return examples, gone


FILES = {"train": "train_32x32.mat", "test": "test_32x32.mat"}
DIGITS = tuple("0123456789")
MOST_BYTES = 1 << 30  # of a file
MOST_IMAGES = 1_000_000  # also bounds what a compressed file may become: 3 GB


def read_svhn(folder: Path) -> Found | None:
    """Both files of a folder, or None if it holds neither."""
    missing = [name for name in FILES.values() if not (folder / name).is_file()]
    if len(missing) == len(FILES):
        return None
    if missing:
        there = next(name for name in FILES.values() if name not in missing)
        raise incomplete(f"SVHN: {missing[0]!r} is missing beside {there!r} in '{shown(folder)}'.", folder / missing[0])
    parts = ((split, *_read(folder / name)) for split, name in FILES.items())
    return Found(Dataset(view_examples(parts, DIGITS)), shown(folder))


def _read(path: Path) -> tuple[NDArray[np.uint8], list[int]]:
    """Images (n, 32, 32, 3), a view, and their digits."""
    from scipy.io import loadmat, whosmat

    if path.stat().st_size > MOST_BYTES:
        raise _no_digits(path, f"it has {path.stat().st_size:,} bytes; at most {MOST_BYTES:,} are read")
    try:
        shapes = {name: (shape, kind) for name, shape, kind in whosmat(path)}
        shape, kind = shapes.get("X", ((), ""))
        if len(shape) != 4 or shape[:3] != (32, 32, 3) or shape[3] > MOST_IMAGES or kind != "uint8":
            raise _no_digits(path, f"'X' is {kind or 'nothing'} {shape}; expected uint8 (32, 32, 3, n)")
        if np.prod(shapes.get("y", ((0,), ""))[0]) != shape[3]:
            raise _no_digits(path, f"there are not {shape[3]:,} labels 'y'")
        content = loadmat(path, variable_names=["X", "y"])
        pixels, labels = content["X"], np.asarray(content["y"]).ravel().astype(np.int64)
    except DatasetError:
        raise
    except Exception as error:  # a hostile file can raise anything inside the reader
        raise _no_digits(path, f"{type(error).__name__}: {error}") from error
    if pixels.shape != shape or labels.shape != shape[3:] or labels.min() < 1 or labels.max() > 10:
        raise _no_digits(path, "its images and labels do not match; labels are 1 to 10")
    return np.transpose(pixels, (3, 0, 1, 2)), (labels % 10).tolist()  # label 10 is the digit 0


LISTS = {split: f"images_variant_{split}.txt" for split in ("train", "val", "test")}
INSIDE = ("", "data", "fgvc-aircraft-2013b/data")  # where lists and images lie in the dataset's folder


def read_aircraft(folder: Path) -> Found | None:
    """The listed images of a folder, or None if it holds neither lists nor a folder 'images'."""
    homes = [folder / name for name in INSIDE]
    listed = [home for home in homes if any((home / file).is_file() for file in LISTS.values())]
    home = next(iter([*listed, *(home for home in homes if (home / "images").is_dir())]), None)
    if home is None:
        return None
    examples, gone = [], []
    wanted = {}
    for split, file in LISTS.items():
        rows = _rows(home / file)
        wanted[split] = len(rows)
        for name, label in rows:
            image = home / "images" / f"{name}.jpg"
            if image.is_file():
                examples.append(Example(image, label, image.name, split=split))
            else:
                gone.append(shown(image))
    dataset = Dataset(tuple(sorted(examples, key=lambda example: (example.label or "", example.name))))
    problem = ""
    if gone:
        have = split_counts(dataset)
        found = said_counts({split: have.get(split, 0) for split in wanted})
        problem = (
            f"found {found}; its lists name {said_counts(wanted)}. The first image that is missing is '{gone[0]}'."
        )
    return Found(dataset, shown(folder), problem=problem)


def _rows(path: Path) -> list[tuple[str, str]]:
    """(number of the image, variant) of each line."""
    if not path.is_file():
        raise incomplete(f"FGVC Aircraft: '{shown(path)}' is missing; expected {', '.join(LISTS.values())}.", path)
    try:
        lines = read_bounded(path, MOST_LIST).decode("utf-8", "replace").splitlines()
    except ValueError as error:
        raise DatasetError(f"'{shown(path)}' is not a list: {error}.") from None
    rows = []
    for line in lines:
        name, _, label = line.strip().partition(" ")
        if name and (not name.isdecimal() or not label.strip()):
            raise DatasetError(
                f"'{shown(path)}': expected lines 'NUMBER VARIANT', got {line[:80]!r}.", looked=[shown(path)]
            )
        if name:
            rows.append((name, class_name(label)))
    return rows


NAMES = "classnames.txt"
ENDS = (".jpeg", ".jpg", ".png")
MOST_NAMES = 1 << 20  # bytes
SHIFT = ">"  # between the names of two datasets: fitted on the first, tested on the second


def read_imagenet(folder: Path) -> Found | None:
    """The folders train and val, whose images are the test images; None if there are neither."""
    home = folder / "images" if (folder / "images").is_dir() else folder
    parts = {"train": home / "train", "test": home / "val"}
    missing = [place for place in parts.values() if not place.is_dir()]
    if len(missing) == len(parts):
        return None
    if missing:
        raise incomplete(f"ImageNet: '{shown(missing[0])}' is missing.", missing[0])
    names = _names(folder)
    examples = [example for split, place in parts.items() for example in _examples(place, names, split)]
    return Found(Dataset(tuple(examples)), shown(folder))


def read_variant(folder: Path) -> Found | None:
    """Folders of classes, by their numbers or (ImageNet-V2) by their places among them; all are test images."""
    inner = next((place for place in (folder / "images", *sorted(folder.glob("*/"))) if _has_classes(place)), folder)
    if not _has_classes(inner):
        return None
    return Found(Dataset(tuple(_examples(inner, _names(folder), "test"))), shown(folder))


def shifted(fitted: BenchDataset, tested: BenchDataset) -> BenchDataset:
    """The training and validation images of one dataset with the test images of another, for the classes of both."""

    def find(roots: Sequence[Path]) -> Found:
        one, two = fitted.find(roots), tested.find(roots)
        classes = set(one.dataset.classes) & set(two.dataset.classes)
        if len(classes) < 2:
            raise InputError(f"{fitted.title} and {tested.title} have {len(classes)} classes in common; expected 2.")
        kept = [example for example in one.dataset if example.split != "test" and example.label in classes]
        other = [example for example in two.dataset if example.split == "test" and example.label in classes]
        renamed = [replace(example, name=f"{tested.name}/{example.name}") for example in other]
        return Found(Dataset((*kept, *renamed)), f"{one.place} and {two.place}", (*one.notes, *two.notes))

    title = f"{fitted.title} to {tested.title}"
    return replace(fitted, name=f"{fitted.name}{SHIFT}{tested.name}", title=title, classes=0, counts={}, find=find)


def _has_classes(folder: Path) -> bool:
    """Whether a folder has subfolders named by numbers of classes, with or without an n."""
    return folder.is_dir() and any(place.name.removeprefix("n").isdecimal() for place in folder.glob("*/"))


def _names(folder: Path) -> dict[str, str]:
    """Class names by the makers' numbers, from the file of CoOp: in the folder, or beside ImageNet."""
    places = [folder / NAMES, folder.parent / "imagenet" / NAMES, folder.parent / NAMES]
    place = next((place for place in places if place.is_file()), None)
    if place is None:
        wanted = f"'{NAMES}' is missing: lines 'n01440764 tench', as CoOp's DATASETS.md links them."
        raise incomplete(f"ImageNet: {wanted} Looked for {', '.join(repr(shown(place)) for place in places)}.", folder)
    rows = [line.split(" ", 1) for line in read_bounded(place, MOST_NAMES).decode("utf-8").splitlines() if line.strip()]
    names = {row[0]: row[-1].strip() for row in rows}
    if len(set(names.values())) < len(rows):
        raise broken("a list of classes", place, "numbers or names are there twice")
    return names


def _examples(folder: Path, names: Mapping[str, str], split: str) -> list[Example]:
    order = sorted(names)
    examples = []
    for place in sorted(folder.glob("*/")):
        number = order[int(place.name)] if place.name.isdecimal() and int(place.name) < len(order) else place.name
        if number in names:
            images = sorted(image for image in place.iterdir() if image.suffix.lower() in ENDS)
            examples += [Example(i, names[number], f"{split}/{place.name}/{i.name}", split=split) for i in images]
    return examples
