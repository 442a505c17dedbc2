"""CoOp's splits drawn again; what is expected is what the public code of CoOp makes of the same lists with seed 1."""

from __future__ import annotations

import hashlib
import json

import pytest

from research.bench.datasets.makers_lists import WRITERS
from yoro.data.lists import read_split
from yoro.errors import DatasetError
from yoro.research.bench.datasets import fetching
from yoro.research.bench.datasets.bench_datasets import DATASETS
from yoro.research.bench.datasets.dataset import dataset_table, unchecked
from yoro.research.bench.datasets.fetching import Download, downloads, fetch
from yoro.research.bench.datasets.finding import SplitFileFinder
from yoro.research.bench.datasets.split_drawing import LISTS, draw_split

# what stands first in the published split of Flowers102, whose first 251 images are of the 77th class
PUBLISHED = {
    "train": ["image_00190.jpg", "image_00067.jpg", "image_00234.jpg"], "val": ["image_00055.jpg", "image_00053.jpg"],
}  # fmt: skip
TRAINED = {
    "oxfordpets": ["Abyssinian_3.jpg", "Abyssinian_5.jpg", "Abyssinian_0.jpg", "Abyssinian_4.jpg", "Abyssinian_1.jpg"],
    "stanfordcars": [f"cars_train/{i:05d}.jpg" for i in (7, 11, 1, 9, 3, 6, 4, 10, 8)],
    "sun397": [f"a/abbey/sun_T{i}.jpg" for i in (3, 4, 0, 1)] + [f"c/church/indoor/sun_T{i}.jpg" for i in (2, 1, 4, 3)],
    "ucf101": [f"Apply_Eye_Makeup/v_ApplyEyeMakeup_g{i:02d}_c01.jpg" for i in (6, 5, 2, 0, 4, 1)],
}
HELD = {
    "oxfordpets": [["Abyssinian_2.jpg", 0, "abyssinian"], ["american_bulldog_0.jpg", 1, "american_bulldog"]],
    "stanfordcars": [
        ["cars_train/00005.jpg", 1, "2012 Acura RL Sedan"], ["cars_train/00002.jpg", 0, "2000 AM General Hummer SUV"],
    ],
    "sun397": [["a/abbey/sun_T2.jpg", 0, "abbey"], ["c/church/indoor/sun_T0.jpg", 1, "indoor church"]],
    "ucf101": [
        ["Apply_Eye_Makeup/v_ApplyEyeMakeup_g03_c01.jpg", 0, "Apply_Eye_Makeup"],
        ["Yo_Yo/v_YoYo_g01_c01.jpg", 1, "Yo_Yo"],
    ],
}  # fmt: skip


def test_flowers_begins_as_published(tmp_path):
    WRITERS["flowers102"](tmp_path)
    drawn = json.loads(draw_split("flowers102", [tmp_path]))
    for part, names in PUBLISHED.items():
        assert [row[0] for row in drawn[part]][: len(names)] == names
    assert drawn["train"][0][1:] == [76, "passion flower"]
    sizes = {part: [sum(row[1] == number for row in rows) for number in (76, 72)] for part, rows in drawn.items()}
    assert sizes == {"train": [126, 6], "val": [50, 2], "test": [75, 4]}
    assert len({row[0] for rows in drawn.values() for row in rows}) == 251 + 12
    assert len(set(dataset_table()["flowers102"]["names"])) == DATASETS["flowers102"].classes


@pytest.mark.parametrize("name", TRAINED)
def test_a_fifth_of_the_makers_training_images_is_held_out(name, tmp_path):
    WRITERS[name](tmp_path)
    drawn = json.loads(draw_split(name, [tmp_path / "elsewhere", tmp_path]))
    assert [row[0] for row in drawn["train"]][: len(TRAINED[name])] == TRAINED[name]
    assert drawn["val"] == HELD[name]
    assert not {row[0] for row in drawn["train"]} & {row[0] for row in drawn["val"]}
    (tmp_path / "split.json").write_bytes(draw_split(name, [tmp_path]))
    assert {row.split for row in read_split(tmp_path / "split.json")} == {"train", "val", "test"}


def test_the_splits_that_can_be_drawn_have_the_digest_of_the_published_file():
    for name in LISTS:
        split = [item for item in downloads()[name] if item.file == DATASETS[name].split_file]
        assert [item.digest.partition(":")[0] for item in split] == ["git"]


def test_what_cannot_be_drawn_is_refused(tmp_path):
    with pytest.raises(DatasetError, match="depends on the order of files"):
        draw_split("dtd", [tmp_path])
    WRITERS["sun397"](tmp_path)
    (tmp_path / "Training_01.txt").unlink()
    with pytest.raises(DatasetError, match=r"Training_01.txt' is missing. It is in https://vision"):
        draw_split("sun397", [tmp_path])
    (tmp_path / "imagelabels.mat").write_bytes(b"nothing of Matlab")
    with pytest.raises(DatasetError, match="is not a folder with the makers' lists"):
        draw_split("flowers102", [tmp_path])


def test_offline_a_split_is_drawn_from_the_makers_lists_and_its_digest_checked(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    home = tmp_path / "oxford-iiit-pet"  # where torchvision puts it
    home.mkdir()
    WRITERS["oxfordpets"](home)
    content = draw_split("oxfordpets", [home])
    git = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
    file = str(DATASETS["oxfordpets"].split_file)
    for digest, said in ((git, "drawn again into"), ("0" * 40, "Nor could it be drawn again")):
        item = Download(f"http://127.0.0.1:9/{file}", "oxford_pets", "MIT", f"git:{digest}")
        monkeypatch.setattr(fetching, "downloads", lambda item=item: {"oxfordpets": [item]})
        told = next(fetch("oxfordpets", tmp_path))
        assert said in told
        assert "was not fetched from" in told
        place = tmp_path / "oxford_pets" / file
        assert place.is_file() == (digest == git)
        if place.is_file():
            assert place.read_bytes() == content
            finder = unchecked(DATASETS["oxfordpets"])
            assert isinstance(finder, SplitFileFinder)
            assert place in finder.places([tmp_path])
            place.unlink()
