"""Every step can be undone and done again, whatever the steps were."""

from __future__ import annotations

import copy
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro import limits
from yoro.errors import InputError
from yoro.studio.edits import Edit, Photo
from yoro.studio.state import State
from yoro.studio.training_data import content_of
from yoro.studio.training_data import test_labels as labels_for_testing

DIGESTS = [f"{i:032x}" for i in range(6)]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("class"), st.sampled_from("abcd")),
        st.tuples(st.just("rename"), st.integers(1, 4), st.sampled_from("abcdef")),
        st.tuples(st.just("unclass"), st.integers(1, 4)),
        st.tuples(st.just("add"), st.lists(st.sampled_from(DIGESTS)), st.integers(0, 4)),
        st.tuples(st.just("move"), st.lists(st.sampled_from(DIGESTS)), st.integers(0, 4)),
        st.tuples(st.just("remove"), st.lists(st.sampled_from(DIGESTS))),
        st.tuples(st.just("merge"), st.integers(1, 4), st.integers(1, 4)),
        st.tuples(st.just("keep"), st.lists(st.sampled_from(DIGESTS))),
        st.tuples(st.just("aside"), st.lists(st.sampled_from(DIGESTS)), st.booleans()),
        st.tuples(st.just("undo")),
        st.tuples(st.just("redo")),
    )
)


def change_of(state: State, step: tuple) -> Edit:
    kind, *words = step
    if kind == "class":
        return state.adding_class(*words)[0]
    if kind == "add":
        if words[1]:
            state.check_class(words[1])
        return state.adding_photos([(digest, "a.jpg", words[1], False) for digest in words[0]])
    verb = {"rename": "renaming", "unclass": "removing_class", "move": "moving", "remove": "removing"}
    verb = (verb | {"merge": "merging", "keep": "keeping", "aside": "putting_aside"})[kind]
    return getattr(state, verb)(*words)


def arranged(state: State) -> tuple:
    return state.classes, state.photos


@given(STEPS)
def test_undoing_everything_leads_back_and_redoing_forth(steps):
    state = State()
    for step in steps:
        if step in (("undo",), ("redo",)):
            if state.done if step == ("undo",) else state.undone:
                getattr(state, step[0])()
            continue
        try:
            change = change_of(state, step)
        except InputError:
            continue
        assert Edit.from_json(change.to_json()) == change
        state.do(change)
        assert {photo.belongs for photo in state.photos.values()} <= {0, *state.classes}
        assert len(set(state.classes.values())) == len(state.classes)
    end, done = copy.deepcopy(arranged(state)), len(state.done)
    for _ in range(done):
        state.undo()
    assert arranged(state) == ({}, {})
    for _ in range(done):
        state.redo()
    assert arranged(state) == end


def test_a_photo_that_comes_again_is_moved_but_not_out_of_its_class():
    state = State()
    for name in ("cat", "dog"):
        state.do(state.adding_class(name)[0])
    state.do(state.adding_photos([(DIGESTS[0], "a.jpg", 1, False)]))
    assert state.adding_photos([(DIGESTS[0], "b.jpg", 0, False)]).empty
    state.do(state.adding_photos([(DIGESTS[0], "b.jpg", 2, False)]))
    assert state.photos == {DIGESTS[0]: Photo("a.jpg", 2, 1)}


def test_beyond_the_limits_nothing_is_added(monkeypatch):
    monkeypatch.setattr(limits, "STUDIO_PHOTOS", 2)
    monkeypatch.setattr(limits, "STUDIO_CLASSES", 1)
    state = State()
    state.do(state.adding_class("cat")[0])
    with pytest.raises(InputError, match="1 classes"):
        state.adding_class("dog")
    with pytest.raises(InputError, match="2 photos"):
        state.adding_photos([(digest, "a.jpg", 1, False) for digest in DIGESTS])


def stocked():
    """Two classes with a photo each."""
    state = State()
    for number, name in enumerate(("cat", "dog"), 1):
        state.do(state.adding_class(name)[0])
        state.do(state.adding_photos([(DIGESTS[number - 1], f"{name}.jpg", number, False)]))
    return state


def test_renaming_to_a_name_that_exists_merges_and_undoing_takes_apart():
    state = stocked()
    state.do(state.renaming(2, "cat"))
    assert (state.classes, state.members(1)) == ({1: "cat"}, [DIGESTS[0], DIGESTS[1]])
    state.undo()
    assert (state.classes, state.members(2)) == ({1: "cat", 2: "dog"}, [DIGESTS[1]])


def test_the_parts_of_a_drop_are_one_step_and_another_drop_is_another():
    state = State()
    state.do(state.adding_class("cat")[0])
    for i, drop in enumerate(("a", "a", "b")):
        edit = replace(state.adding_photos([(f"{i:032x}", f"{i}.jpg", 1, False)]), drop=drop)
        state.do(Edit.from_json(json.loads(json.dumps(edit.to_json()))))
    assert [edit.what for edit in state.done] == ["Add the class cat", "Add 2 photos", "Add 1 photo"]
    state.undo()
    state.undo()
    assert state.photos == {}
    state.redo()
    assert state.members(1) == [f"{0:032x}", f"{1:032x}"]


def test_a_label_that_was_kept_is_doubted_again_once_the_photo_moves():
    state = stocked()
    state.do(state.keeping([DIGESTS[0]]))
    assert state.photos[DIGESTS[0]].checked
    state.do(state.moving([DIGESTS[0]], 2))
    assert not state.photos[DIGESTS[0]].checked


def test_photos_for_testing_are_not_learned_from():
    state = stocked()
    state.do(state.putting_aside([DIGESTS[0]], True))
    assert (state.test_set(), state.members(1), state.counts()[1]) == ([DIGESTS[0]], [], 0)
    assert content_of(state, None, set(DIGESTS)).photos == {DIGESTS[1]: "dog"}
    assert labels_for_testing(state, set(DIGESTS)) == {DIGESTS[0]: "cat"}
    state.do(state.removing_class(1))  # an unsorted photo can test nothing
    assert (state.test_set(), state.members(0)) == ([], [DIGESTS[0]])


def test_unsorted_photos_cannot_be_kept_for_testing():
    state = State()
    state.do(state.adding_photos([(DIGESTS[0], "a.jpg", 0, False)]))
    with pytest.raises(InputError, match="move these to their class first"):
        state.putting_aside([DIGESTS[0]], True)


def test_a_share_for_testing_leaves_every_class_a_photo():
    state = stocked()
    more = [(f"{i:032x}", "a.jpg", 1, False) for i in range(10, 19)]
    state.do(state.adding_photos(more))
    state.do(state.putting_share_aside(0.9))
    assert (len(state.test_set()), len(state.members(1)), len(state.members(2))) == (9, 1, 1)


def test_sorting_names_new_classes_in_the_same_step():
    state = stocked()
    state.do(state.sorting({DIGESTS[0]: "bird", DIGESTS[1]: "cat"}))
    assert state.classes == {1: "cat", 2: "dog", 3: "bird"}
    assert (state.members(3), state.members(1)) == ([DIGESTS[0]], [DIGESTS[1]])
    assert state.done[-1].what == "Sort 2 photos into 2 classes"
