from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import yoro
from yoro.discriminant.calibration import margins
from yoro.model.metrics import wilson_interval
from yoro.trust.learning_curve import QUANTILE, forecast, measured

MARGINS = arrays(np.float64, st.integers(1, 60), elements=st.floats(-1e6, 1e6))


@given(MARGINS, st.floats(1, 1000), st.integers(2, 2000))
def test_more_images_never_promise_less_and_bounds_hold_the_value(drawn, images, classes):
    points = forecast(images, drawn, classes)
    values = [point.accuracy for point in points]
    assert values == sorted(values)
    assert all(0 <= point.low <= point.accuracy <= point.high <= 1 for point in points)


@given(st.integers(1, 500), st.data())
def test_a_measured_share_lies_within_wilsons_wider_interval(n, data):
    right = data.draw(st.integers(0, n))
    point = measured(1.0, right / n, n)
    low, high = wilson_interval(right / n, n)  # 95 %
    assert low - 1e-12 <= point.low <= point.accuracy <= point.high <= high + 1e-12
    assert QUANTILE < 1.96


def test_margins_are_between_the_right_class_and_the_best_other():
    logs = np.log([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6]])
    assert -margins(logs, np.array([0, 1]))[0] == pytest.approx([np.log(5 / 3), np.log(1 / 3)])


@pytest.mark.long
def test_eight_images_a_class_tell_of_sixteen_and_thirty_two(digits):
    """Means of ten draws of pixels, which the formula was not made from: within 3 points, and the bounds hold."""
    responses, labels = digits
    off, held = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        own = [rng.permutation(np.flatnonzero(labels == name)) for name in np.unique(labels)]
        few, rest = np.concatenate([rows[:8] for rows in own]), np.concatenate([rows[32:] for rows in own])
        points = yoro.fit((responses[few], labels[few])).advice().forecast[1:]
        for point, each in zip(points, (16, 32), strict=True):
            rows = np.concatenate([mine[:each] for mine in own])
            truth = yoro.fit((responses[rows], labels[rows])).score((responses[rest], labels[rest]))
            assert point.images == each
            off.append(abs(point.accuracy - truth))
            held.append(point.low <= truth <= point.high)
    assert np.mean(off) < 0.03
    assert np.mean(held) >= 0.8
