"""ImageNet and its variants, by folders of its makers' class numbers; and test images of one dataset for another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from yoro.data.examples import Dataset, Example, shown
from yoro.errors import InputError
from yoro.files.reading import read_bounded
from yoro.research.bench.datasets.dataset import BenchDataset, Found, broken, incomplete

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
