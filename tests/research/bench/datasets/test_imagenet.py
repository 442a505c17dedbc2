from __future__ import annotations

from dataclasses import replace

import pytest
from PIL import Image

from yoro.data.examples import Dataset, Example
from yoro.errors import DatasetError, InputError
from yoro.research.bench.datasets.bench_datasets import find_bench_dataset
from yoro.research.bench.datasets.dataset import BenchDataset, Found
from yoro.research.bench.datasets.drawing import Drawn, draw, few_in_all, half_of, with_pile, with_whole_validation
from yoro.research.bench.datasets.makers import read_imagenet, read_variant, shifted

NUMBERS = ("n001", "n002", "n003")


@pytest.fixture
def root(tmp_path):
    (tmp_path / "imagenet").mkdir()
    (tmp_path / "imagenet" / "classnames.txt").write_text("n001 tench\nn003 great white shark\nn002 goldfish\n")
    for folder, names in {
        "imagenet/images/train": NUMBERS, "imagenet/images/val": NUMBERS, "imagenet-r/imagenet-r": NUMBERS[:2],
        "imagenetv2/imagenetv2-matched-frequency-format-val": ("0", "1", "2"),
    }.items():  # fmt: skip
        for name in names:
            (tmp_path / folder / name).mkdir(parents=True)
            Image.new("RGB", (4, 4)).save(tmp_path / folder / name / "one.JPEG")
    return tmp_path


def test_imagenet_and_its_variants_share_names_of_classes(root):
    whole = read_imagenet(root / "imagenet").dataset
    assert whole.classes == ["goldfish", "great white shark", "tench"]
    assert {example.split for example in whole} == {"train", "test"}
    rendition, again = (read_variant(root / name).dataset for name in ("imagenet-r", "imagenetv2"))
    assert rendition.classes == ["goldfish", "tench"]
    assert {example.name.split("/")[1]: example.label for example in again} == {
        "0": "tench", "1": "goldfish", "2": "great white shark",
    }  # fmt: skip
    assert read_imagenet(root) is None
    assert read_variant(root / "imagenet" / "nothing") is None
    (root / "imagenet" / "classnames.txt").unlink()
    with pytest.raises(DatasetError, match=r"'classnames.txt' is missing"):
        read_variant(root / "imagenet-r")


def test_a_shifted_dataset_is_fitted_on_one_and_tested_on_another(root):
    one = BenchDataset("a", "A", 0, {}, lambda _: read_imagenet(root / "imagenet"))
    two = BenchDataset("b", "B", 0, {}, lambda _: read_variant(root / "imagenet-r"))
    found = shifted(one, two).find([root])
    names = {(example.split, example.name) for example in found.dataset}
    assert names == {
        ("train", "train/n001/one.JPEG"), ("train", "train/n002/one.JPEG"),
        ("test", "b/test/n001/one.JPEG"), ("test", "b/test/n002/one.JPEG"),
    }  # fmt: skip
    assert find_bench_dataset("imagenet>imagenet-r").title == "ImageNet to ImageNet-R"


def made(classes: str = "abcde", each: int = 20) -> Dataset:
    rows = [(split, name, i) for split in ("train", "test") for name in classes for i in range(each)]
    return Dataset(tuple(Example(b"", name, f"{split}/{name}/{i}", split=split) for split, name, i in rows))


def test_halves_examples_and_piles():
    dataset = made()
    assert half_of(dataset, "") == dataset
    assert half_of(dataset, "base").classes == ["a", "b", "c"]
    assert half_of(dataset, "new").classes == ["d", "e"]
    drawn = draw(dataset, seed=0)
    few = few_in_all(drawn, 50, 0)
    assert (len(few.train), len(few.val), few.test) == (40, 10, drawn.test)
    assert few == few_in_all(drawn, 50, 0) != few_in_all(drawn, 50, 1)
    assert isinstance(few, Drawn)
    shots = draw(dataset, seed=0, shots=2)
    piled = with_pile(shots, dataset, 5, 0)
    names = {example.name for example in piled.pile}
    assert len(names) == 25
    assert not names & {example.name for example in (*shots.train, *shots.val, *shots.test)}
    assert Found(dataset, "here").dataset == dataset
    with pytest.raises(InputError, match="no validation images of its own"):
        with_whole_validation(shots, dataset)
    held = replace(dataset, examples=tuple(replace(e, split="val") if e.name[-1] == "7" else e for e in dataset))
    few = draw(held, seed=0, shots=1)
    assert (len(few.train), len(few.val)) == (5, 5)
    whole = with_whole_validation(few, held)
    assert whole == replace(few, val=whole.val)
    assert {example.name for example in whole.val} == {e.name for e in held if e.split == "val"}
    assert len(whole.val) == 20
