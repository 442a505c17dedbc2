"""Every step can be undone and done again, whatever the steps were."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro import limits
from yoro.errors import InputError
from yoro.studio.edits import Edit, Photo
from yoro.studio.state import State

DIGESTS = [f"{i:032x}" for i in range(6)]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("class"), st.sampled_from("abcd")),
        st.tuples(st.just("rename"), st.integers(1, 4), st.sampled_from("abcdef")),
        st.tuples(st.just("unclass"), st.integers(1, 4)),
        st.tuples(st.just("add"), st.lists(st.sampled_from(DIGESTS)), st.integers(0, 4)),
        st.tuples(st.just("move"), st.lists(st.sampled_from(DIGESTS)), st.integers(0, 4)),
        st.tuples(st.just("remove"), st.lists(st.sampled_from(DIGESTS))),
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
        return state.adding_photos([(digest, "a.jpg", words[1]) for digest in words[0]])
    verb = {"rename": "renaming", "unclass": "removing_class", "move": "moving", "remove": "removing"}[kind]
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
    state.do(state.adding_photos([(DIGESTS[0], "a.jpg", 1)]))
    assert state.adding_photos([(DIGESTS[0], "b.jpg", 0)]).empty
    state.do(state.adding_photos([(DIGESTS[0], "b.jpg", 2)]))
    assert state.photos == {DIGESTS[0]: Photo("a.jpg", 2, 1)}


def test_beyond_the_limits_nothing_is_added(monkeypatch):
    monkeypatch.setattr(limits, "STUDIO_PHOTOS", 2)
    monkeypatch.setattr(limits, "STUDIO_CLASSES", 1)
    state = State()
    state.do(state.adding_class("cat")[0])
    with pytest.raises(InputError, match="1 classes"):
        state.adding_class("dog")
    with pytest.raises(InputError, match="2 photos"):
        state.adding_photos([(digest, "a.jpg", 1) for digest in DIGESTS])
