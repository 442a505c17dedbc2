"""ProKeR (Bendou et al. 2025): kernel ridge on what the zero-shot answer leaves over.

    K(x, y) = exp(-beta (1 - x'y)),   A = (K_SS / lambda + I)^-1 (Y - F_S T),   scores = F_x T + K_xS A

Cosines here carry no scale. beta is one of 20 values from 0.5 to 3, lambda one of 10 from 0.001 to
1, by validation. One eigendecomposition serves every lambda. The formula is as published in code;
since A holds a factor lambda, lambda weighs the kernel against the zero-shot answer too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from yoro.peers.contract import Array, Method, Scorer, Task, correct, held, one_hot, unit

BETAS = tuple(np.linspace(0.5, 3.0, 20).tolist())
PENALTIES = tuple(np.linspace(0.001, 1.0, 10).tolist())
ROWS = 1024  # vectors scored at a time


@dataclass(frozen=True)
class KernelScores:
    """Stored keys (n, dimension) and coefficients (n, classes), beside the zero-shot head."""

    keys: Array
    coefficients: Array
    head: Array  # (dimension, classes)
    beta: float

    def __call__(self, responses: Array) -> Array:
        """Scores (n, classes)."""
        parts = [unit(responses[i : i + ROWS]) for i in range(0, len(responses), ROWS)]
        scored = [part @ self.head + kernel(part, self.keys, self.beta) @ self.coefficients for part in parts]
        return np.concatenate(scored) if scored else np.empty((0, self.head.shape[1]))


def kernel(one: Array, two: Array, beta: float) -> Array:
    """Values (n, m) between unit vectors."""
    return np.exp(-beta * (1.0 - one @ two.T))


class Residual:
    """What the zero-shot answer leaves over, in the eigenbasis of the kernel at one beta."""

    def __init__(self, task: Task, head: Array, beta: float) -> None:
        values, self._basis = eigh(kernel(task.responses, task.responses, beta))
        self._values = np.maximum(values, 0.0)
        self._left = self._basis.T @ (one_hot(task.truth, len(task.classes)) - task.responses @ head)

    def coefficients(self, penalty: float) -> Array:
        """`(K / penalty + I)^-1 (Y - F T)`, (n, classes)."""
        return self._basis @ (self._left / (self._values / penalty + 1.0)[:, None])  # type: ignore[no-any-return]


def fit(task: Task) -> Scorer:
    """The pair (beta, lambda) with the most right answers on validation data, ties to the smaller."""
    head, task = task.needed_texts().heads.T, task.normalised()
    trial = task.validated()
    vectors, truth = held(trial)
    guess = vectors @ head
    best, chosen = -1, (BETAS[0], PENALTIES[0])
    for beta in BETAS:
        residual, affinity = Residual(trial, head, beta), kernel(vectors, trial.responses, beta)
        for penalty in PENALTIES:
            right = correct(guess + affinity @ residual.coefficients(penalty), truth)
            if right > best:
                best, chosen = right, (beta, penalty)
    beta, penalty = chosen
    return KernelScores(task.responses, Residual(task, head, beta).coefficients(penalty), head, beta)


PROKER = Method(
    "proker", fit, ("features", "texts", "stored data", "validation"),
    about="kernel ridge on what the zero-shot answer leaves over",
)  # fmt: skip
