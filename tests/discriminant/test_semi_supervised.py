"""Learning from unlabelled responses: made-up clusters, strangers among them, and the choice not to use them."""

from __future__ import annotations

import numpy as np
import pytest

from yoro.discriminant.readings import Layout, Reading
from yoro.discriminant.semi_supervised import (
    ALONE,
    RANK,
    _Space,
    _Task,
    _Tried,
    _usual,
    halves_doubt,
    label_weights,
    learn_from_pile,
)
from yoro.discriminant.solve import solve_mapping
from yoro.discriminant.statistics import ResponseStatistics

pytestmark = pytest.mark.filterwarnings("ignore::yoro.errors.DegenerateWarning")

LAYOUT = Layout((Reading("one", 24), Reading("two", 16), Reading("noise", 12)))
CLASSES = ["ant", "bee", "cat", "dog"]


def drawn(rng: np.random.Generator, each: int, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Responses of four classes in three readings, the last of which knows nothing."""
    means = np.random.default_rng(7).normal(size=(4, 40)) * 1.2
    truth = np.repeat(np.arange(4), each)
    told = means[truth] + spread * rng.normal(size=(len(truth), 40))
    return np.hstack([told, rng.normal(size=(len(truth), 12))]), truth


def refit_of(responses: np.ndarray, truth: np.ndarray):
    def refit(rows: np.ndarray):
        statistics = ResponseStatistics(CLASSES)
        statistics.update(responses[rows], [CLASSES[i] for i in truth[rows]])
        return solve_mapping(statistics, 1.0)

    return refit


def learned(responses: np.ndarray, truth: np.ndarray, pile: np.ndarray):
    groups = np.full(len(truth), "", dtype="<U1")
    return learn_from_pile(LAYOUT, responses, truth, groups, pile, refit_of(responses, truth))


def right(mapping, responses: np.ndarray, truth: np.ndarray) -> float:
    return float((mapping(responses).argmax(axis=1) == truth).mean())


@pytest.mark.parametrize(("labels", "spread"), [(1, 1.6), (2, 1.6), (4, 2.4)])  # so that some held out are wrong
def test_unlabelled_responses_raise_the_accuracy_of_few_labels(labels, spread):
    rng = np.random.default_rng(labels)
    known, truth = drawn(rng, labels, spread)
    pile, _ = drawn(rng, 80, spread)
    asked, wanted = drawn(rng, 200, spread)
    found = learned(known, truth, pile)
    before = right(refit_of(known, truth)(np.arange(len(truth))), asked, wanted)
    assert found.choice.weight > 0
    assert right(found.mapping, asked, wanted) > before + 0.02
    assert found.choice.readings[2] == min(found.choice.readings)  # the reading that knows nothing


def test_a_pile_of_strangers_is_left_out_and_changes_nothing():
    rng = np.random.default_rng(0)
    known, truth = drawn(rng, 4)
    found = learned(known, truth, 30 + rng.normal(size=(200, 52)))
    plain = refit_of(known, truth)(np.arange(len(truth)))
    assert (found.choice.weight, found.choice.used, found.choice.unlike) == (0, 0, 200)
    np.testing.assert_array_equal(found.mapping.weights, plain.weights)


def test_a_pile_without_the_classes_in_it_is_not_used():
    """Unlabelled responses that fall into clusters which are not the classes."""
    rng = np.random.default_rng(2)
    known, truth = drawn(rng, 30)
    other = rng.normal(size=(4, 52)) * 0.5
    pile = known.mean(axis=0) + other[rng.integers(0, 4, 400)] + 0.2 * rng.normal(size=(400, 52))
    found = learned(known, truth, pile)
    asked, wanted = drawn(rng, 200)
    plain = refit_of(known, truth)(np.arange(len(truth)))
    assert right(found.mapping, asked, wanted) >= right(plain, asked, wanted) - 0.01


def test_the_held_out_scores_are_of_every_label_and_honest():
    rng = np.random.default_rng(3)
    known, truth = drawn(rng, 6, 1.6)
    pile, _ = drawn(rng, 80, 1.6)
    asked, wanted = drawn(rng, 300, 1.6)
    found = learned(known, truth, pile)
    assert found.left_out is not None
    assert sorted(found.rows.tolist()) == list(range(24))
    assert found.choice.after == pytest.approx((found.left_out.scores.argmax(axis=1) == found.left_out.truth).mean())
    assert abs(found.choice.after - right(found.mapping, asked, wanted)) < 0.2


def test_labels_of_a_group_are_held_out_together():
    """Each label stands twice: without groups the twin of a label held out would answer for it."""
    rng = np.random.default_rng(4)
    known, truth = drawn(rng, 4, 3.0)
    twice, both = np.repeat(known, 2, axis=0), np.repeat(truth, 2)
    groups = np.repeat([f"g{i}" for i in range(len(truth))], 2)
    pile, _ = drawn(rng, 60, 3.0)
    apart = learned(twice, both, pile)
    together = learn_from_pile(LAYOUT, twice, both, groups, pile, refit_of(twice, both))
    assert together.choice.before < apart.choice.before


def test_the_result_does_not_depend_on_the_order_of_the_pile():
    rng = np.random.default_rng(5)
    known, truth = drawn(rng, 3)
    pile, _ = drawn(rng, 40)
    one, two = learned(known, truth, pile), learned(known, truth, pile[rng.permutation(len(pile))])
    assert one.choice.weight == two.choice.weight
    np.testing.assert_allclose(one.mapping.weights, two.mapping.weights, rtol=1e-5, atol=1e-6)


def task_of(known: np.ndarray, truth: np.ndarray, pile: np.ndarray) -> _Task:
    said = refit_of(known, truth)(np.arange(len(truth)))(pile)
    return _Task(_Space.of(LAYOUT, known, pile, RANK), truth, said, 4)


def test_a_single_label_a_class_counts_more_where_halves_of_the_pile_disagree():
    """Tight clusters are found again in either half; without any clusters halves lead to different answers."""
    rng, weights = np.random.default_rng(6), np.array([0.5, 0.5, 0.0])
    known, truth = drawn(rng, 1)
    clear, _ = drawn(rng, 40, 0.5)
    alike = task_of(known, truth, clear)
    noise = task_of(known, truth, rng.normal(size=(160, 52)))
    assert halves_doubt(alike, weights) < 0.05
    assert halves_doubt(noise, weights) > 0.3
    assert _usual(noise, weights)[1] == halves_doubt(noise, weights)


@pytest.mark.parametrize(("gain", "used"), [(0.0, False), (1.0, True)])
def test_the_pile_must_be_better_by_a_standard_error_of_the_labels_held_out(gain, used):
    rng = np.random.default_rng(8)
    truth = np.repeat(np.arange(4), 10)
    alone = rng.normal(size=(40, 4))
    mixture = alone + gain * np.eye(4)[truth]
    tried = _Tried(np.arange(40), truth, alone, {ALONE: mixture}, 4.0)
    assert (tried.chosen((ALONE, 0.3)) is not None) == used


@pytest.mark.parametrize(("harm", "used"), [(0.5, True), (6.0, False)])
def test_with_two_labels_a_class_only_clear_harm_on_those_held_out_speaks_against_the_pile(harm, used):
    rng, truth = np.random.default_rng(9), np.repeat(np.arange(4), 2)
    alone, mixture = rng.normal(size=(2, 8, 4))
    tried = _Tried(np.arange(8), truth, alone + harm * np.eye(4)[truth], {ALONE: 2 * mixture}, 2.0)
    assert (tried.chosen((ALONE, 0.3)) is not None) == used


def test_readings_weigh_in_the_mixture_what_they_weigh_with_the_labels():
    """Unlabelled responses whose strongest clusters are in the reading that the labels know to be noise."""
    rng = np.random.default_rng(10)
    known, truth = drawn(rng, 8, 1.6)
    pile, wanted = drawn(rng, 60, 1.6)
    pile[:, 40:] += 6 * np.eye(12)[rng.integers(0, 4, len(pile))]
    base = refit_of(known, truth)(np.arange(len(truth)))
    base.weights[40:] = 0.0
    weights = label_weights(base, LAYOUT.slices, pile)
    assert weights[2] == 0
    assert weights.sum() == pytest.approx(1)
    task = _Task(_Space.of(LAYOUT, known, pile, RANK), truth, base(pile), 4)
    found = task.run(ALONE, weights).responsibilities.argmax(axis=1)
    assert (found == wanted).mean() > 0.8
