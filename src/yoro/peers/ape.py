"""APE (Zhu et al. 2023): Tip-Adapter on the channels that tell classes apart, its values weighed by surprise.

    J      = -0.7 * (mean of x_i x_j over pairs of different classes) + 0.3 * (variance over classes of T)
    scores = scale v'T + alpha exp(-beta (1 - v_Q'K_Q)) [Y exp(gamma KL(Y | softmax(K_Q'T_Q)))]

Our reading where the text is silent: x are the training vectors and the zero-shot heads; the Q
channels of largest J are 70 % of all; KL is in nats, of cosines without scale; of the published 200
values of beta every tenth is tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from yoro.mappings.batches import Codes
from yoro.peers.contract import Array, Method, Scorer, Task, held, most_right, one_hot, unit
from yoro.peers.tip_adapter import ALPHAS, BETAS, Cache, kernel

WEIGHTS = (0.7, 0.3)  # of similarity and variance
SHARE = 0.7  # of the channels that are kept
GAMMAS = tuple(j * 1.5 / 20 for j in range(20))


@dataclass(frozen=True)
class Refined(Cache):
    """A cache whose keys have the kept channels alone; the zero-shot head beside it has all of them."""

    channels: NDArray[np.intp]

    def votes(self, vectors: Array) -> Array:
        return super().votes(unit(vectors[:, self.channels]))


def fit(task: Task) -> Scorer:
    """Channels, keys and values in closed form; (beta, alpha, gamma) on validation data, ties to the smaller."""
    texts, task = task.needed_texts(), task.normalised()
    head, trial = texts.scale * texts.heads.T, task.validated()
    channels, keys, surprise = _refine(trial, texts.heads)
    vectors, truth = held(trial)
    cosines, guess = unit(vectors[:, channels]) @ keys.T, vectors @ head

    def answers() -> Iterator[tuple[tuple[float, float, float], Array]]:
        for beta in BETAS[::10]:
            affinity = kernel(cosines, beta)
            for gamma in GAMMAS:
                votes = affinity @ _values(trial, surprise, gamma)
                for alpha in ALPHAS:
                    yield (beta, alpha, gamma), guess + alpha * votes

    beta, alpha, gamma = most_right(answers(), truth)
    channels, keys, surprise = _refine(task, texts.heads)
    return Refined(keys, _values(task, surprise, gamma), head, beta, alpha, channels)


def _values(task: Task, surprise: Array, gamma: float) -> Array:
    return one_hot(task.truth, len(task.classes)) * np.exp(gamma * surprise)[:, None]


def _refine(task: Task, heads: Array) -> tuple[NDArray[np.intp], Array, Array]:
    """Kept channels, keys over them, and how much each training image surprises the zero-shot answer."""
    everything = np.concatenate([task.responses, heads])
    whose = np.concatenate([task.truth, np.arange(len(heads))])
    criterion = -WEIGHTS[0] * pair_similarity(everything, whose, len(heads)) + WEIGHTS[1] * heads.var(axis=0, ddof=1)
    kept = max(1, round(SHARE * len(criterion)))
    channels = np.sort(np.argsort(-criterion, kind="stable")[:kept])
    keys = unit(task.responses[:, channels])
    logs = log_softmax(keys @ unit(heads[:, channels]).T, axis=1)
    return channels, keys, -logs[np.arange(len(keys)), task.truth]


def pair_similarity(vectors: Array, truth: Codes, classes: int) -> Array:
    """Mean over pairs of different classes of the product in each channel, (dimension,), from class sums alone."""
    sums = one_hot(truth, classes).T @ vectors
    counts = np.bincount(truth, minlength=classes).astype(np.float64)
    pairs = counts.sum() ** 2 - (counts**2).sum()
    return (sums.sum(axis=0) ** 2 - (sums**2).sum(axis=0)) / pairs  # type: ignore[no-any-return]


APE = Method(
    "ape", fit, ("features", "texts", "stored data", "validation"),
    about="Tip-Adapter on chosen channels, values weighed by surprise",
)  # fmt: skip
