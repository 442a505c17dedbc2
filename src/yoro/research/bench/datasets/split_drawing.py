"""CoOp's split files, drawn again from the makers' lists by its procedure and seed: the published ones, byte for byte.

The splits of DTD, EuroSAT, Food101 and Caltech101 began with the order in which a file system named the images of a
folder, and cannot be drawn again.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from yoro.data.examples import shown
from yoro.errors import DatasetError
from yoro.files.reading import read_bounded
from yoro.research.bench.datasets.dataset import broken, dataset_table, incomplete

SEED = 1  # of Python's generator
TRAIN, VAL = 0.5, 0.2  # of each class; of a training set of the makers' a fifth is VAL, too
MOST_BYTES = 16 << 20  # of a list

Row = tuple[str, int, str]  # place of the image, number and name of its class


def draw_split(dataset: str, folders: Sequence[Path]) -> bytes:
    """The content of a dataset's split file, from the makers' lists in the first folder that has one of them."""
    if dataset not in LISTS:
        raise DatasetError(
            f"The split of {dataset} cannot be drawn again: it depends on the order of files on its authors' disk."
        )
    lists = dataset_table()[dataset]["lists"]
    folder = next((f for f in folders if any((f / name).is_file() for name in lists["files"])), folders[0])
    gone = next((folder / name for name in lists["files"] if not (folder / name).is_file()), None)
    if gone is not None:
        raise incomplete(f"'{shown(gone)}' is missing. {lists['where']}", gone)
    try:
        rows, tests = LISTS[dataset](folder)
    except (ValueError, LookupError, TypeError) as error:
        raise broken("a folder with the makers' lists", folder, f"{type(error).__name__}: {error}") from error
    parts = split_by_class(rows, tests)
    return json.dumps(parts, indent=4, separators=(",", ": ")).encode()


def split_by_class(rows: Sequence[Row], tests: Sequence[Row] = ()) -> dict[str, list[Row]]:
    """Each class in random order: half to train, a fifth to validate on, the rest to test; with tests given, to train.

    Classes come in the order of their first image.
    """
    shuffler, by_class = random.Random(SEED), dict[int, list[Row]]()
    for row in rows:
        by_class.setdefault(row[1], []).append(row)
    parts: dict[str, list[Row]] = {"train": [], "val": [], "test": list(tests)}
    for members in by_class.values():
        shuffler.shuffle(members)
        first = 0 if tests else round(len(members) * TRAIN)
        last = first + round(len(members) * VAL)
        parts["train"] += members[:first]
        parts["val"] += members[first:last]
        parts["train" if tests else "test"] += members[last:]
    return parts


def _flowers(folder: Path) -> tuple[list[Row], list[Row]]:
    labels, names = _mat(folder / "imagelabels.mat", "labels")[0], dataset_table()["flowers102"]["names"]
    return [(f"image_{i:05d}.jpg", label - 1, names[label - 1]) for i, label in enumerate(map(int, labels), 1)], []


def _pets(folder: Path) -> tuple[list[Row], list[Row]]:
    def read(file: str) -> list[Row]:
        rows = [line.split() for line in _lines(folder / "annotations" / file)]
        return [(f"{name}.jpg", int(number) - 1, name.rpartition("_")[0].lower()) for name, number, *_ in rows]

    return read("trainval.txt"), read("test.txt")


def _cars(folder: Path) -> tuple[list[Row], list[Row]]:
    names = [str(name[0]) for name in _mat(folder / "devkit" / "cars_meta.mat", "class_names")[0]]

    def read(images: str, file: str) -> list[Row]:
        rows = []
        for entry in _mat(folder / file, "annotations")[0]:
            number = int(entry["class"][0, 0]) - 1
            model, _, year = names[number].rpartition(" ")
            rows.append((f"{images}/{entry['fname'][0]}", number, f"{year} {model}"))
        return rows

    return read("cars_train", "devkit/cars_train_annos.mat"), read("cars_test", "cars_test_annos_withlabels.mat")


def _scenes(folder: Path) -> tuple[list[Row], list[Row]]:
    numbers = {line[1:]: number for number, line in enumerate(_lines(folder / "ClassName.txt"))}

    def read(file: str) -> list[Row]:
        rows = []
        for line in _lines(folder / file):
            place = line[1:]  # without its slash
            home = place.rpartition("/")[0]
            rows.append((place, numbers[home], " ".join(reversed(home.split("/")[1:]))))  # words such as "indoor" first
        return rows

    return read("Training_01.txt"), read("Testing_01.txt")


def _actions(folder: Path) -> tuple[list[Row], list[Row]]:
    home = folder / "ucfTrainTestlist"
    numbers = {name: int(number) - 1 for number, name in (line.split() for line in _lines(home / "classInd.txt"))}

    def read(file: str) -> list[Row]:
        rows = []
        for line in _lines(home / file):
            action, _, video = line.split()[0].partition("/")
            name = "_".join(re.findall("[A-Z][^A-Z]*", action))
            rows.append((f"{name}/{video.replace('.avi', '.jpg')}", numbers[action], name))
        return rows

    return read("trainlist01.txt"), read("testlist01.txt")


def _lines(path: Path) -> list[str]:
    return [line.strip() for line in read_bounded(path, MOST_BYTES).decode("utf-8").splitlines() if line.strip()]


def _mat(path: Path, name: str) -> Any:
    """A variable of a file of Matlab."""
    from scipy.io import loadmat

    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"'{shown(path)}' has {path.stat().st_size:,} bytes; at most {MOST_BYTES:,} are read")
    try:
        return loadmat(path, variable_names=[name])[name]
    except Exception as error:  # a hostile file can raise anything inside the reader
        raise ValueError(f"{path.name}: {type(error).__name__}: {error}") from error


# Images to divide, and test images where the makers give them.
LISTS: dict[str, Callable[[Path], tuple[list[Row], list[Row]]]] = {
    "flowers102": _flowers, "oxfordpets": _pets, "stanfordcars": _cars, "sun397": _scenes, "ucf101": _actions,
}  # fmt: skip
