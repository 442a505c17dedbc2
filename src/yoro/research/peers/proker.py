"""ProKeR (Bendou et al. 2025): kernel ridge on what the zero-shot answer leaves over.

    K(x, y) = exp(-beta (1 - x'y)),   A = (K_SS / lambda + I)^-1 (Y - F_S T),   scores = F_x T + K_xS A

Cosines here carry no scale. beta is one of 20 values from 0.5 to 3, lambda one of 10 from 0.001 to
1, by validation. One eigendecomposition serves every lambda. The formula is as published in code;
since A holds a factor lambda, lambda weighs the kernel against the zero-shot answer too.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.linalg import eigh

from yoro.research.peers.method import Array, FitTask, Method, Scorer, held, most_right, one_hot
from yoro.research.peers.tip_adapter import Cache, kernel

BETAS = tuple(np.linspace(0.5, 3.0, 20).tolist())
PENALTIES = tuple(np.linspace(0.001, 1.0, 10).tolist())


class Residual:
    """What the zero-shot answer leaves over, in the eigenbasis of the kernel at one beta."""

    def __init__(self, task: FitTask, head: Array, beta: float) -> None:
        values, self._basis = eigh(kernel(task.responses @ task.responses.T, beta))
        self._values = np.maximum(values, 0.0)
        self._left = self._basis.T @ (one_hot(task.truth, len(task.classes)) - task.responses @ head)

    def coefficients(self, penalty: float) -> Array:
        """`(K / penalty + I)^-1 (Y - F T)`, (n, classes)."""
        return self._basis @ (self._left / (self._values / penalty + 1.0)[:, None])  # type: ignore[no-any-return]


def fit(task: FitTask) -> Scorer:
    """The pair (beta, lambda) with the most right answers on validation data, ties to the smaller."""
    head, task = task.needed_texts().heads.T, task.normalised()
    trial = task.validated()
    vectors, truth = held(trial)
    guess, cosines = vectors @ head, vectors @ trial.responses.T

    def answers() -> Iterator[tuple[tuple[float, float], Array]]:
        for beta in BETAS:
            residual, affinity = Residual(trial, head, beta), kernel(cosines, beta)
            for penalty in PENALTIES:
                yield (beta, penalty), guess + affinity @ residual.coefficients(penalty)

    beta, penalty = most_right(answers(), truth)
    return Cache(task.responses, Residual(task, head, beta).coefficients(penalty), head, beta, alpha=1.0)


PROKER = Method(
    "proker", fit, ("features", "texts", "stored data", "validation"),
    about="kernel ridge on what the zero-shot answer leaves over",
)  # fmt: skip
