"""GDA (Wang et al. 2024): a Gaussian discriminant with a fixed shrinkage, beside the zero-shot answer.

    precision = d ((N-1) C + tr(C) I)^-1,   C the pooled covariance about the class means, divisor N-1
    scores    = scale v'T + alpha (v'W + b),   alpha in 10^-4 .. 10^2 by validation

This is BDM at the shrinkage d/(N-1+d) up to a factor, with equal priors. The published code draws
ten crops of each image; here each image is one sample. Without texts the zero-shot term is left
out, and with it the choice of alpha.

TIMO and TIMO-S (Li et al. 2025) are GDA in which texts and images guide each other:

    s_i      = cosine of text i of class c with the class's mean image
    T_c      = sum_i w_i t_i at unit length,   w = softmax(gamma s / |s|)
    GDA      with the texts added to their class as further samples s_i t_i, each of weight one
    scores   = alpha v'T + GDA,   alpha in 10^-4 .. 10^4 by validation

TIMO takes gamma = 50 (Flowers102: 100) and adds every text once. TIMO-S first chooses gamma among 5, 10, ... 100, by
the head alone; then how many texts are added, ten numbers from one to twice as many as there are, the nearest first
and then once more from the nearest; alpha with it. Ties go to the first. Classes with more texts than another are read
as far as the shortest of them. All this is the published code, which has ten crops of each image where one sample is
here; a text is shortened by its cosine, and not weighed by it as a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax

from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import SelectionError
from yoro.mappings.batches import Array
from yoro.research.peers.method import FitTask, LinearScores, Method, Texts, class_means, gathered, most_right, unit

MIXES = tuple(10.0**power for power in range(-4, 3))
GUIDED_MIXES = tuple(10.0**power for power in range(-4, 5))  # of TIMO


def fit(task: FitTask) -> LinearScores:
    """The discriminant, mixed with the zero-shot answer where there are texts."""
    task = task.normalised()
    if task.texts is None:
        return replace(discriminant(gathered(task)), normalise=True)
    zero_shot, (trial, responses, truth) = task.texts.scale * task.texts.heads.T, task.trial()
    guess, tried = responses @ zero_shot, discriminant(gathered(trial))(responses)
    mix = most_right(((mix, guess + mix * tried) for mix in MIXES), truth)  # ties to the smaller
    own = discriminant(gathered(task))
    return LinearScores(zero_shot + mix * own.weights, mix * own.bias, normalise=True)


def precision_factor(statistics: ResponseStatistics) -> tuple[Array, float]:
    """The matrix `(N-1) C + tr(C) I` and the factor d that stands before its inverse."""
    scatter = statistics.scatter
    size = statistics.total - 1.0
    if not np.trace(scatter) > 0 or size <= 0:
        raise SelectionError("one image per class gives no covariance")
    return scatter + np.trace(scatter) / size * np.eye(len(scatter)), float(len(scatter))


def discriminant(statistics: ResponseStatistics) -> LinearScores:
    """`W = P mu` and `b = log(1/k) - mu'P mu / 2`."""
    matrix, factor = precision_factor(statistics)
    means = statistics.means
    weights = factor * cho_solve(cho_factor(matrix), means.T)
    return LinearScores(weights, -np.log(len(means)) - 0.5 * np.einsum("kw,wk->k", means, weights))


@dataclass(frozen=True)
class TimoSettings:
    """How sharply texts are weighed by the images of their class."""

    gamma: float = 50.0


USUAL = TimoSettings()
GAMMAS = tuple(float(gamma) for gamma in range(5, 105, 5))
AMOUNTS = 10  # numbers of added texts that TIMO-S tries


def fit_guided(task: FitTask, settings: TimoSettings = USUAL) -> LinearScores:
    """All texts are added; the mix with the most right answers on validation data is taken."""
    texts, task = even(task.needed_texts()), task.normalised()
    return _mixed(task, texts, settings.gamma, [len(texts.by_class[0])])


def fit_searched(task: FitTask) -> LinearScores:
    """The same with gamma and the number of added texts chosen on validation data."""
    texts, task = even(task.needed_texts()), task.normalised()
    trial, vectors, truth = task.trial()
    gamma = most_right(((gamma, vectors @ guided_head(trial, texts, gamma)) for gamma in GAMMAS), truth)
    return _mixed(task, texts, gamma, searched_amounts(len(texts.by_class[0])))


def searched_amounts(each: int) -> list[int]:
    """Numbers of texts that TIMO-S tries where a class has so many: from one to twice as many, in equal steps."""
    return [1 + i * (2 * each - 1) // (AMOUNTS - 1) for i in range(AMOUNTS)]


def _mixed(task: FitTask, texts: Texts, gamma: float, amounts: Sequence[int]) -> LinearScores:
    """The number of texts and the mix with the most right answers on validation data; ties to the first."""
    trial, vectors, truth = task.trial()
    guess = vectors @ guided_head(trial, texts, gamma)
    owns = ((amount, with_texts(trial, texts, amount)(vectors)) for amount in amounts)
    answers = (((amount, mix), mix * guess + own) for amount, own in owns for mix in GUIDED_MIXES)
    amount, mix = most_right(answers, truth)
    own = with_texts(task, texts, amount)
    return LinearScores(mix * guided_head(task, texts, gamma) + own.weights, own.bias, normalise=True)


def even(texts: Texts) -> Texts:
    """The texts with as many of each class as the shortest has."""
    shortest = min(map(len, texts.by_class))
    return replace(texts, by_class=tuple(vectors[:shortest] for vectors in texts.by_class))


def similarities(task: FitTask, texts: Texts) -> list[Array]:
    """Cosines of each class's texts with its mean image."""
    means = unit(class_means(task.responses, task.truth, len(task.classes)))
    return [vectors @ mean for vectors, mean in zip(texts.by_class, means, strict=True)]


def guided_head(task: FitTask, texts: Texts, gamma: float) -> Array:
    """Zero-shot head (dimension, classes) at unit length, whose texts are weighed by the images of their class."""
    columns = []
    for vectors, s in zip(texts.by_class, similarities(task, texts), strict=True):
        columns.append(softmax(gamma * s / max(np.linalg.norm(s), np.finfo(np.float64).tiny)) @ vectors)
    return unit(np.stack(columns)).T


def with_texts(task: FitTask, texts: Texts, amount: int) -> LinearScores:
    """GDA on the images and so many texts of each class, the nearest first, each shortened by its cosine."""
    added = ResponseStatistics(task.classes)
    for name, vectors, s in zip(task.classes, texts.by_class, similarities(task, texts), strict=True):
        order = np.argsort(-s, kind="stable")
        chosen = np.resize(order, amount)  # goes round again
        added.update(vectors[chosen] * s[chosen, None], [name] * amount)
    return discriminant(gathered(task) + added)


GDA = Method("gda", fit, ("features", "validation"), about="Gaussian discriminant beside the zero-shot answer")
_NEEDS = ("features", "texts", "validation")
TIMO = Method(
    "timo", fit_guided, _NEEDS, about="GDA with texts as samples and texts weighed by images",
    settings=TimoSettings, edition=2,
)  # fmt: skip
TIMO_S = Method("timo-s", fit_searched, _NEEDS, about="TIMO with its settings searched", edition=2)
