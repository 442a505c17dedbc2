"""GDA (Wang et al. 2024): a Gaussian discriminant with a fixed shrinkage, beside the zero-shot answer.

    precision = d ((N-1) C + tr(C) I)^-1,   C the pooled covariance about the class means, divisor N-1
    scores    = scale v'T + alpha (v'W + b),   alpha in 10^-4 .. 10^2 by validation

This is BDM at the shrinkage d/(N-1+d) up to a factor, with equal priors. The published code draws
ten crops of each image; here each image is one sample. Without texts the zero-shot term is left
out, and with it the choice of alpha.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import SelectionError
from yoro.peers.contract import Array, LinearScores, Method, Scorer, Task, gathered, held, most_right

MIXES = tuple(10.0**power for power in range(-4, 3))


def fit(task: Task) -> Scorer:
    """The discriminant, mixed with the zero-shot answer where there are texts."""
    task = task.normalised()
    if task.texts is None:
        return replace(discriminant(gathered(task)), normalise=True)
    zero_shot, trial = task.texts.scale * task.texts.heads.T, task.validated()
    responses, truth = held(trial)
    guess, tried = responses @ zero_shot, discriminant(gathered(trial))(responses)
    mix = most_right(((mix, guess + mix * tried) for mix in MIXES), truth)  # ties to the smaller
    own = discriminant(gathered(task))
    return LinearScores(zero_shot + mix * own.weights, mix * own.bias, normalise=True)


def precision_factor(statistics: ResponseStatistics) -> tuple[Array, float]:
    """The matrix `(N-1) C + tr(C) I` and the factor d that stands before its inverse."""
    scatter = statistics.scatter
    size = statistics.total - 1.0
    if not np.trace(scatter) > 0 or size <= 0:
        raise SelectionError("one image a class leaves no covariance")
    return scatter + np.trace(scatter) / size * np.eye(len(scatter)), float(len(scatter))


def discriminant(statistics: ResponseStatistics) -> LinearScores:
    """`W = P mu` and `b = log(1/k) - mu'P mu / 2`."""
    matrix, factor = precision_factor(statistics)
    means = statistics.means
    weights = factor * cho_solve(cho_factor(matrix), means.T)
    return LinearScores(weights, -np.log(len(means)) - 0.5 * np.einsum("kw,wk->k", means, weights))


GDA = Method("gda", fit, ("features", "validation"), about="Gaussian discriminant beside the zero-shot answer")
