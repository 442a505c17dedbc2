"""Ridge regressions: of class indicators, RanPAC on random features, and ProKeR with a kernel.

`ridge` chooses its penalty by exact leave-one-out.

RanPAC (McDonnell et al. 2023) is ridge regression on a random expansion of the responses:

    h = relu(f W),   W of N(0, 1), 10,000 columns, fixed;   W_o = (H'H + lambda I)^-1 H'Y

No intercept, raw indicators; lambda in 10^-8 .. 10^8 by squared error. The published code measures
it on the last fifth of the data; here on validation data. With fewer images than columns the same
weights come from the n x n form, which needs no 10,000 x 10,000 matrix.

ProKeR (Bendou et al. 2025) is kernel ridge regression of the residual of the zero-shot answer:

    K(x, y) = exp(-beta (1 - x'y)),   A = (K_SS / lambda + I)^-1 (Y - F_S T),   scores = F_x T + K_xS A

Cosines here carry no scale. beta is one of 20 values from 0.5 to 3, lambda one of 10 from 0.001 to
1, by validation. One eigendecomposition serves every lambda. The formula is as published in code;
since A holds a factor lambda, lambda weighs the kernel against the zero-shot answer too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from yoro.mappings.batches import Array, Codes
from yoro.research.peers.method import ROWS, FitTask, LinearScores, Method, Scorer, in_blocks, most_right, one_hot
from yoro.research.peers.tip_adapter import Cache, kernel

PENALTIES = tuple(10.0 ** (i / 2) for i in range(-12, 13))  # times the mean squared singular value
RANPAC_COLUMNS = 10_000
RANPAC_PENALTIES = tuple(10.0**power for power in range(-8, 9))
PROKER_BETAS = tuple(np.linspace(0.5, 3.0, 20).tolist())
PROKER_PENALTIES = tuple(np.linspace(0.001, 1.0, 10).tolist())


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


def fit_ranpac(task: FitTask, columns: int = RANPAC_COLUMNS) -> Scorer:
    """The penalty of least squared error on validation data, ties to the smaller; then all the training data."""
    projection = task.generator(2).standard_normal((task.responses.shape[1], columns))
    classes = len(task.classes)
    trial, responses, truth = task.trial()
    wanted = one_hot(truth, classes)
    path = RidgePath(trial.responses, projection, one_hot(trial.truth, classes))
    losses = [float(((Expanded(projection, path.weights(p))(responses) - wanted) ** 2).sum()) for p in RANPAC_PENALTIES]
    penalty = RANPAC_PENALTIES[int(np.argmin(losses))]
    if len(trial.truth) != len(task.truth):
        path = RidgePath(task.responses, projection, one_hot(task.truth, classes))
    return Expanded(projection, path.weights(penalty))


RANPAC = Method("ranpac", fit_ranpac, ("features", "validation"), about="ridge on 10,000 random features")


class KernelResidual:
    """What the zero-shot answer leaves over, in the eigenbasis of the kernel at one beta."""

    def __init__(self, task: FitTask, head: Array, beta: float) -> None:
        values, self._basis = eigh(kernel(task.responses @ task.responses.T, beta))
        self._values = np.maximum(values, 0.0)
        self._left = self._basis.T @ (one_hot(task.truth, len(task.classes)) - task.responses @ head)

    def coefficients(self, penalty: float) -> Array:
        """`(K / penalty + I)^-1 (Y - F T)`, (n, classes)."""
        return self._basis @ (self._left / (self._values / penalty + 1.0)[:, None])  # type: ignore[no-any-return]


def fit_proker(task: FitTask) -> Scorer:
    """The pair (beta, lambda) with the most right answers on validation data, ties to the smaller."""
    head, task = task.needed_texts().heads.T, task.normalised()
    trial, vectors, truth = task.trial()
    guess, cosines = vectors @ head, vectors @ trial.responses.T

    def answers() -> Iterator[tuple[tuple[float, float], Array]]:
        for beta in PROKER_BETAS:
            residual, affinity = KernelResidual(trial, head, beta), kernel(cosines, beta)
            for penalty in PROKER_PENALTIES:
                yield (beta, penalty), guess + affinity @ residual.coefficients(penalty)

    beta, penalty = most_right(answers(), truth)
    return Cache(task.responses, KernelResidual(task, head, beta).coefficients(penalty), head, beta, alpha=1.0)


PROKER = Method(
    "proker", fit_proker, ("features", "texts", "stored data", "validation"),
    about="kernel ridge on what the zero-shot answer leaves over",
)  # fmt: skip
