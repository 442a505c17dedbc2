from __future__ import annotations

import math
import os

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from parties_cases import dealt, key, play, solved
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.readings import Layout, Reading
from yoro.errors import InputError
from yoro.model.card import noise_told
from yoro.model.partial_pass import Clip
from yoro.parties.differential_privacy import (
    Noise,
    bytes_needed,
    clip_of,
    delta_of,
    from_noisy,
    noisy,
    normal,
    scales,
    sensitivity,
    sigma_of,
)
from yoro.parties.moments import length, to_vector
from yoro.parties.secure_aggregation import send, total

LAYOUT = Layout((Reading("logits", 4), Reading("features", 3)))
CLASSES = ("cat", "dog", "owl")


@given(epsilon=st.floats(0.01, 50), log_delta=st.floats(-12, -0.5))
def test_sigma_is_that_of_others_accounting(epsilon, log_delta):
    delta = 10.0**log_delta
    sigma = sigma_of(epsilon, delta)
    assert delta_of(sigma, epsilon) <= delta
    assert sigma == pytest.approx(dp_accounting.get_sigma_gaussian(epsilon, delta), rel=1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-5)])
def test_the_loss_of_the_mechanism_is_what_is_promised(epsilon, delta):
    """By a third route: the distribution of the privacy loss, on a grid."""
    loss = privacy_loss_distribution.from_gaussian_mechanism(sigma_of(epsilon, delta))
    assert loss.get_epsilon_for_delta(delta) == pytest.approx(epsilon, rel=1e-4)


@given(epsilon=st.floats(0.05, 5), more=st.floats(1.01, 3))
def test_a_stronger_promise_takes_more_noise(epsilon, more):
    assert sigma_of(epsilon, 1e-5) > sigma_of(epsilon * more, 1e-5)
    assert sigma_of(epsilon, 1e-6) > sigma_of(epsilon, 1e-5)


def vector_of(rows, labels, shift):
    result = JointStatistics(LAYOUT)
    result.update(rows, labels)
    return to_vector(result, CLASSES, shift)


@given(seed=st.integers(0, 10_000), clip=st.floats(0.1, 10), size=st.floats(0.01, 1000))
def test_one_clipped_image_changes_the_sums_by_no_more_than_is_reckoned_with(seed, clip, size):
    rng = np.random.default_rng(seed)
    shift = rng.normal(size=7)
    rows = Clip(clip, tuple(shift))(size * rng.normal(size=(6, 7)), LAYOUT)
    labels = [CLASSES[i] for i in rng.integers(0, 3, 6)]
    with_it, without = (vector_of(rows[:n], labels[:n], shift) for n in (6, 5))
    change = (with_it - without) / scales(3, LAYOUT, clip)
    assert np.linalg.norm(change) <= sensitivity(LAYOUT) * (1 + 1e-9) + 1e-9 * size**2 / clip**2


def test_the_bound_is_reached_so_less_noise_would_be_too_little():
    """By a response along one axis, of the full length in every reading."""
    row = np.array([[2.0, 0, 0, 0, 0, 2.0, 0]])
    change = vector_of(row, ["cat"], np.zeros(7)) / scales(3, LAYOUT, 2.0)
    assert np.linalg.norm(change) == pytest.approx(sensitivity(LAYOUT)) == math.sqrt(5)


@given(seed=st.integers(0, 1000), length_=st.floats(0.01, 100))
def test_clipping_leaves_what_is_short_enough_and_shortens_the_rest(seed, length_):
    rng = np.random.default_rng(seed)
    rows, shift = 3 * rng.normal(size=(9, 7)), rng.normal(size=7)
    clipped = Clip(length_, tuple(shift))(rows, LAYOUT)
    for part in LAYOUT.slices:
        before, after = (np.linalg.norm((x - shift)[:, part], axis=1) for x in (rows, clipped))
        assert (after <= length_ * (1 + 1e-12)).all()
        np.testing.assert_allclose(after, np.minimum(before, length_), rtol=1e-9)
        np.testing.assert_allclose(clipped[before < length_ * 0.999][:, part], rows[before < length_ * 0.999][:, part])


def test_noise_is_normal_and_of_the_size_that_was_reckoned():
    noise, zero = Noise(1.0, 1e-5, clip=3.0, makers=4), np.zeros(length(3, LAYOUT))
    draws = np.concatenate(
        [
            noisy(zero, 3, LAYOUT, noise, os.urandom(bytes_needed(3, LAYOUT))) / scales(3, LAYOUT, 3.0)
            for _ in range(400)
        ]
    )
    size = noise.sigma * sensitivity(LAYOUT) / 2  # of four makers each has half the deviation
    assert kstest(draws / size, "norm").pvalue > 1e-6
    assert draws.std() == pytest.approx(size, rel=0.03)  # of 16,000 draws: five standard errors


def test_normal_numbers_follow_from_their_bytes():
    content = os.urandom(8000)
    np.testing.assert_array_equal(normal(content), normal(content))
    assert np.isfinite(normal(bytes(16) + b"\xff" * 16)).all()


def test_sums_with_noise_are_statistics_that_can_be_solved():
    rng, noise = np.random.default_rng(0), Noise(1.0, 1e-5, clip=3.0)
    rows, labels = rng.normal(size=(30, 7)), ["cat", "dog", "owl"] * 10
    vector = noisy(vector_of(rows, labels, np.zeros(7)), 3, LAYOUT, noise, os.urandom(bytes_needed(3, LAYOUT)))
    found = from_noisy(vector, CLASSES, LAYOUT, np.zeros(7), noise, 1)
    assert (found.counts >= 1).all()
    for part in found.parts:
        assert np.linalg.eigvalsh(part.scatter).min() > 0


def test_with_little_noise_the_answers_are_nearly_those_without(tmp_path, digits):
    responses, labels = digits[0] / 64, digits[1]  # the longest is 1.2
    clip = Clip(1.3)(responses, Layout.of(64))
    np.testing.assert_array_equal(clip, responses)
    parts = dealt(responses[:1500], labels[:1500], ("a", "b", "c"))
    plain, hidden = (
        solved(total(play(tmp_path / name, parts, noise=noise, least=3))[0])
        for name, noise in (("plain", None), ("hidden", Noise(1e4, 1e-2, clip=1.3, makers=3)))
    )
    right = [(m.mapping(responses[1500:]).argmax(axis=1) == labels[1500:].astype(int)).mean() for m in (plain, hidden)]
    assert right[1] > right[0] - 0.05
    assert noise_told(hidden.history[-1]["facts"]) == [
        "Noise: epsilon 10000, delta 0.01 for adding or removing one image, clipped to 1.3."
    ]
    assert (hidden.statistics.counts != plain.statistics.counts).all()


def test_noise_of_a_party_is_the_same_again_so_that_a_message_made_twice_is_one(tmp_path, digits):
    parts = dealt(digits[0][:90] / 64, digits[1][:90], ("a", "b"))
    session = play(tmp_path / "s", parts, noise=Noise(1.0, 1e-5, 1.3, 2))
    before = session.message("a").digest
    send(session, parts["a"], key(session.folder, "a"))
    assert session.message("a").digest == before


@pytest.mark.parametrize("odd", ["1", "a,b", "0,1e-5", "1,0", "1,1", "nan,1e-5", "1,1e-5,3", "inf,1e-5"])
def test_what_is_no_noise_is_said(odd):
    with pytest.raises(InputError, match="expected"):
        Noise.parse(odd, clip=1.0)


def test_fewer_may_not_remain_than_make_up_the_noise(tmp_path, digits):
    parts = dealt(digits[0][:90], digits[1][:90], ("a", "b", "c"))
    with pytest.raises(InputError, match="too little"):
        play(tmp_path / "s", parts, noise=Noise(1.0, 1e-5, 1.0, makers=3), least=2)


def test_the_clip_is_known_only_where_readings_have_one_length():
    assert clip_of(Layout((Reading("features", 3, "root"),)), None) == 1.0
    assert clip_of(LAYOUT, 7.0) == 7.0
    with pytest.raises(InputError, match="--clip C"):
        clip_of(LAYOUT, None)


@pytest.mark.parametrize(("epsilon", "delta"), [(1e300, 1e-5), (np.nan, 1e-5), (0.0, 1e-5), (1.0, 1.0), (1e-9, 1e-12)])
def test_a_budget_that_no_noise_keeps_is_refused_before_anything_is_read(epsilon, delta):
    with pytest.raises(InputError, match=r"expected epsilon above 0|No noise can give"):
        Noise(epsilon, delta)


@pytest.mark.parametrize("clip", [0.0, -1.0, np.nan, np.inf, 1e300])
def test_a_length_that_nothing_can_be_clipped_to_is_named(clip):
    with pytest.raises(InputError, match="expected a clip above 0"):
        Noise(1.0, 1e-5, clip)
