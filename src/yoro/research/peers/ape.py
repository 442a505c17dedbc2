"""APE (Zhu et al. 2023): Tip-Adapter on the channels that tell classes apart, its values weighed by surprise.

    J      = -w (mean of x_i x_j over pairs of different classes) + (1 - w) (variance over classes of T)
    scores = scale v'T + alpha exp(-beta (1 - v_Q'K_Q)) [Y exp(gamma D)]
    D      = log2((1 + 1e-6) / (p + 1e-6)),   p = softmax(K_Q'T_Q) at the true class

x are the training vectors and the zero-shot heads; Q are the channels of largest J, so many of 1,024 and as large a
share of other dimensions; vectors over Q are brought back to unit length; the cosines in p carry no scale. w, the size
of Q and the bounds of the grid are those of each dataset, as its authors' configuration files have them. The grid has
200 values of beta and 20 of alpha as Tip-Adapter's, and gamma_k = k G / 20, k < 20; the first triple, in this order,
with the most right answers on validation data is taken.

D is the published code's reading of a Kullback-Leibler divergence: in bits, and kept from infinity by 1e-6. That code
averages ten crops into a key; here a key is one image.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from yoro.mappings.batches import Array, Codes
from yoro.option import check_range
from yoro.research.peers.method import FitTask, Method, Scorer, one_hot, unit
from yoro.research.peers.tip_adapter import Cache, TipAdapterSettings, kernel

GAMMAS = 20  # steps of the grid
DIMENSION = 1024  # that numbers of channels are published for
TINY = 1e-6


@dataclass(frozen=True)
class ApeSettings(TipAdapterSettings):
    """Bounds of the grid, channels that are kept of 1,024, and the weight of similarity in their choice.

    surprise : bound of gamma.
    """

    sharpest: float = 7.0
    heaviest: float = 7.0
    surprise: float = 1.0
    channels: int = 800
    similarity: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("channels", self.channels, 1, DIMENSION)

    @property
    def gammas(self) -> Array:
        return np.array([k * self.surprise / GAMMAS for k in range(GAMMAS)])

    def kept(self, dimension: int) -> int:
        return max(1, self.channels * dimension // DIMENSION)


USUAL = ApeSettings()


@dataclass(frozen=True)
class Refined(Cache):
    """A cache whose keys have the kept channels alone; the zero-shot head beside it has all of them."""

    channels: NDArray[np.intp]

    def votes(self, vectors: Array) -> Array:
        return super().votes(unit(vectors[:, self.channels]))


def fit(task: FitTask, settings: ApeSettings = USUAL) -> Scorer:
    """Channels, keys and values in closed form; (beta, alpha, gamma) on validation data, ties to the smaller."""
    texts, task = task.needed_texts(), task.normalised()
    head, (trial, vectors, truth) = texts.scale * texts.heads.T, task.trial()
    channels, keys, surprise = _refine(trial, texts.heads, settings)
    cosines, guess = unit(vectors[:, channels]) @ keys.T, vectors @ head

    def right() -> Iterator[tuple[int, float, float, float]]:
        for beta in settings.betas:
            votes = _votes(kernel(cosines, beta), trial, surprise, settings.gammas)
            for alpha in settings.alphas:
                counts = ((guess + alpha * votes).argmax(axis=-1) == truth).sum(axis=-1)  # of every gamma
                best = int(counts.argmax())
                yield int(counts[best]), beta, alpha, float(settings.gammas[best])

    _, beta, alpha, gamma = max(right(), key=lambda found: found[0])
    channels, keys, surprise = _refine(task, texts.heads, settings)
    values = one_hot(task.truth, len(task.classes)) * np.exp(gamma * surprise)[:, None]
    return Refined(keys, values, head, beta, alpha, channels)


def _votes(affinity: Array, trial: FitTask, surprise: Array, gammas: Array) -> Array:
    """What the cache says of validation vectors (gammas, n, classes), of their affinity (n, keys) to the keys."""
    weights = np.exp(surprise[:, None] * gammas)
    of = [np.flatnonzero(trial.truth == c) for c in range(len(trial.classes))]
    return np.ascontiguousarray(np.stack([affinity[:, mine] @ weights[mine] for mine in of]).transpose(2, 1, 0))


def _refine(task: FitTask, heads: Array, settings: ApeSettings) -> tuple[NDArray[np.intp], Array, Array]:
    """Kept channels, keys over them, and how much each training image surprises the zero-shot answer."""
    everything = np.concatenate([task.responses, heads])
    whose = np.concatenate([task.truth, np.arange(len(heads))])
    alike, w = pair_similarity(everything, whose, len(heads)), settings.similarity
    criterion = -w * alike + (1.0 - w) * heads.var(axis=0, ddof=1)
    channels = np.sort(np.argsort(-criterion, kind="stable")[: settings.kept(len(criterion))])
    keys = unit(task.responses[:, channels])
    expected = softmax(keys @ unit(heads[:, channels]).T, axis=1)[np.arange(len(keys)), task.truth]
    return channels, keys, np.log2((1.0 + TINY) / (expected + TINY))


def pair_similarity(vectors: Array, truth: Codes, classes: int) -> Array:
    """Mean over pairs of different classes of the product in each channel, (dimension,), from class sums alone."""
    sums = one_hot(truth, classes).T @ vectors
    counts = np.bincount(truth, minlength=classes).astype(np.float64)
    pairs = counts.sum() ** 2 - (counts**2).sum()
    return (sums.sum(axis=0) ** 2 - (sums**2).sum(axis=0)) / pairs  # type: ignore[no-any-return]


APE = Method(
    "ape", fit, ("features", "texts", "stored data", "validation"),
    about="Tip-Adapter on chosen channels, values weighed by surprise",
    settings=ApeSettings, edition=2,
)  # fmt: skip
