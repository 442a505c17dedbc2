"""RanPAC (McDonnell et al. 2023): ridge regression on a random expansion of the responses.

    h = relu(f W),   W of N(0, 1), 10,000 columns, fixed;   W_o = (H'H + lambda I)^-1 H'Y

No intercept, raw indicators; lambda in 10^-8 .. 10^8 by squared error. The published code measures
it on the last fifth of the data; here on validation data. With fewer images than columns the same
weights come from the n x n form, which needs no 10,000 x 10,000 matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from yoro.research.peers.method import ROWS, Array, FitTask, Method, Scorer, held, in_blocks, one_hot

COLUMNS = 10_000
PENALTIES = tuple(10.0**power for power in range(-8, 9))


@dataclass(frozen=True)
class Expanded:
    """The random projection (width, columns) and the weights behind it (columns, classes)."""

    projection: Array
    weights: Array

    def __call__(self, responses: Array) -> Array:
        return in_blocks(lambda part: expand(part, self.projection) @ self.weights, responses)


def expand(responses: Array, projection: Array) -> Array:
    """Random features (n, columns)."""
    return np.maximum(responses @ projection, 0.0)


class RidgePath:
    """Ridge weights for every penalty from one eigendecomposition, on the smaller side of H (n, columns)."""

    def __init__(self, responses: Array, projection: Array, targets: Array) -> None:
        columns = projection.shape[1]
        self._features = expand(responses, projection) if len(responses) <= columns else None
        if self._features is not None:
            gram, right = self._features @ self._features.T, targets
        else:  # in blocks: all features at once might not fit
            gram, right = np.zeros((columns, columns)), np.zeros((columns, targets.shape[1]))
            for start in range(0, len(responses), ROWS):
                features = expand(responses[start : start + ROWS], projection)
                gram += features.T @ features
                right += features.T @ targets[start : start + ROWS]
        values, self._basis = eigh(gram, overwrite_a=True)
        self._values = np.maximum(values, 0.0)
        self._rotated = self._basis.T @ right

    def weights(self, penalty: float) -> Array:
        """Weights (columns, classes) at one penalty."""
        solved: Array = self._basis @ (self._rotated / (self._values + penalty)[:, None])
        return solved if self._features is None else self._features.T @ solved


def fit(task: FitTask, columns: int = COLUMNS) -> Scorer:
    """The penalty of least squared error on validation data, ties to the smaller; then all the training data."""
    projection = task.generator(2).standard_normal((task.responses.shape[1], columns))
    classes = len(task.classes)
    trial = task.validated()
    responses, truth = held(trial)
    wanted = one_hot(truth, classes)
    path = RidgePath(trial.responses, projection, one_hot(trial.truth, classes))
    losses = [float(((Expanded(projection, path.weights(p))(responses) - wanted) ** 2).sum()) for p in PENALTIES]
    penalty = PENALTIES[int(np.argmin(losses))]
    if len(trial.truth) != len(task.truth):
        path = RidgePath(task.responses, projection, one_hot(task.truth, classes))
    return Expanded(projection, path.weights(penalty))


RANPAC = Method("ranpac", fit, ("features", "validation"), about="ridge on 10,000 random features")
