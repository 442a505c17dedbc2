"""A mapping that is changed by few images is the one solved of what is there then, with the shrinkage target held."""

from __future__ import annotations

import numpy as np
import pytest

from yoro.data.responses import ResponseBatch
from yoro.discriminant.calibration import log_prior
from yoro.discriminant.evidence import Choice
from yoro.discriminant.rank_one import Change, hold_mapping
from yoro.discriminant.readings import Layout, Reading
from yoro.model.gathered import Gathered

WIDTH, CLASSES, RHO = 24, 4, 0.2


def drawn(count=200):
    draw = np.random.default_rng(5)
    labels = draw.integers(0, CLASSES, count)
    rows = draw.normal(size=(CLASSES, WIDTH))[labels] + draw.normal(size=(count, WIDTH)) @ draw.normal(
        size=(WIDTH, WIDTH)
    )
    return rows, [f"class {label}" for label in labels]


def statistics_of(rows, labels, readings=(WIDTH,)):
    gathered = Gathered.empty(0, 0, Layout(tuple(Reading(f"r{i}", width) for i, width in enumerate(readings))))
    contents = [i.to_bytes(16, "little") for i in range(len(rows))]
    gathered.add([ResponseBatch(rows, list(labels), None, contents, list(labels))])
    return gathered.statistics


def solved(statistics, target):
    """By the formula, without any factor at hand."""
    (part,) = statistics.parts
    covariance = (1 - RHO) * part.scatter / part.degrees + target / part.degrees * np.eye(WIDTH)
    weights = np.linalg.solve(covariance, part.means.T)
    bias = log_prior(part.counts, part.classes) - 0.5 * np.einsum("kd,dk->k", part.means, weights)
    return weights, bias


@pytest.mark.parametrize("count", [20, 200])  # fewer than the coordinates, and more
def test_images_that_come_and_go_are_solved_as_if_they_had_always_been_so(count):
    rows, labels = drawn(count)
    before = statistics_of(rows[:-5], labels[:-5])
    target = RHO * np.trace(before.parts[0].scatter) / WIDTH
    changes = [Change(1, row, label) for row, label in zip(rows[-5:], labels[-5:], strict=True)]
    changes += [Change(-1, row, label) for row, label in zip(rows[:3], labels[:3], strict=True)]
    mapping = hold_mapping(before, Choice("loo", RHO)).changed(changes)
    weights, bias = solved(statistics_of(rows[3:], labels[3:]), target)
    assert mapping.weights == pytest.approx(weights, abs=1e-9 * np.abs(weights).max())
    assert mapping.bias == pytest.approx(bias, abs=1e-9 * np.abs(bias).max())


def test_readings_are_weighed_as_before_and_a_silent_one_stays_silent():
    rows, labels = drawn()
    parts = Choice("loo", RHO, 2.0, weight=1.0), Choice("loo", RHO, 1.0, weight=0.0)
    both = hold_mapping(statistics_of(rows, labels, (20, 4)), Choice("loo", RHO, parts=parts))
    alone = hold_mapping(statistics_of(rows[:, :20], labels, (20,)), Choice("loo", RHO))
    mapping, own = both.changed([Change(-1, rows[0], labels[0])]), alone.changed([Change(-1, rows[0, :20], labels[0])])
    assert not mapping.weights[20:].any()
    assert 2.0 * mapping.weights[:20] == pytest.approx(own.weights)


def test_a_new_class_and_an_empty_one_are_left_to_a_real_solve():
    rows, labels = drawn(60)
    labels[0] = "alone"
    held = hold_mapping(statistics_of(rows, labels), Choice("loo", RHO))
    assert held.changed([Change(1, rows[0], "never seen")]) is None
    assert held.changed([Change(-1, rows[0], "alone")]) is None
