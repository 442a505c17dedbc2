from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from yoro.data.decoding import decode
from yoro.data.examples import Dataset, Example
from yoro.data.find import find, find_named
from yoro.data.geometry import Geometry
from yoro.errors import ImageError, InputError

from .conftest import save


def names(dataset: Dataset) -> list[str]:
    return [example.name for example in dataset]


def said(dataset: Dataset, *words: str) -> bool:
    return any(all(word in note for word in words) for note in dataset.notes)


def test_class_folders_become_classes(flowers: Path) -> None:
    found = find(flowers)
    assert found.classes == ["rose", "tulip"]
    assert names(found) == [f"{label}/{n}.png" for label in ("rose", "tulip") for n in range(3)]
    assert found.splits == []
    assert found.notes == ()


@pytest.mark.parametrize("spelling", ["val", "valid", "validation", "dev", "Val"])
def test_split_folders_are_recognised_under_every_spelling(tmp_path: Path, spelling: str) -> None:
    for split in ("train", spelling, "test"):
        save(tmp_path / split / "cat" / "a.png")
    found = find(tmp_path)
    assert found.classes == ["cat"]
    assert found.splits == ["test", "train", "val"]
    assert names(found.select("val")) == [f"{spelling}/cat/a.png"]


def test_training_and_testing_are_splits_too(tmp_path: Path) -> None:
    for split in ("Training", "Testing"):
        save(tmp_path / split / "glioma" / "a.png")
    assert find(tmp_path).splits == ["test", "train"]


def test_a_folder_without_images_beside_a_lone_split_leaves_it_a_split(tmp_path: Path) -> None:
    save(tmp_path / "train" / "cat" / "a.png")
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "a.xml").write_text("<a/>")
    found = find(tmp_path)
    assert (found.classes, found.splits) == (["cat"], ["train"])


def test_a_class_called_train_beside_others_stays_a_class(tmp_path: Path) -> None:
    save(tmp_path / "train" / "steam" / "a.png")
    save(tmp_path / "bus" / "b.png")
    found = find(tmp_path)
    assert found.classes == ["bus", "train"]
    assert said(found, "not splits", "'train'")


def test_folders_called_train_and_test_without_class_folders_are_classes(tmp_path: Path) -> None:
    save(tmp_path / "train" / "a.png")
    save(tmp_path / "test" / "b.png")
    assert find(tmp_path).classes == ["test", "train"]


def test_unsorted_test_images_beside_a_sorted_train_folder_are_left_alone(tmp_path: Path) -> None:
    save(tmp_path / "train" / "cat" / "a.png")
    save(tmp_path / "test" / "b.png")
    found = find(tmp_path)
    assert (found.classes, found.splits) == (["cat"], ["train"])
    assert said(found, "without a class", "'test'")


def test_unsorted_training_images_are_refused(tmp_path: Path) -> None:
    save(tmp_path / "test" / "cat" / "a.png")
    save(tmp_path / "train" / "b.png")
    with pytest.raises(InputError, match="without a class"):
        find(tmp_path)


@pytest.mark.parametrize("splits", [("train", "test"), ("train",)])
def test_an_unlabelled_folder_beside_splits_is_no_class(tmp_path: Path, splits: tuple[str, ...]) -> None:
    for split in splits:
        save(tmp_path / split / "cat" / "a.png")
    save(tmp_path / "unlabelled" / "b.png")
    found = find(tmp_path)
    assert (found.classes, found.splits) == (["cat"], sorted(splits))
    assert said(found, "next to the splits", "'unlabelled'")


@pytest.mark.parametrize("wrapper", ["photos", "photos/photos"])
def test_a_folder_around_everything_is_passed_through(flowers: Path, tmp_path: Path, wrapper: str) -> None:
    inner = tmp_path / "outer" / wrapper
    inner.parent.mkdir(parents=True)
    flowers.rename(inner)
    save(tmp_path / "outer" / "__MACOSX" / "photos" / "rose" / "._0.png")
    (tmp_path / "outer" / "read me.txt").write_text("x")
    found = find(tmp_path / "outer")
    assert found.classes == ["rose", "tulip"]
    assert names(found)[0] == f"{wrapper}/rose/0.png"
    assert said(found, "Everything is in", f"'{wrapper}'")


def test_a_folder_around_splits_is_passed_through(tmp_path: Path) -> None:
    for split in ("train", "test"):
        save(tmp_path / "data" / split / "cat" / "a.png")
    assert find(tmp_path).splits == ["test", "train"]


def test_one_class_folder_with_folders_in_it_stays_a_class_if_it_is_known(flowers: Path, tmp_path: Path) -> None:
    flowers.rename(tmp_path / "wild")
    (tmp_path / "outer").mkdir()
    (tmp_path / "wild").rename(tmp_path / "outer" / "wild")
    assert find(tmp_path / "outer").classes == ["rose", "tulip"]
    assert find(tmp_path / "outer", known=("wild", "tame")).classes == ["wild"]


def test_links_in_a_circle_are_no_wrapper(tmp_path: Path) -> None:
    save(tmp_path / "a" / "x" / "1.png")
    (tmp_path / "a" / "x" / "up").symlink_to(tmp_path / "a")
    assert find(tmp_path).classes == ["a"]


def test_several_folders_are_one(flowers: Path, tmp_path: Path) -> None:
    save(tmp_path / "more" / "lily" / "0.png")
    save(tmp_path / "more" / "rose" / "0.png")
    found = find([flowers, str(tmp_path / "more")])
    assert found.classes == ["lily", "rose", "tulip"]
    assert len(set(names(found))) == len(found) == 8
    assert all(Path(name).exists() for name in names(found))


def test_several_folders_of_a_class_each_are_classes(flowers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find([flowers / "rose", flowers / "tulip"])
    assert found.classes == ["rose", "tulip"]
    assert said(found, "Each folder given is read as a class", "'rose'", "'tulip'")
    assert all(Path(name).exists() for name in names(found))
    monkeypatch.chdir(flowers / "rose")
    assert find([".", "../tulip"]).classes == ["rose", "tulip"]


@pytest.mark.parametrize("other", ["test", "unlabelled"])
def test_a_folder_named_as_having_no_class_is_not_taken_for_one(flowers: Path, other: str) -> None:
    save(flowers / other / "0.png")
    with pytest.raises(InputError, match="No labelled image"):
        find([flowers / "rose", flowers / other])


def test_a_folder_named_after_a_known_class_is_that_class(flowers: Path) -> None:
    found = find(flowers / "rose", known=("rose", "tulip"))
    assert found.classes == ["rose"]
    assert said(found, "read as images of the class 'rose'")
    with pytest.raises(InputError, match="No labelled image"):
        find(flowers / "rose", known=("lily",))


def test_a_model_given_as_images_says_which_comes_first(tmp_path: Path) -> None:
    (tmp_path / "m.yoro").mkdir()
    with pytest.raises(InputError, match="is a saved model, not images; the model comes first"):
        find(tmp_path / "m.yoro", labelled=False)


def test_images_folders_and_lists_are_predicted_together(flowers: Path, tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("path\nflowers/tulip/0.png\n")
    one = flowers / "rose" / "0.png"
    found = find([one, one, tmp_path / "gone.jpg", flowers / "tulip", tmp_path / "list.csv"], labelled=False)
    assert names(found)[:3] == [str(one), str(one), str(tmp_path / "gone.jpg")]
    assert len(found) == 7


def test_an_absent_split_is_named_with_those_found(tmp_path: Path) -> None:
    save(tmp_path / "test" / "cat" / "a.png")
    with pytest.raises(InputError, match=r"no split 'train'; found: test"):
        find(tmp_path).select("train")


def test_hidden_empty_and_foreign_are_ignored_and_listed(flowers: Path) -> None:
    save(flowers / ".ipynb_checkpoints" / "a.png")
    save(flowers / "rose" / ".thumb.png")
    (flowers / "empty").mkdir()
    (flowers / "rose" / "notes.txt").write_text("x")
    save(flowers / "stray.png")
    found = find(flowers)
    assert found.classes == ["rose", "tulip"]
    assert len(found) == 6
    assert said(found, "hidden", ".ipynb_checkpoints", "rose/.thumb.png")
    assert said(found, "without images", "'empty'")
    assert said(found, "suffix", "rose/notes.txt")
    assert said(found, "outside", "stray.png")


def test_a_note_names_a_few_and_counts_the_rest(flowers: Path) -> None:
    for number in range(9):
        (flowers / "rose" / f"{number}.txt").write_text("x")
    assert said(find(flowers), "and 4 more")


def test_nested_folders_belong_to_their_class(flowers: Path) -> None:
    save(flowers / "rose" / "red" / "old" / "a.png")
    found = find(flowers)
    assert [e.label for e in found if "red" in e.name] == ["rose"]
    assert said(found, "nested", "'rose'")


def test_symlink_loop_ends(flowers: Path) -> None:
    (flowers / "rose" / "loop").symlink_to(flowers)
    (flowers / "rose" / "again").symlink_to(flowers / "rose")
    (flowers / "tulip" / "up").symlink_to(flowers.parent)
    found = find(flowers)
    assert len(found) == 6
    assert said(found, "link back", "rose/again", "rose/loop", "tulip/up")
    assert len(find(flowers, labelled=False)) == 6


def test_a_linked_class_folder_is_read(flowers: Path, tmp_path: Path) -> None:
    save(tmp_path / "elsewhere" / "a.png")
    (flowers / "lily").symlink_to(tmp_path / "elsewhere")
    assert find(flowers).classes == ["lily", "rose", "tulip"]


def test_a_pipe_is_not_opened_and_a_broken_link_is_an_image_that_cannot_be_read(flowers: Path) -> None:
    os.mkfifo(flowers / "rose" / "pipe.jpg")
    (flowers / "rose" / "gone.jpg").symlink_to(flowers / "gone")
    found = find(flowers)
    assert len(found) == 7
    assert said(found, "regular", "rose/pipe.jpg")
    with pytest.raises(ImageError, match=r"'rose/gone.jpg' cannot be read as an image: there is no such file"):
        decode(next(e.image for e in found if e.name == "rose/gone.jpg"), Geometry(8), name="rose/gone.jpg")


def test_uppercase_suffix_spaces_and_foreign_letters_are_fine(tmp_path: Path) -> None:
    save(tmp_path / "Königskerze groß" / "mon été 花.PNG")
    found = find(tmp_path)
    assert found.classes == ["Königskerze groß"]
    assert names(found) == ["Königskerze groß/mon été 花.PNG"]


def test_composed_and_decomposed_names_are_one_class(tmp_path: Path) -> None:
    save(tmp_path / "caf\u00e9" / "a.png")
    save(tmp_path / "cafe\u0301" / "b.png")
    assert find(tmp_path).classes == ["caf\u00e9"]


def test_an_undecodable_name_is_shown_and_found(tmp_path: Path) -> None:
    save(tmp_path / "class" / "x.png").rename(tmp_path / "class" / os.fsdecode(b"\xff.png"))
    found = find(tmp_path)
    assert names(found) == ["class/\\udcff.png"]
    assert isinstance(found.examples[0].image, Path)
    assert found.examples[0].image.exists()


def test_a_missing_path_says_what_is_expected(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"does not exist; expected FOLDER/class/image"):
        find(tmp_path / "nowhere")


def test_a_flat_folder_needs_labels_to_fit_but_not_to_predict(tmp_path: Path) -> None:
    save(tmp_path / "a.png")
    with pytest.raises(InputError, match="No labelled image"):
        find(tmp_path)
    found = find(tmp_path, labelled=False)
    assert (names(found), found.classes) == (["a.png"], [])


def test_unlabelled_folders_are_searched_at_any_depth(flowers: Path) -> None:
    found = find(flowers, labelled=False)
    assert len(found) == 6
    assert found.classes == []


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    for labelled in (True, False):
        with pytest.raises(InputError, match="image was found"):
            find(tmp_path, labelled=labelled)


def test_single_image_is_for_prediction_only(flowers: Path) -> None:
    path = flowers / "rose" / "0.png"
    assert len(find(path, labelled=False)) == 1
    with pytest.raises(InputError, match="without a label"):
        find(path)
    with pytest.raises(InputError, match="not a folder, image, "):
        find(Path(__file__))


def test_iterables_of_pairs_keep_their_order(flowers: Path) -> None:
    array = np.zeros((4, 4, 3), dtype=np.uint8)
    items = [(str(flowers / "rose/0.png"), "b"), (array, 3), (b"bytes", np.int64(4)), (Image.new("L", (2, 2)), "a")]
    found = find(iter(items))
    assert [example.label for example in found] == ["b", "3", "4", "a"]
    assert names(found)[1:] == ["item 1", "item 2", "item 3"]
    assert find(found) is found
    assert find(list(found)).examples == found.examples


def test_images_without_labels_say_how_labels_are_given() -> None:
    with pytest.raises(InputError, match=r"Item 0 is ndarray, without a label; .* as in fit\(images, labels\)"):
        find([np.zeros((8, 8, 3), np.uint8)])


def test_images_without_labels_are_for_prediction() -> None:
    array = np.zeros((5, 4, 4, 3), dtype=np.uint8)
    assert len(find(array, labelled=False)) == 5
    assert len(find(array[0], labelled=False)) == 1
    assert len(find([Image.new("L", (2, 2)), b"x"], labelled=False)) == 2


@pytest.mark.parametrize("data", [7, [], [(b"x", 1.5)], [(b"x", True)], [(b"x", "")], [b"x"], [(3, "a")], b"x"])
def test_unusable_data_is_refused_in_one_line(data: object) -> None:
    with pytest.raises(InputError) as caught:
        find(data)
    assert "\n" not in str(caught.value)
    assert "expected" in str(caught.value)


def test_an_example_without_label_is_refused_for_fitting() -> None:
    with pytest.raises(InputError, match="no label"):
        find([Example(b"x", None, "x")])


def test_a_name_that_is_nearly_right_is_suggested(tmp_path: Path) -> None:
    save(tmp_path / "phone" / "a" / "1.png")
    with pytest.raises(InputError, match=r"phon' does not exist. Did you mean '.*phone/'\?$"):
        find(tmp_path / "phon")


@pytest.mark.parametrize("deep", [True, False])
def test_folders_that_look_like_splits_are_asked_about(tmp_path: Path, deep: bool) -> None:
    for i, name in enumerate(("train_images", "TestSet", "val2017")):
        save(tmp_path / name / ("cat" if deep else "") / "1.png", i)
    with pytest.raises(InputError, match="look like splits, not classes") as error:
        find(tmp_path)
    assert ("--label-from subfolders" in str(error.value)) == deep
    assert find_named(tmp_path, "folders").classes == ["TestSet", "train_images", "val2017"]
    assert find(tmp_path, known=("TestSet", "train_images", "val2017")).splits == []
    if deep:
        assert [(e.label, e.split) for e in find_named(tmp_path, "subfolders")] == [
            ("cat", "test"), ("cat", "train"), ("cat", "val"),
        ]  # fmt: skip


def test_classes_that_have_a_word_of_a_split_in_their_names_stay_classes(tmp_path: Path) -> None:
    for i, name in enumerate(("train_station", "bus_stop", "test_tube")):
        save(tmp_path / name / "1.png", i)
    assert find(tmp_path).classes == ["bus_stop", "test_tube", "train_station"]
