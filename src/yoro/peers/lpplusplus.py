"""LP++ (Huang et al. 2024): a linear probe blended with the texts, in step sizes from Lipschitz constants.

    scores_k = v'(w_k + a_k t_k) + b_k

Start: w_k the sum of the class's vectors, a_k 250 times their mean cosine with t_k, b 0. Steps: 4n /
lambda_max(F'F) for w and b, n / (4 max_k sum (f't_k)^2) for a; momentum 0.9, 300 epochs on all data
at once, a every tenth. The epoch is chosen on validation data; where these are held out of the
training data, the probe is fitted on the rest and stays so. The treatment of the bias is our reading.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from yoro.peers.contract import Array, LinearScores, Method, Scorer, Task, class_means, held, most_right, one_hot

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


def start(task: Task, cosines: Array) -> Probe:
    """The probe before the first epoch; cosines (n, classes) of the training vectors with the heads."""
    classes = len(task.classes)
    means = class_means(task.responses, task.truth, classes)
    own = class_means(cosines, task.truth, classes).diagonal()
    return Probe((means * task.counts[:, None]).T, START * own, np.zeros(classes))


def gradients(probe: Probe, vectors: Array, cosines: Array, indicators: Array) -> Probe:
    """Gradients of the mean cross-entropy."""
    error = (softmax(probe.scores(vectors, cosines), axis=1) - indicators) / len(vectors)
    return Probe(vectors.T @ error, (cosines * error).sum(axis=0), error.sum(axis=0))


def epochs(task: Task, cosines: Array) -> Iterator[Probe]:
    """The probe before full-batch descent and after each epoch of it."""
    indicators = one_hot(task.truth, len(task.classes))
    n = len(task.truth)
    step = 4.0 * n / np.linalg.norm(task.responses, 2) ** 2
    blend_step = n / (4.0 * (cosines**2).sum(axis=0).max())
    probe = start(task, cosines)
    weights, blend, bias = (np.zeros_like(part) for part in (probe.weights, probe.blend, probe.bias))  # velocities
    yield probe
    for epoch in range(1, EPOCHS + 1):
        slope = gradients(probe, task.responses, cosines, indicators)
        weights, bias = MOMENTUM * weights + slope.weights, MOMENTUM * bias + slope.bias
        probe = replace(probe, weights=probe.weights - step * weights, bias=probe.bias - step * bias)
        if epoch % EVERY == 0:
            blend = MOMENTUM * blend + slope.blend
            probe = replace(probe, blend=probe.blend - blend_step * blend)
        yield probe


def fit(task: Task) -> Scorer:
    """The first epoch with the most right answers on validation data is kept."""
    heads, task = task.needed_texts().heads, task.normalised().validated()
    vectors, truth = held(task)
    theirs = vectors @ heads.T
    probes = epochs(task, task.responses @ heads.T)
    return most_right(((probe, probe.scores(vectors, theirs)) for probe in probes), truth).folded(heads)


LP_PLUS_PLUS = Method(
    "lp++", fit, ("gradients", "features", "texts", "stored data", "validation"), EPOCHS,
    about="linear probe blended with texts",
)  # fmt: skip
