"""Ridge regression of class indicators, its penalty chosen by exact leave-one-out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from yoro.mappings.batches import Codes
from yoro.research.peers.method import Array, FitTask, LinearScores, Method, Scorer, one_hot

PENALTIES = tuple(10.0 ** (i / 2) for i in range(-12, 13))  # times the mean squared singular value


class Decomposed:
    """Centred responses as U diag(s) V' by one decomposition, and centred indicators: what every penalty shares."""

    def __init__(self, task: FitTask) -> None:
        indicators = one_hot(task.truth, len(task.classes))
        self.centre, self.shares = task.responses.mean(axis=0), indicators.mean(axis=0)  # (width,), (classes,)
        self.targets: Array = indicators - self.shares  # (n, classes)
        left, strengths, right = np.linalg.svd(task.responses - self.centre, full_matrices=False)
        some = strengths > np.finfo(np.float64).eps * max(task.responses.shape) * strengths.max(initial=0.0)
        self.left, self.strengths, self.right = left[:, some], strengths[some], right[some]  # right: (rank, width)

    def residuals(self, penalty: float, groups: Sequence[Codes] = ()) -> Array:
        """Exact leave-one-out residuals (n, classes): e / (1 - h), the intercept being fitted anew as well.

        Rows of a group are left out together: (I - H_GG)^-1 e_G.
        """
        gain = self.strengths**2 / (self.strengths**2 + penalty)
        leverage = 1.0 / len(self.left) + (self.left**2) @ gain
        plain = self.targets - (self.left * gain) @ (self.left.T @ self.targets)
        result: Array = plain / np.maximum(1.0 - leverage, np.finfo(np.float64).eps)[:, None]
        for rows in groups:
            hat = 1.0 / len(self.left) + (self.left[rows] * gain) @ self.left[rows].T
            result[rows] = np.linalg.lstsq(np.eye(len(rows)) - hat, plain[rows])[0]
        return result

    def scorer(self, penalty: float) -> LinearScores:
        """The regression on all the data."""
        gain = self.strengths / (self.strengths**2 + penalty)
        weights = self.right.T @ (gain[:, None] * (self.left.T @ self.targets))
        return LinearScores(weights, self.shares - self.centre @ weights)


def fit(task: FitTask) -> Scorer:
    """Least squared leave-one-out residuals; ties to the larger penalty."""
    decomposed = Decomposed(task)
    size = float((decomposed.strengths**2).mean()) if len(decomposed.strengths) else 1.0
    penalties = [size * factor for factor in reversed(PENALTIES)]
    names = np.array(task.groups or ())
    groups = [np.flatnonzero(names == name) for name in np.unique(names[names != ""])]
    losses = [float((decomposed.residuals(penalty, groups) ** 2).sum()) for penalty in penalties]
    return decomposed.scorer(penalties[int(np.argmin(losses))])


RIDGE = Method("ridge", fit, ("stored data",), about="ridge regression of indicators, penalty by exact leave-one-out")
