"""Tiny copies of the bench's datasets in the layouts that their archives leave."""

from __future__ import annotations

import io
import json
import pickle
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from PIL import Image
from scipy.io import savemat

from yoro.research.bench.datasets.bench_datasets import DATASETS
from yoro.research.bench.datasets.dataset import BenchDataset

COUNTS = {"train": 6, "val": 2, "test": 4}
INSECTS = ("ant", "bee")
TWO = {"train": 6, "test": 4}


@dataclass(frozen=True)
class Layout:
    """Where the images of a dataset with a split file lie, and how the split names them."""

    dataset: str
    folder: str  # under the root
    images: str  # from the folder on
    place: str  # of an image in the split file, with {split}, {label} and {number}
    split: str = ""  # folder of the split file, from the root on; the dataset's own if empty

    def __str__(self) -> str:
        return f"{self.dataset}-{self.folder}-{self.images}-{self.split}".replace("/", "_")


FLAT, NESTED = "image_{number:05d}.jpg", "{label}/{label}_{number}.jpg"
LAYOUTS = (
    Layout("flowers102", "oxford_flowers", "jpg", FLAT),
    Layout("flowers102", "flowers-102", "jpg", FLAT, "splits"),
    Layout("flowers102", "flowers102", "", FLAT),
    Layout("dtd", "dtd", "images", NESTED),
    Layout("dtd", "dtd/dtd", "images", NESTED, "dtd"),
    Layout("dtd", "dtd/dtd", "images", NESTED, "dtd/dtd"),
    Layout("ucf101", "ucf101", "UCF-101-midframes", NESTED),
    Layout("food101", "food-101", "images", NESTED),
    Layout("food101", "food-101", "images", NESTED, "splits"),
    Layout("eurosat", "eurosat", "2750", NESTED),
    Layout("eurosat", "EuroSAT", "", NESTED),
    Layout("oxfordpets", "oxford_pets", "images", FLAT),
    Layout("oxfordpets", "oxford-iiit-pet", "images", "/elsewhere/DATA/oxford_pets/images/pug_{number}.jpg", "splits"),
    Layout("stanfordcars", "stanford_cars", "", "cars_{split}/{number:05d}.jpg"),
    Layout("sun397", "sun397", "SUN397", "a/{label}/sun_{number}.jpg"),
    Layout("sun397", "SUN397", "", "a/{label}/sun_{number}.jpg", "splits"),
    Layout("caltech101", "caltech-101", "101_ObjectCategories", "{label}/image_{number:04d}.jpg"),
    Layout("caltech101", "caltech101", "101_ObjectCategories", "{label}/image_{number:04d}.jpg", "splits"),
    Layout("resisc45", "resisc45", "NWPU-RESISC45", NESTED),
)


def tiny(name: str, counts: dict[str, int], classes: int = 2) -> BenchDataset:
    """The dataset, expected as small as the copies here."""
    return replace(DATASETS[name], counts=counts, classes=classes)


def save_image(path: Path, value: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), (value % 256, value * 7 % 256, 90)).save(path, "PNG")


def rows_of(
    layout: Layout, counts: dict[str, int] = COUNTS, labels: Sequence[str] = INSECTS
) -> dict[str, list[list[object]]]:
    """The content of a split file: images numbered on, the classes in turn."""
    content: dict[str, list[list[object]]] = {}
    number = 0
    for split, count in counts.items():
        content[split] = []
        for _ in range(count):
            number += 1
            code = number % len(labels)
            place = layout.place.format(split=split, label=labels[code], number=number)
            content[split].append([place, code, labels[code]])
    return content


def make_published(
    root: Path,
    layout: Layout,
    counts: dict[str, int] = COUNTS,
    labels: Sequence[str] = INSECTS,
    *,
    split: bool = True,
) -> BenchDataset:
    """Images and split file under a root; the dataset that expects them."""
    folder = root / layout.folder
    content = rows_of(layout, counts, labels)
    for number, (place, _, _) in enumerate(row for rows in content.values() for row in rows):
        end = str(place).rpartition("/images/")[2] if str(place).startswith("/") else str(place)
        save_image(folder / layout.images / end, number)
    if split:
        home = root / layout.split if layout.split else folder
        home.mkdir(parents=True, exist_ok=True)
        (home / str(DATASETS[layout.dataset].split_file)).write_text(json.dumps(content))
    return tiny(layout.dataset, counts, len(labels))


class OldPickler(pickle._Pickler):  # type: ignore[name-defined]
    """Writes what Python 2 wrote: text and bytes alike as its strings."""

    dispatch: ClassVar = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def save_old(self, value: str | bytes) -> None:
        data = value.encode("latin-1") if isinstance(value, str) else value
        head = b"U" + bytes([len(data)]) if len(data) < 256 else b"T" + struct.pack("<i", len(data))
        self.write(head + data)
        self.memoize(value)

    dispatch[str] = save_old
    dispatch[bytes] = save_old


def old_pickle(value: object) -> bytes:
    stream = io.BytesIO()
    OldPickler(stream, protocol=2).dump(value)
    return stream.getvalue().replace(b"cnumpy._core.multiarray", b"cnumpy.core.multiarray")


def pixels(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 3072), dtype=np.uint8)


def make_cifar(root: Path, name: str, fours: int = 1) -> BenchDataset:
    """The Python batches, each of so many times four images."""
    ten = name == "cifar10"
    folder = root / ("cifar-10-batches-py" if ten else "cifar-100-python")
    folder.mkdir(parents=True)
    files = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"] if ten else ["train", "test"]
    for number, file in enumerate(files):
        key = "labels" if ten else "fine_labels"
        names = [f"{i}.png" for i in range(4 * fours)]
        batch = {"data": pixels(4 * fours, number), key: [0, 1, 1, 0] * fours, "filenames": names}
        (folder / file).write_bytes(old_pickle(batch))
    meta = {"label_names" if ten else "fine_label_names": ["airplane", "automobile"]}
    (folder / ("batches.meta" if ten else "meta")).write_bytes(old_pickle(meta))
    return tiny(name, {"train": 20 * fours, "test": 4 * fours} if ten else {"train": 4 * fours, "test": 4 * fours})


def make_cifar_binary(root: Path, name: str) -> BenchDataset:
    """The same images in the binary version."""
    ten = name == "cifar10"
    folder = root / ("cifar-10-batches-bin" if ten else "cifar-100-binary")
    folder.mkdir(parents=True)
    files = [*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"] if ten else ["train", "test"]
    for number, file in enumerate(files):
        labels = np.array([[0], [1], [1], [0]], np.uint8)
        head = labels if ten else np.hstack([labels + 7, labels])
        (folder / f"{file}.bin").write_bytes(np.hstack([head, pixels(4, number)]).tobytes())
    listing = "batches.meta.txt" if ten else "fine_label_names.txt"
    (folder / listing).write_text("airplane\nautomobile\n\n")
    return tiny(name, {"train": 20, "test": 4} if ten else {"train": 4, "test": 4})


def make_svhn(root: Path, counts: dict[str, int] = TWO) -> BenchDataset:
    for split, count in counts.items():
        images = np.random.default_rng(count).integers(0, 256, (32, 32, 3, count), dtype=np.uint8)
        labels = np.array([[1], [10]] * (count // 2), np.uint8)
        root.mkdir(parents=True, exist_ok=True)
        savemat(root / f"{split}_32x32.mat", {"X": images, "y": labels}, do_compression=True)
    return tiny("svhn", counts)


def make_gtsrb(root: Path, *, tracks: int = 2, frames: int = 3) -> BenchDataset:
    for sign in (0, 14):
        for track in range(tracks):
            for frame in range(frames):
                save_image(root / f"gtsrb/GTSRB/Training/{sign:05d}/{track:05d}_{frame:05d}.ppm", sign + track + frame)
        (root / f"gtsrb/GTSRB/Training/{sign:05d}/GT-{sign:05d}.csv").write_text("Filename;Width\n")
    lines = ["Filename;Width;Height;ClassId"]
    for number, sign in enumerate((0, 14, 14)):
        save_image(root / f"gtsrb/GTSRB/Final_Test/Images/{number:05d}.ppm", number)
        lines.append(f"{number:05d}.ppm;4;4;{sign}")
    (root / "gtsrb/GT-final_test.csv").write_text("\n".join(lines) + "\n")
    return tiny("gtsrb", {"train": 2 * tracks * frames, "test": 3})


def make_aircraft(
    root: Path,
    folder: str = "fgvc-aircraft-2013b/data",
    counts: dict[str, int] = COUNTS,
    labels: Sequence[str] = ("707-320", "F/A-18"),
) -> BenchDataset:
    number = 0
    for split, count in counts.items():
        lines = []
        for _ in range(count):
            number += 1
            save_image(root / folder / "images" / f"{number:07d}.jpg", number)
            lines.append(f"{number:07d} {labels[number % len(labels)]}")
        (root / folder / f"images_variant_{split}.txt").write_text("\n".join(lines) + "\n")
    return tiny("fgvc-aircraft", counts, len(labels))
