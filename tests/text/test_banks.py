from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.errors import InputError
from yoro.text.banks import (
    TEMPLATES,
    Bank,
    draw,
    fill_template,
    make_bank,
    match_classes,
    read_classes,
    read_sentences,
    tidied,
)

LONG = [f"The number {i} of the sentences that describe this class." for i in range(25)]


def written(path, content):
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_published_flaws_are_tidied():
    raw = [".", "", "\n\nThe beagle is a small hound\nwith long ears.", ", a short coat of three colours", "dogs1.",
           "The beagle is a small hound with long ears.", "   "]  # fmt: skip
    assert tidied(raw) == ["The beagle is a small hound with long ears.", "a short coat of three colours"]


def test_short_sentences_count_where_a_class_has_no_longer_ones():
    assert tidied(["whiskers", "purrs", "."]) == ["whiskers", "purrs"]


@given(
    st.lists(st.text(min_size=1), min_size=1, max_size=30, unique=True),
    st.integers(1, 60),
    st.integers(0, 2**32 - 1),
)
def test_a_draw_has_no_repeats_before_it_goes_round(sentences, count, seed):
    drawn = draw(sentences, count, seed, "cat")
    assert len(drawn) == count
    assert drawn == draw(sentences, count, seed, "cat")
    for start in range(0, count, len(sentences)):
        part = drawn[start : start + len(sentences)]
        assert len(set(part)) == len(part)


def test_a_class_draws_the_same_whatever_the_others_are():
    alone, _ = make_bank(["cat"], {"cat": LONG, "dog": LONG})
    beside, _ = make_bank(["cat", "dog"], {"cat": LONG, "dog": LONG})
    assert alone.sentences["cat"] == beside.sentences["cat"] != beside.sentences["dog"]
    assert make_bank(["cat"], {"cat": LONG}, seed=1)[0].sentences != alone.sentences


def test_a_class_with_too_few_sentences_goes_round_and_is_named():
    bank, notes = make_bank(["cat", "dog"], {"cat": LONG, "dog": LONG[:3]})
    assert len(bank.sentences["dog"]) == 20
    assert set(bank.sentences["dog"]) == set(LONG[:3])
    assert notes == ["Fewer than 20 sentences, so some are repeated: 'dog'."]


def test_a_bank_of_one_sentence_a_class_draws_one():
    bank, notes = make_bank(["cat", "dog"], {"cat": ["a small animal that purrs"], "dog": ["an animal that barks"]})
    assert bank.flat() == (["a small animal that purrs", "an animal that barks"], ("cat", "dog"))
    assert notes == ["No class has 20 sentences; 1 per class are used."]


def test_names_match_whatever_their_case_underscores_and_blanks():
    keys = ["American Bulldog", "boxer", "Shiba-Inu"]
    assert match_classes(["american_bulldog", "BOXER", "shiba  inu"], keys) == {
        "american_bulldog": "American Bulldog", "BOXER": "boxer", "shiba  inu": "Shiba-Inu",
    }  # fmt: skip


def test_what_does_not_match_is_listed_with_the_nearest():
    with pytest.raises(
        InputError, match=r"no sentences for 'bigle', 'zebra'. Its nearest class to 'bigle' is 'beagle'"
    ):
        match_classes(["pug", "bigle", "zebra"], ["pug", "beagle"])
    with pytest.raises(InputError, match="'Pug', 'pUg'"):
        match_classes(["pug"], ["Pug", "pUg"])


def test_templates_name_the_class_with_its_article():
    assert fill_template("the colours of {a}.", "american_bulldog") == "the colours of an american bulldog."
    bank, _ = make_bank(["pug", "egyptian_mau"], None)
    assert len(TEMPLATES) == len(set(TEMPLATES)) == 20 == len(bank.sentences["pug"])
    assert all("egyptian mau" in sentence for sentence in bank.sentences["egyptian_mau"])
    assert make_bank(["egyptian_mau"], "names")[0].flat() == (["egyptian mau"], ("egyptian_mau",))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "is empty"),
        ([1], "holds list"),
        ({"cat": "a cat"}, "class 'cat' has str; expected a list"),
        ({"cat": [1]}, "class 'cat'"),
        ({"cat": ["x" * 20_000]}, "over 10,000 characters"),
    ],
)
def test_a_file_that_is_no_bank_says_why(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        read_sentences(written(tmp_path / "bank.json", content))


def test_a_class_without_a_usable_sentence_is_named():
    with pytest.raises(InputError, match="no usable sentence for 'cat'"):
        make_bank(["cat", "dog"], {"cat": [".", " "], "dog": LONG})


def test_a_missing_or_broken_file_says_so(tmp_path):
    with pytest.raises(InputError, match="There is no file"):
        read_sentences(tmp_path / "none.json")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(InputError, match="not JSON"):
        read_sentences(tmp_path / "broken.json")


def test_class_names_come_one_a_line_or_from_a_bank(tmp_path):
    (tmp_path / "names.txt").write_text("\ufeffcat\n\n dog \n", encoding="utf-8")
    assert read_classes(tmp_path / "names.txt") == ["cat", "dog"]
    assert read_classes(written(tmp_path / "bank.json", {"cat": [], "dog": []})) == ["cat", "dog"]
    (tmp_path / "twice.txt").write_text("cat\ncat\n")
    with pytest.raises(InputError, match="names 'cat' twice"):
        read_classes(tmp_path / "twice.txt")
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(InputError, match="names no class"):
        read_classes(tmp_path / "empty.txt")
    with pytest.raises(InputError, match="cannot be read"):
        read_classes(tmp_path / "none.txt")


def test_banks_join_where_they_agree():
    one, two = Bank({"cat": ("a",)}, "x"), Bank({"cat": ("a",), "dog": ("b",)}, "y")
    assert one.joined(two).sentences == {"cat": ("a",), "dog": ("b",)}
    with pytest.raises(InputError, match="different sentences for 'cat'"):
        one.joined(Bank({"cat": ("c",)}, "z"))
    assert two.renamed({"dog": "cat"}).sentences == {"cat": ("a", "b")}


def test_a_sentence_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "bank.json").write_text(json.dumps({"pug": ["a dog with a \ud800 tail"]}))
    with pytest.raises(InputError, match="'pug' has a sentence that is not text"):
        read_sentences(tmp_path / "bank.json")
