from __future__ import annotations

import json

import pytest
from PIL import Image

from yoro.data.find import find
from yoro.errors import InputError


@pytest.fixture
def dataset(tmp_path):
    (tmp_path / "images").mkdir()
    for name in ("Abyssinian_1.jpg", "Abyssinian_2.jpg", "pug_1.jpg", "pug_2.jpg"):
        Image.new("RGB", (8, 8)).save(tmp_path / "images" / name)
    return tmp_path


def write(path, content):
    path.write_text(json.dumps(content))
    return path


def test_a_split_file_is_data(dataset):
    content = {
        "train": [["pug_1.jpg", 1, "pug"], ["Abyssinian_1.jpg", 0, "abyssinian"]],
        "val": [["pug_2.jpg", 1, "pug"]],
        "test": [["Abyssinian_2.jpg", 0, "abyssinian"]],
    }
    found = find(write(dataset / "split_zhou_OxfordPets.json", content))
    assert [(e.label, e.split, e.name) for e in found] == [
        ("abyssinian", "train", "Abyssinian_1.jpg"),
        ("abyssinian", "test", "Abyssinian_2.jpg"),
        ("pug", "train", "pug_1.jpg"),
        ("pug", "val", "pug_2.jpg"),
    ]
    assert all(e.image.is_file() for e in found)


def test_an_index_file_finds_its_images_whatever_machine_wrote_it(dataset):
    rows = [{"impath": f"./data/oxford_pets/images/{n}", "label": 0, "classname": c}
            for n, c in (("pug_1.jpg", "pug"), ("Abyssinian_1.jpg", "abyssinian"))]  # fmt: skip
    far = [{"impath": "/elsewhere/DATA/oxford_pets/images/pug_2.jpg", "label": 1, "classname": "pug"}]
    content = {"train": {"data": rows, "indices": [1, 2]}, "val": {"data": far, "indices": [3]}}
    found = find(write(dataset / "shot_16-seed_1.json", content))
    assert len(found.select("train")) == 2
    assert len(found.select("val")) == 1


def test_missing_images_are_counted_and_nothing_is_left_out(dataset):
    file = write(dataset / "split.json", {"train": [["pug_1.jpg", 1, "pug"], ["gone.jpg", 1, "pug"]]})
    with pytest.raises(InputError, match=r"1 of the 2 images .* such as 'gone.jpg'"):
        find(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "is not a split file"),
        ({"classes": []}, "is not a split file"),
        ({"train": 3}, "'train' is not a list"),
        ({"train": [["a.jpg", 0]]}, "image 0 of 'train'"),
        ({"train": {"data": [{"impath": "a.jpg"}]}}, "image 0 of 'train'"),
    ],
)
def test_other_json_says_what_was_expected(dataset, content, message):
    with pytest.raises(InputError, match=message):
        find(write(dataset / "x.json", content))
