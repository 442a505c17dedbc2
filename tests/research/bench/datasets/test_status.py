from __future__ import annotations

import json
from dataclasses import replace

import pytest

from command_line import invoke
from research.bench.datasets.dataset_cases import COUNTS, LAYOUTS, make_gtsrb, make_published
from yoro.errors import DatasetError, InputError
from yoro.research.bench.datasets.attribute_files import BANKS, find_bank, find_index, read_templates
from yoro.research.bench.datasets.bench_datasets import DATASETS
from yoro.research.bench.datasets.drawing import draw_published
from yoro.research.bench.datasets.status import all_status, status, status_advice, status_table

FLOWERS = LAYOUTS[0]
BANK = {"ant": ["an ant"], "bee": ["a bee"]}
PUBLISHED = {
    "des": ["attributes/oxford_flowers/dvp__attributes__des.json", "attributes/oxford_flowers/attrvr__gpt3__des.json",
            "attributes/oxford_flowers_des.json", "DecoupledVP/attributes/oxford_flowers_des.json",
            "AttrVR/attributes/gpt3/oxford_flowers_des.json"],
    "dist": ["attributes/oxford_flowers/attrvr__gpt3__dist.json", "AttrVR/attributes/gpt3/oxford_flowers_dist.json"],
    "cse_2": ["attributes/oxford_flowers/dvp__causes__cse_2.json", "causes/oxford_flowers_cse_2.json"],
}  # fmt: skip


def write(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def states(items) -> dict[str, str]:
    return {item.kind: item.state for item in items}


def test_nothing_is_there_in_an_empty_root(tmp_path):
    items = status(DATASETS["flowers102"], [tmp_path])
    assert states(items) == {
        "images": "missing", "split file": "missing", "sentences des": "missing", "sentences dist": "missing",
        "sentences cse": "missing", "few-shot index": "missing",
    }  # fmt: skip
    assert [item.needed for item in items] == [True, True, True, False, False, False]
    assert all(item.looked and not item.present for item in items)
    assert all(item.where for item in items)


def test_what_is_there_is_counted(tmp_path):
    dataset = make_published(tmp_path, FLOWERS)
    for kind in BANKS:
        file = f"dvp__causes__{kind}" if kind.startswith("cse") else f"attrvr__gpt3__{kind}"
        write(tmp_path / f"attributes/oxford_flowers/{file}.json", BANK)
    for seed in (1, 2, 3):
        write(tmp_path / f"oxford_flowers/split_fewshot/shot_16-seed_{seed}.json", {})
    items = status(dataset, [tmp_path])
    assert set(states(items).values()) == {"present"}
    assert items[0].found == {**COUNTS, "classes": 2} == items[0].expected
    assert items[0].place == str(tmp_path / "oxford_flowers")


@pytest.mark.parametrize(
    ("harm", "state"),
    [
        (lambda root: (root / "oxford_flowers/jpg/image_00001.jpg").unlink(), "partial"),
        (lambda root: (root / "oxford_flowers/split_zhou_OxfordFlowers.json").unlink(), "no split file"),
        (
            lambda root: make_published(root, replace(FLOWERS, folder="flowers-102"), {"train": 3}, split=False),
            "two copies",
        ),
        (lambda root: (root / "oxford_flowers/split_zhou_OxfordFlowers.json").write_text("{"), "broken"),
    ],
)
def test_what_is_wrong_has_a_state_of_its_own(harm, state, tmp_path):
    dataset = make_published(tmp_path, FLOWERS)
    harm(tmp_path)
    image = status(dataset, [tmp_path])[0]
    assert image.state == state
    assert image.problem


def test_datasets_without_published_sentences_have_none(tmp_path):
    assert states(status(make_gtsrb(tmp_path), [tmp_path])) == {"images": "present"}
    with pytest.raises(DatasetError, match=r"No attribute files were published for GTSRB"):
        find_bank(DATASETS["gtsrb"], [tmp_path], "des")


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in PUBLISHED.items() for name in names])
def test_sentences_are_found_by_every_published_name(kind, name, tmp_path):
    file = write(tmp_path / name, BANK)
    assert find_bank(DATASETS["flowers102"], [tmp_path / "elsewhere", tmp_path], kind) == file


def test_sentences_that_are_missing_odd_or_double_are_said(tmp_path):
    flowers = DATASETS["flowers102"]
    with pytest.raises(DatasetError, match=r"dvp__attributes__des.json.*Chengyi Cai"):
        find_bank(flowers, [tmp_path], "des")
    with pytest.raises(InputError, match=r"'all'\. Choose one of des, dist, cse_1"):
        find_bank(flowers, [tmp_path], "all")
    write(tmp_path / PUBLISHED["des"][0], BANK)
    write(tmp_path / PUBLISHED["des"][1], BANK)
    assert find_bank(flowers, [tmp_path], "des").name == "dvp__attributes__des.json"
    write(tmp_path / PUBLISHED["des"][1], {"ant": ["another"]})
    with pytest.raises(DatasetError, match=r"differ. Remove one"):
        find_bank(flowers, [tmp_path], "des")


def test_sentences_for_too_few_classes_are_partial_and_broken_ones_broken(tmp_path):
    file = write(tmp_path / PUBLISHED["des"][0], BANK)
    item = status(DATASETS["flowers102"], [tmp_path])[2]
    assert (item.state, item.found, item.expected) == ("partial", {"classes": 2}, {"classes": 102})
    file.write_text("[" * 100_000)
    assert status(DATASETS["flowers102"], [tmp_path])[2].state == "broken"
    write(tmp_path / PUBLISHED["cse_2"][0], {str(n): ["x"] for n in range(102)})
    causes = status(DATASETS["flowers102"], [tmp_path])[4]
    assert (causes.state, causes.found) == ("partial", {"files": 1})


def test_templates_of_a_user_are_found_and_ours_are_said_to_stand_in(tmp_path):
    flowers = [DATASETS["flowers102"]]
    assert [item.kind for item in all_status([tmp_path], [DATASETS["svhn"]])] == ["images"]
    items = all_status([tmp_path], flowers)[-2:]
    assert [item.kind for item in items] == ["templates imagenet", "templates carprt"]
    assert all("used instead" in item.problem for item in items)
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates/imagenet.txt").write_text("a photo of a {}.\n" * 80)
    (tmp_path / "templates/carprt.txt").write_text("a photo of a {}.\n\na sketch of {a}.")
    items = all_status([tmp_path], flowers)[-2:]
    assert [item.state for item in items] == ["present", "partial"]
    assert read_templates(tmp_path / "templates/carprt.txt") == ["a photo of a {name}.", "a sketch of {a}."]
    (tmp_path / "templates/carprt.txt").write_text("a photo\n")
    with pytest.raises(InputError, match=r"'a photo' has no place for the class"):
        read_templates(tmp_path / "templates/carprt.txt")
    assert all_status([tmp_path], flowers)[-1].state == "broken"


def test_a_published_index_is_found_and_draws_its_images(tmp_path):
    flowers = make_published(tmp_path, FLOWERS)
    dataset = flowers.find([tmp_path]).dataset
    content = {
        split: {
            "data": [{"impath": f"./data/oxford_flowers/jpg/{place}", "label": 0, "classname": label}],
            "indices": [0],
        }
        for split, place, label in (("train", "image_00001.jpg", "bee"), ("val", "image_00008.jpg", "ant"))
    }
    file = write(tmp_path / "oxford_flowers/split_fewshot/shot_16-seed_2.json", content)
    assert find_index(flowers, [tmp_path], 2) == file
    assert find_index(flowers, [tmp_path], 1) is None
    drawn = draw_published(dataset, file)
    assert [example.name for example in (*drawn.train, *drawn.val)] == ["image_00001.jpg", "image_00008.jpg"]
    assert len(drawn.test) == COUNTS["test"]
    content["train"]["data"][0]["classname"] = "ant"
    with pytest.raises(InputError, match=r"'ant'.*'bee'"):
        draw_published(dataset, write(file, content))
    content["train"]["data"][0]["impath"] = "image_00009.jpg"  # a test image
    with pytest.raises(InputError, match=r"which is not in the dataset"):
        draw_published(dataset, write(file, content))
    (tmp_path / "splits").mkdir()
    file.rename(tmp_path / "splits/oxford_flowers-shot_16-seed_3.json")
    assert find_index(flowers, [tmp_path], 3) is not None


def test_the_table_is_aligned_and_the_advice_names_what_to_do(tmp_path):
    items = all_status([tmp_path], [DATASETS["flowers102"], DATASETS["cifar10"], DATASETS["dtd"]])
    lines = status_table(items).splitlines()
    column = lines[0].index("state")
    assert all(line[column - 1] == " " and line[column] != " " for line in lines)
    assert lines[1].split()[:3] == ["flowers102", "images", "missing"]
    assert "4,093, 1,633, 2,463, 102" in lines[1]
    advice = status_advice(items)
    assert sum("sentences des (flowers102, dtd)" in paragraph for paragraph in advice) == 1
    assert any("KaiyangZhou/CoOp" in paragraph for paragraph in advice)


def test_the_verb_prints_a_table_or_json_and_exits_with_zero(tmp_path):
    make_published(tmp_path, FLOWERS)
    run = invoke("bench", "datasets", "flowers102", "digits", "--data", tmp_path)
    assert run.code == 0, run.stderr
    assert "flowers102" in run.stdout
    assert "partial" in run.stdout
    assert "expected train 4,093" in run.stdout
    run = invoke("bench", "datasets", "digits", "--data", tmp_path, "--json")
    digits = json.loads(run.stdout)[0]
    assert (digits["dataset"], digits["kind"], digits["present"]) == ("digits", "images", True)
    assert digits["found"] == {"train": 1258, "test": 539, "classes": 10}


def test_the_verb_refuses_a_wrong_root_and_an_unknown_name(tmp_path):
    run = invoke("bench", "datasets", "--data", tmp_path / "gone")
    assert (run.code, run.stdout) == (1, "")
    assert "does not exist" in run.stderr
    run = invoke("bench", "datasets", "cifar")
    assert "Did you mean 'cifar10'?" in run.stderr
