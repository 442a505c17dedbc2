from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.sources.endpoint.retry import FIRST, MOST, asked_to_wait, passing, pause


@given(st.integers(100, 599))
def test_nothing_but_408_429_and_5xx_passes(status):
    assert passing(status) == (status in {408, 429} | set(range(500, 600)))


@given(st.integers(0, 10_000), st.integers())
def test_a_pause_is_drawn_from_nothing_to_a_bound_that_doubles(attempt, seed):
    bound = FIRST
    for _ in range(min(attempt, 20)):
        bound = min(MOST, 2 * bound)
    assert 0 <= pause(attempt, random.Random(seed)) <= bound


def test_pauses_fill_their_range():
    drawn = [pause(3, random.Random(seed)) for seed in range(400)]
    assert min(drawn) < 0.05 * 8 * FIRST
    assert max(drawn) > 0.95 * 8 * FIRST
    assert sum(drawn) / 400 == pytest.approx(4 * FIRST, rel=0.1)  # 7 standard errors of the mean of 400


def test_a_server_may_ask_in_seconds_or_by_the_clock():
    now = datetime(2030, 1, 1, tzinfo=UTC)
    later = format_datetime(now + timedelta(seconds=90), usegmt=True)
    assert asked_to_wait({"retry-after": later}, now) == 90
    assert asked_to_wait({"retry-after": later}, now + timedelta(hours=1)) == 0
    assert asked_to_wait({"retry-after": " 12 "}) == 12


@pytest.mark.parametrize("odd", ["", "-1", "1e9", "9" * 30, "nan", "Wed, 99 Foo 2030", "\x00", "١٢"])
def test_what_is_no_time_is_none(odd):
    assert asked_to_wait({"retry-after": odd}) is None
