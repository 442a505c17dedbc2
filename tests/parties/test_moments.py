from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.readings import Layout, Reading
from yoro.errors import InputError, WidthError
from yoro.parties.moments import from_vector, length, to_vector

LAYOUT = Layout((Reading("logits", 4), Reading("features", 3)))
CLASSES = ("cat", "dog", "owl")


def statistics(seed: int, n: int = 40, classes: tuple[str, ...] = CLASSES, offset: float = 0.0) -> JointStatistics:
    rng = np.random.default_rng(seed)
    result = JointStatistics(LAYOUT)
    result.update(rng.normal(size=(n, 7)) + offset, [classes[i] for i in rng.integers(0, len(classes), n)])
    return result


def same(one: JointStatistics, two: JointStatistics, rtol: float = 1e-12) -> None:
    assert one.classes == two.classes
    np.testing.assert_array_equal(one.counts, two.counts)
    for mine, theirs in zip(one.parts, two.parts, strict=True):
        np.testing.assert_allclose(mine.means, theirs.means, rtol=rtol, atol=rtol)
        np.testing.assert_allclose(mine.scatter, theirs.scatter, rtol=rtol, atol=rtol * np.abs(theirs.scatter).max())


@given(seed=st.integers(0, 1000), move=st.floats(-3, 3))
def test_a_vector_is_the_statistics_about_any_point(seed, move):
    whole = statistics(seed)
    shift = np.full(7, move)
    vector = to_vector(whole, whole.classes, shift)
    assert len(vector) == length(len(whole.classes), LAYOUT)
    same(from_vector(vector, whole.classes, LAYOUT, shift), whole)


@given(seeds=st.lists(st.integers(0, 1000), min_size=2, max_size=6, unique=True))
def test_vectors_add_up_to_that_of_the_whole_though_parties_lack_classes(seeds):
    parts = [statistics(seed, 5, CLASSES[: 1 + seed % 3]) for seed in seeds]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole + part
    vector = sum(to_vector(part, CLASSES, np.zeros(7)) for part in parts)
    same(from_vector(vector, CLASSES, LAYOUT, np.zeros(7)), whole, 1e-11)


def test_the_vector_has_the_plain_sums_in_it():
    rng = np.random.default_rng(0)
    rows, labels, shift = rng.normal(size=(30, 7)), ["cat", "dog", "owl"] * 10, rng.normal(size=7)
    whole = JointStatistics(LAYOUT)
    whole.update(rows, labels)
    vector, moved, member = to_vector(whole, CLASSES, shift), rows - shift, np.eye(3)[[0, 1, 2] * 10]
    expected = [member.sum(axis=0)]
    for part in LAYOUT.slices:
        second = moved[:, part].T @ moved[:, part]
        expected += [(member.T @ moved[:, part]).ravel(), second[np.triu_indices(len(second))]]
    np.testing.assert_allclose(vector, np.concatenate(expected), rtol=1e-12, atol=1e-12)


def test_a_point_near_the_data_keeps_the_digits_that_a_far_one_loses():
    whole, far = statistics(0, offset=1e4), np.zeros(7)
    near = np.full(7, 1e4)
    same(from_vector(to_vector(whole, CLASSES, near), CLASSES, LAYOUT, near), whole)
    lost = from_vector(to_vector(whole, CLASSES, far), CLASSES, LAYOUT, far)
    assert np.abs(lost.parts[0].scatter - whole.parts[0].scatter).max() > 1e-9


def test_strange_classes_and_widths_are_refused():
    with pytest.raises(InputError, match="'owl' is not in the agreement"):
        to_vector(statistics(0), ("cat", "dog"), np.zeros(7))
    with pytest.raises(WidthError, match="the agreement has width 6"):
        to_vector(statistics(0), CLASSES, np.zeros(6))
    with pytest.raises(WidthError):
        from_vector(np.zeros(5), CLASSES, LAYOUT, np.zeros(7))
    with pytest.raises(InputError, match="negative count"):
        from_vector(np.full(length(3, LAYOUT), -1.0), CLASSES, LAYOUT, np.zeros(7))
