from __future__ import annotations

import json
import math
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.errors import AnswerError
from yoro.sources.endpoint.answer_parsing import excerpt, order_in, parse_path, parsed, spelled, vector_at


def vector_in(content, path, width):
    return vector_at(parsed(content), path, width)


NAMES = st.text("abzAZ_", min_size=1, max_size=3).flatmap(lambda head: st.text("aZ0_-", max_size=4).map(head.__add__))
PATHS = st.lists(st.one_of(NAMES, st.integers(0, 999_999)), max_size=8).map(tuple)
NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["data", "embedding", "x"]), inner),
    max_leaves=12,
)


@given(PATHS)
def test_a_path_that_is_written_and_read_is_the_same(path):
    assert parse_path(spelled(path)) == path


@given(PATHS, st.lists(NUMBERS, min_size=1, max_size=20))
def test_a_vector_is_found_wherever_it_is_and_keeps_every_bit(path, numbers):
    value: object = numbers
    for step in reversed(path):
        value = [None] * (step % 50) + [value] if isinstance(step, int) else {"other": 1, step: value}
    path = tuple(step % 50 if isinstance(step, int) else step for step in path)
    found = vector_in(json.dumps(value).encode(), path, len(numbers))
    np.testing.assert_array_equal(found, np.array(numbers, np.float32))


@given(JSON)
def test_whatever_comes_is_a_vector_or_an_error_of_ours(value):
    with suppress(AnswerError):
        found = vector_in(json.dumps(value).encode(), parse_path("data[0].embedding"), None)
        assert found.dtype == np.float32
        assert np.isfinite(found).all()


@pytest.mark.parametrize("odd", [math.nan, math.inf, 1e39, 10**400, True, None, "1", [1]])
def test_what_is_no_number_of_single_precision_is_refused(odd):
    with pytest.raises(AnswerError):
        vector_in(json.dumps({"v": [1.0, odd]}).encode(), ("v",), None)


def test_deep_and_long_answers_are_refused():
    with pytest.raises(AnswerError, match="not JSON"):
        vector_in(b"[" * 100_000, ("v",), None)
    with pytest.raises(AnswerError, match="20,000 numbers; expected 1 to 16,384"):
        vector_in(json.dumps({"v": [0.5] * 20_000}).encode(), ("v",), None)


def test_what_a_server_says_is_shown_short_in_one_line_and_without_secrets():
    said = excerpt(b"wrong key\n\x1b[2J Bearer sesame " + b"x" * 10_000, ["Bearer sesame", "sesame"])
    assert said.startswith("'wrong key \\\\x1b[2J *** xxx")
    assert len(said) < 220
    assert excerpt(b" \n") == "nothing"


@pytest.mark.parametrize("items", [[{"index": 0}, {}], [{"index": 1}, {"index": 1}], [{}], {}, [{}, {}, {}], None])
def test_items_that_cannot_be_told_apart_or_counted_are_refused(items):
    with pytest.raises(AnswerError):
        order_in({"data": items}, ("data",), 2)
