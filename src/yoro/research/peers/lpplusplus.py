"""LP++ (Huang et al. 2024): a linear probe blended with the texts, in step sizes from Lipschitz constants.

    scores_k = v'(w_k + a_k t_k) + b_k

Start: w_k the sum of the class's vectors; every a_k the same, 250 times the mean over classes of the mean cosine of a
class's vectors with its t; b 0. Then 300 epochs on all data at once:

    w, b   SGD with momentum 0.9 in steps of 4n / lambda_max(F'F)
    a      in every tenth epoch one step of n / (4 max_k sum (f't_k)^2) against the *sum of its gradients since the
           start*, without momentum

The last epoch of those with the most right answers on validation data is kept; the start is no candidate. Where
these data are held out of the training data, the probe is fitted on the rest and stays so.

All this is the published code, also where it may not be meant: it never empties the gradient of a. Its bias starts at
torch's random numbers, for which their mean of zero stands here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from yoro.mappings.batches import Array
from yoro.research.peers.method import FitTask, LinearScores, Method, Scorer, class_means, correct, one_hot

EPOCHS = 300
EVERY = 10  # epochs between two steps of the blend
MOMENTUM = 0.9
START = 250.0


@dataclass(frozen=True)
class Probe:
    """What is trained."""

    weights: Array  # (dimension, classes)
    blend: Array  # (classes,)
    bias: Array  # (classes,)

    def scores(self, vectors: Array, cosines: Array) -> Array:
        """Scores (n, classes) of vectors whose cosines with the heads are known."""
        return vectors @ self.weights + cosines * self.blend + self.bias

    def folded(self, heads: Array) -> LinearScores:
        """The same as one affine map."""
        return LinearScores(self.weights + self.blend * heads.T, self.bias, normalise=True)


def start(task: FitTask, cosines: Array) -> Probe:
    """The probe before the first epoch; cosines (n, classes) of the training vectors with the heads."""
    classes = len(task.classes)
    means = class_means(task.responses, task.truth, classes)
    own = class_means(cosines, task.truth, classes).diagonal()
    return Probe((means * task.counts[:, None]).T, np.full(classes, START * own.mean()), np.zeros(classes))


def gradients(probe: Probe, vectors: Array, cosines: Array, indicators: Array) -> Probe:
    """Gradients of the mean cross-entropy."""
    error = (softmax(probe.scores(vectors, cosines), axis=1) - indicators) / len(vectors)
    return Probe(vectors.T @ error, (cosines * error).sum(axis=0), error.sum(axis=0))


def epochs(task: FitTask, cosines: Array) -> Iterator[Probe]:
    """The probe after each epoch of full-batch descent."""
    indicators = one_hot(task.truth, len(task.classes))
    n = len(task.truth)
    step = 4.0 * n / np.linalg.norm(task.responses, 2) ** 2
    blend_step = n / (4.0 * (cosines**2).sum(axis=0).max())
    probe = start(task, cosines)
    weights, bias = np.zeros_like(probe.weights), np.zeros_like(probe.bias)  # velocities
    blend = np.zeros_like(probe.blend)  # sum of all gradients
    for epoch in range(1, EPOCHS + 1):
        slope = gradients(probe, task.responses, cosines, indicators)
        weights, bias = MOMENTUM * weights + slope.weights, MOMENTUM * bias + slope.bias
        blend += slope.blend
        probe = replace(probe, weights=probe.weights - step * weights, bias=probe.bias - step * bias)
        if epoch % EVERY == 0:
            probe = replace(probe, blend=probe.blend - blend_step * blend)
        yield probe


def fit(task: FitTask) -> Scorer:
    """The last epoch with the most right answers on validation data is kept."""
    heads, (task, vectors, truth) = task.needed_texts().heads, task.normalised().trial()
    theirs = vectors @ heads.T
    probes = enumerate(epochs(task, task.responses @ heads.T))
    judged = ((correct(probe.scores(vectors, theirs), truth), epoch, probe) for epoch, probe in probes)
    return max(judged, key=lambda found: found[:2])[2].folded(heads)


LP_PLUS_PLUS = Method(
    "lp++", fit, ("gradients", "features", "texts", "stored data", "validation"), EPOCHS,
    about="linear probe blended with texts", edition=2,
)  # fmt: skip
