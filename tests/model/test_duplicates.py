from __future__ import annotations

from yoro.model.ledger import find_duplicates


def test_the_same_content_under_two_labels_names_both_files() -> None:
    found = find_duplicates([b"aa", b"bb", b"aa"], ["cat", "cat", "dog"], ["1.jpg", "2.jpg", "3.jpg"])
    (conflict,) = found.conflicts
    assert (conflict.name, conflict.label) == ("1.jpg", "cat")
    assert (conflict.other_name, conflict.other_label) == ("3.jpg", "dog")
    assert "once labelled 'cat' and once 'dog'" in str(conflict)
    assert found.repeats == []


def test_a_repeat_within_a_class_is_no_contradiction() -> None:
    found = find_duplicates(iter([b"aa"] * 3), iter(["cat"] * 3), iter(["1.jpg", "2.jpg", "3.jpg"]))
    assert [(repeat.name, repeat.other_name) for repeat in found.repeats] == [("1.jpg", "2.jpg"), ("1.jpg", "3.jpg")]
    assert "twice in class 'cat'" in str(found.repeats[0])
    assert found.conflicts == []


def test_three_labels_of_one_image_are_three_contradictions() -> None:
    assert len(find_duplicates([b"aa"] * 3, ["x", "y", "z"], ["1", "2", "3"]).conflicts) == 3


def test_different_images_are_no_duplicates() -> None:
    found = find_duplicates([b"aa", b"bb"], ["x", "y"], ["1", "2"])
    assert not found.conflicts
    assert not found.repeats


def test_two_classes_of_the_same_images_are_called_that():
    digests, labels = [b"a", b"b", b"c"] * 2 + [b"d", b"d"], ["cat"] * 3 + ["Cat"] * 3 + ["cat", "dog"]
    found = find_duplicates(digests, labels, map(str, range(8)))
    first, second = found.conflicts_told({"cat": 4, "Cat": 3, "dog": 40})
    assert first.startswith("The classes 'cat' and 'Cat' contain the same images (3 of 3)")
    assert "'6' and '7' are the same image" in second
