"""Tip-Adapter (Zhang et al. 2022): stored training vectors vote, beside the zero-shot answer.

    scores = scale v'T + alpha exp(-beta (1 - v'K)) Y

K are the training vectors at unit length, Y their indicators. The published code averages ten
crops into a key and bounds the grid of (beta, alpha) for each dataset; here a key is one image, and
the bounds are the most frequent of the published ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from yoro.peers.contract import Array, Method, Scorer, Task, correct, held, one_hot, unit

SHARPEST, HEAVIEST = 12.0, 10.0  # bounds of beta and alpha
BETAS = tuple(0.1 + i * (SHARPEST - 0.1) / 200 for i in range(200))
ALPHAS = tuple(0.1 + j * (HEAVIEST - 0.1) / 20 for j in range(20))
ROWS = 1024  # vectors scored at a time


@dataclass(frozen=True)
class Cache:
    """Keys (n, dimension) with values (n, classes), beside a zero-shot head (dimension, classes)."""

    keys: Array
    values: Array
    head: Array
    beta: float
    alpha: float

    def __call__(self, responses: Array) -> Array:
        """Scores (n, classes)."""
        parts = [unit(responses[i : i + ROWS]) for i in range(0, len(responses), ROWS)]
        scored = [part @ self.head + self.alpha * self.votes(part) for part in parts]
        return np.concatenate(scored) if scored else np.empty((0, self.head.shape[1]))

    def votes(self, vectors: Array) -> Array:
        """What the cache alone says of unit vectors."""
        return np.exp(-self.beta * (1.0 - vectors @ self.keys.T)) @ self.values


def fit(task: Task) -> Scorer:
    """Keys are stored as they are; (beta, alpha) are chosen on validation data, ties to the smaller."""
    texts, task = task.needed_texts(), task.normalised()
    head = texts.scale * texts.heads.T
    trial = task.validated()
    beta, alpha = best_mix(trial, trial.responses, head)
    return Cache(task.responses, one_hot(task.truth, len(task.classes)), head, beta, alpha)


def best_mix(trial: Task, keys: Array, head: Array) -> tuple[float, float]:
    """The pair (beta, alpha) with the most right answers on the validation data."""
    vectors, truth = held(trial)
    affinity, guess = vectors @ keys.T, vectors @ head
    values = one_hot(trial.truth, len(trial.classes))
    best, pair = -1, (BETAS[0], ALPHAS[0])
    for beta in BETAS:
        votes = np.exp(-beta * (1.0 - affinity)) @ values
        for alpha in ALPHAS:
            right = correct(guess + alpha * votes, truth)
            if right > best:
                best, pair = right, (beta, alpha)
    return pair


TIP_ADAPTER = Method(
    "tip-adapter", fit, ("features", "texts", "stored data", "validation"),
    about="stored training vectors vote beside the zero-shot answer",
)  # fmt: skip
