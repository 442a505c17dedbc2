"""GDA (Wang et al. 2024): a Gaussian discriminant with a fixed shrinkage, beside the zero-shot answer.

    precision = d ((N-1) C + tr(C) I)^-1,   C the pooled covariance about the class means, divisor N-1
    scores    = scale v'T + alpha (v'W + b),   alpha in 10^-4 .. 10^2 by validation

This is BDM at the shrinkage d/(N-1+d) up to a factor, with equal priors. The published code draws
ten crops of each image; here each image is one sample. Without texts the zero-shot term is left
out, and with it the choice of alpha.

TIMO and TIMO-S (Li et al. 2025) are GDA in which texts and images guide each other:

    s_c      = cosines of the texts of class c with its mean image
    T_c      = sum_i w_i t_i,   w = softmax(gamma s / |s|)
    GDA      with the texts of largest s added to their class as samples of weight s
    scores   = alpha v'T + GDA,   alpha in 10^-4 .. 10^4 by validation

TIMO takes gamma = 50; TIMO-S searches 5 to 100. Our reading where the text is silent: the added
texts are half of a class's for TIMO, and a quarter, a half or all of them for TIMO-S; a text
counts as a sample by as much as its cosine, if that is positive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import softmax

from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import SelectionError
from yoro.peers.contract import Array, LinearScores, Method, Task, Texts, class_means, gathered, held, most_right, unit

MIXES = tuple(10.0**power for power in range(-4, 3))
GUIDED_MIXES = tuple(10.0**power for power in range(-4, 5))  # of TIMO


def fit(task: Task) -> LinearScores:
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


@dataclass(frozen=True)
class Guidance:
    """How sharply texts are weighed, and which share of them become samples."""

    gamma: float
    share: float


PLAIN = (Guidance(50.0, 0.5),)
SEARCHED = tuple(Guidance(float(gamma), share) for gamma in range(5, 105, 5) for share in (0.25, 0.5, 1.0))


def fit_guided(task: Task, options: tuple[Guidance, ...] = PLAIN) -> LinearScores:
    """The guidance and the mix with the most right answers on validation data; ties to the first."""
    texts, task = task.needed_texts(), task.normalised()
    trial = task.validated()
    vectors, truth = held(trial)
    heads = {gamma: vectors @ guided_head(trial, texts, gamma) for gamma in {o.gamma for o in options}}
    owns = {share: with_texts(trial, texts, share)(vectors) for share in {o.share for o in options}}
    answers = (((o, mix), mix * heads[o.gamma] + owns[o.share]) for o in options for mix in GUIDED_MIXES)
    chosen, mix = most_right(answers, truth)
    own = with_texts(task, texts, chosen.share)
    return LinearScores(mix * guided_head(task, texts, chosen.gamma) + own.weights, own.bias, normalise=True)


def similarities(task: Task, texts: Texts) -> list[Array]:
    """Cosines of each class's texts with its mean image."""
    means = unit(class_means(task.responses, task.truth, len(task.classes)))
    return [vectors @ mean for vectors, mean in zip(texts.by_class, means, strict=True)]


def guided_head(task: Task, texts: Texts, gamma: float) -> Array:
    """Zero-shot head (dimension, classes) whose texts are weighed by the images of their class."""
    columns = []
    for vectors, s in zip(texts.by_class, similarities(task, texts), strict=True):
        columns.append(softmax(gamma * s / max(np.linalg.norm(s), np.finfo(np.float64).tiny)) @ vectors)
    return np.stack(columns, axis=1)


def with_texts(task: Task, texts: Texts, share: float) -> LinearScores:
    """GDA on the images and the nearest texts of each class."""
    added = ResponseStatistics(task.classes)
    for name, vectors, s in zip(task.classes, texts.by_class, similarities(task, texts), strict=True):
        chosen = np.argsort(-s, kind="stable")[: max(1, round(share * len(s)))]
        chosen = chosen[s[chosen] > 0]
        added.update(vectors[chosen], [name] * len(chosen), s[chosen])
    return discriminant(gathered(task) + added)


GDA = Method("gda", fit, ("features", "validation"), about="Gaussian discriminant beside the zero-shot answer")
_NEEDS = ("features", "texts", "validation")
TIMO = Method("timo", fit_guided, _NEEDS, about="GDA with texts as samples and texts weighed by images")
TIMO_S = Method("timo-s", partial(fit_guided, options=SEARCHED), _NEEDS, about="TIMO with its settings searched")
