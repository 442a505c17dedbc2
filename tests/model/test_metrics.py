"""Counts of answers: of few classes a matrix, of many the confusions alone."""

from __future__ import annotations

import numpy as np
import pytest

from yoro.model.answers import _ranked
from yoro.model.metrics import MATRIX_CLASSES, Tally


def answers(classes: int, n: int = 300) -> tuple[Tally, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    truth, answer = rng.integers(0, classes, n), rng.integers(0, classes, n)
    answer[: n // 2] = truth[: n // 2]
    names = tuple(f"c{i:05d}" for i in range(classes))
    tally = Tally(names)
    for part in np.array_split(np.arange(n), 7):
        logs = np.full((len(part), classes), -20.0)
        logs[np.arange(len(part)), answer[part]] = 0.0
        tally.update(logs, [names[i] for i in truth[part]])
    return tally, truth, answer


@pytest.mark.parametrize("together", [1, 4])
def test_the_matrix_counts_every_pair(together):
    tally, truth, answer = answers(10)
    expected = np.zeros((10, 10), dtype=int)
    np.add.at(expected, (truth, answer), 1)
    evaluation = tally.result()
    np.testing.assert_array_equal(evaluation.confusion, expected)
    starts = np.arange(0, 10, together)
    shared = np.add.reduceat(np.add.reduceat(expected, starts, axis=0), starts, axis=1)
    np.testing.assert_array_equal(evaluation.matrix(together), shared)
    assert not {"confusions", "mistakes"} & set(evaluation.to_json())


def test_more_classes_than_a_matrix_takes_are_counted_by_their_confusions():
    tally, truth, answer = answers(MATRIX_CLASSES + 1)
    evaluation = tally.result()
    assert evaluation.confusion == ()
    assert evaluation.accuracy == np.mean(truth == answer)
    listed = evaluation.to_json()["confusions"]
    assert sum(pair["n"] for pair in listed) == (truth != answer).sum()
    assert evaluation.matrix(100).sum() == len(truth)


@pytest.mark.parametrize("top", [1, 3, 6, 40, None])
def test_the_best_classes_are_those_of_a_stable_sort(top):
    rng = np.random.default_rng(0)
    for _ in range(20):
        logs = rng.integers(-4, 0, 40).astype(float)  # many are equal
        logs[rng.integers(0, 40, 3)] = -np.inf
        order = np.argsort(-logs, kind="stable").tolist()
        assert _ranked(logs, top) == order[:top]
        among = rng.random(40) < 0.3
        assert _ranked(logs, among=among) == [i for i in order if among[i]]
