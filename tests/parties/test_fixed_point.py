from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.errors import InputError
from yoro.parties.fixed_point import BITS, add, check_bits, decode, encode, largest, negate, subtract

WHOLE = 2**128
bits = st.integers(1, 110)
integers = st.lists(st.integers(0, WHOLE - 1), min_size=1, max_size=6)
numbers = st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=8)


def limbs_of(values: list[int]) -> np.ndarray:
    return np.array([[v % 2**64, v >> 64] for v in values], dtype=np.uint64)


def integers_of(limbs: np.ndarray) -> list[int]:
    return [int(low) + (int(high) << 64) for low, high in limbs]


@given(values=numbers, places=st.integers(20, 80))
def test_a_number_becomes_the_nearest_integer_of_its_scale(values, places):
    found = integers_of(encode(np.array(values), places))
    for value, integer in zip(values, found, strict=True):
        signed = integer - WHOLE if integer >= WHOLE // 2 else integer
        assert abs(Fraction(signed) - Fraction(value) * 2**places) <= Fraction(1, 2)


@given(values=numbers)
def test_decoding_gives_back_what_was_encoded_to_rounding(values):
    given_back = decode(encode(np.array(values), BITS), BITS)
    np.testing.assert_allclose(given_back, values, rtol=4.5e-16, atol=2.0**-BITS)


@given(one=integers, seed=st.integers(0, 99))
def test_adding_and_taking_away_are_those_of_integers_modulo_two_to_the_128(one, seed):
    other = [v * 0x9E3779B97F4A7C15F39CC0605CEDC835 * (seed + 1) % WHOLE for v in reversed(one)]
    total = limbs_of(one)
    add(total, limbs_of(other))
    assert integers_of(total) == [(a + b) % WHOLE for a, b in zip(one, other, strict=True)]
    subtract(total, limbs_of(other))
    assert integers_of(total) == one
    subtract(total, limbs_of(other))
    assert integers_of(total) == [(a - b) % WHOLE for a, b in zip(one, other, strict=True)]
    negate(total, np.ones(len(one), dtype=bool))
    assert integers_of(total) == [(b - a) % WHOLE for a, b in zip(one, other, strict=True)]


@pytest.mark.parametrize("edge", [0, 1, 2**64 - 1, 2**64, 2**127 - 1, 2**127, WHOLE - 1])
def test_carries_at_every_edge(edge):
    for other in (0, 1, 2**64 - 1, 2**64, 2**127, WHOLE - 1):
        total = limbs_of([edge])
        add(total, limbs_of([other]))
        assert integers_of(total) == [(edge + other) % WHOLE]
        total = limbs_of([edge])
        subtract(total, limbs_of([other]))
        assert integers_of(total) == [(edge - other) % WHOLE]


@given(rows=st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1, max_size=9), data=st.data())
def test_any_order_and_any_grouping_have_one_sum_and_it_is_exact(rows, data):
    coded = [encode(np.array(row), BITS, len(rows)) for row in rows]
    order = data.draw(st.permutations(range(len(rows))))
    cut = data.draw(st.integers(0, len(rows)))
    halves = [np.zeros((3, 2), dtype=np.uint64) for _ in range(2)]
    for place, row in enumerate(order):
        add(halves[place < cut], coded[row])
    add(halves[0], halves[1])
    plain = np.zeros((3, 2), dtype=np.uint64)
    for row in coded:
        add(plain, row)
    np.testing.assert_array_equal(halves[0], plain)
    exact = [float(sum(Fraction(row[i]) for row in rows)) for i in range(3)]
    # Decoding rounds each limb and their sum: two units in the last place at most.
    np.testing.assert_allclose(decode(plain, BITS), exact, rtol=4.5e-16, atol=len(rows) * 2.0**-BITS)


@given(places=bits, terms=st.integers(1, 1000))
def test_no_sum_of_the_largest_numbers_overflows(places, terms):
    most = largest(places, terms)
    one = encode(np.array([most, -most]), places, terms)
    signed = [v - WHOLE if v >= WHOLE // 2 else v for v in integers_of(one)]
    assert all(abs(terms * v) < 2**127 for v in signed)
    with pytest.raises(InputError, match="fewer bits"):
        encode(np.array([most * 1.01]), places, terms)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(odd):
    with pytest.raises(InputError):
        encode(np.array([1.0, odd]), BITS)


@pytest.mark.parametrize("odd", [0, -1, 111])
def test_bits_that_leave_no_room_are_refused(odd):
    with pytest.raises(InputError, match="expected 1 to 110"):
        check_bits(odd)
