from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.sources.endpoint.client import FIRST_BACKOFF, LONGEST_BACKOFF, backoff, is_retryable, retry_after


@given(st.integers(100, 599))
def test_nothing_but_408_429_and_5xx_is_retried(status):
    assert is_retryable(status) == (status in {408, 429} | set(range(500, 600)))


@given(st.integers(0, 10_000), st.integers())
def test_a_backoff_is_drawn_from_nothing_to_a_bound_that_doubles(attempt, seed):
    bound = FIRST_BACKOFF
    for _ in range(min(attempt, 20)):
        bound = min(LONGEST_BACKOFF, 2 * bound)
    assert 0 <= backoff(attempt, random.Random(seed)) <= bound


def test_backoffs_fill_their_range():
    drawn = [backoff(3, random.Random(seed)) for seed in range(400)]
    assert min(drawn) < 0.05 * 8 * FIRST_BACKOFF
    assert max(drawn) > 0.95 * 8 * FIRST_BACKOFF
    assert sum(drawn) / 400 == pytest.approx(4 * FIRST_BACKOFF, rel=0.1)  # 7 standard errors of the mean of 400


def test_a_server_may_ask_in_seconds_or_by_the_clock():
    now = datetime(2030, 1, 1, tzinfo=UTC)
    later = format_datetime(now + timedelta(seconds=90), usegmt=True)
    assert retry_after({"retry-after": later}, now) == 90
    assert retry_after({"retry-after": later}, now + timedelta(hours=1)) == 0
    assert retry_after({"retry-after": " 12 "}) == 12


@pytest.mark.parametrize("odd", ["", "-1", "1e9", "9" * 30, "nan", "Wed, 99 Foo 2030", "\x00", "١٢"])
def test_what_is_no_time_is_none(odd):
    assert retry_after({"retry-after": odd}) is None
