from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from yoro.research.peers.method import FitTask, make_task, unit


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """Small matrices on a busy machine are a hundred times slower in several threads."""
    with threadpool_limits(1, user_api="blas"):
        yield


@pytest.fixture(scope="session")
def halves(digits) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training responses and labels (16 a class), test responses and labels: real pixels of digits."""
    responses, labels = digits
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.permutation(np.flatnonzero(labels == name))[:16] for name in np.unique(labels)])
    rest = np.setdiff1d(np.arange(len(labels)), rows)[:600]
    return responses[rows], labels[rows], responses[rest], labels[rest]


@pytest.fixture(scope="session")
def plain(halves) -> FitTask:
    """Without texts."""
    return make_task(halves[0], halves[1])


@pytest.fixture(scope="session")
def spoken(halves, digits) -> FitTask:
    """With texts: unit pixels as image vectors, and of each class three noisy means as text vectors."""
    responses, labels = digits
    rng = np.random.default_rng(1)
    texts = {
        str(name): unit(unit(responses[labels == name]).mean(axis=0) + 0.08 * rng.normal(size=(3, 64)))
        for name in np.unique(labels)
    }
    return make_task(unit(halves[0]), halves[1], texts=texts, scale=100.0)


@pytest.fixture(scope="session")
def judged(spoken, halves) -> FitTask:
    """The same with 150 images to choose settings on, so that nothing is held out."""
    return replace(spoken, validation=(unit(halves[2][:150]), np.searchsorted(np.unique(halves[3]), halves[3][:150])))


@pytest.fixture(scope="session")
def tested(halves) -> np.ndarray:
    """Image vectors that no fixture has chosen on."""
    return unit(halves[2][150:])


@pytest.fixture(scope="session")
def answers(halves):
    """Accuracy of a scorer on the test half."""

    def accuracy(scorer) -> float:
        scores = scorer(halves[2])
        assert scores.shape == (600, 10)
        return float((np.unique(halves[3])[scores.argmax(axis=1)] == halves[3]).mean())

    return accuracy
