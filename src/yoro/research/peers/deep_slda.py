"""Deep SLDA (Hayes and Kanan 2020), as published, which is not the discriminant of the same data in one batch.

For the i-th response of the stream (i from 1), of class c,

    S  <- ((i-1) S + (i-1)/i d d') / i,   d = z - mu_c;   then mu_c takes z in
    scores = z'P mu_c - mu_c'P mu_c / 2,   P = ((1 - 0.0001) S + 0.0001 I)^-1, no priors

It differs from batch statistics in two ways, kept here on purpose: i counts all responses where
the class's own count belongs, and a class's first response is centred on zero, so that the
covariance takes in the means. The result depends on the order, which is drawn by the seed.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve

from yoro.mappings.batches import Array, Codes
from yoro.research.peers.method import FitTask, LinearScores, Method, Scorer

SHRINKAGE = 1e-4


def fit(task: FitTask) -> Scorer:
    """One response after the other, in a seeded order."""
    order = task.generator(3).permutation(len(task.truth))
    means, covariance = stream(task.responses[order], task.truth[order], len(task.classes))
    matrix = (1.0 - SHRINKAGE) * covariance + SHRINKAGE * np.eye(len(covariance))
    weights: Array = solve(matrix, means.T, assume_a="pos")
    return LinearScores(weights, -0.5 * np.einsum("kw,wk->k", means, weights))


def stream(responses: Array, truth: Codes, classes: int) -> tuple[Array, Array]:
    """Means (classes, width) and covariance (width, width) at the end of the stream.

    The recursion for S adds up: i S_i is the sum of (j-1)/j d_j d_j' over j up to i.
    """
    means, counts = np.zeros((classes, responses.shape[1])), np.zeros(classes)
    steps = np.empty_like(responses)
    for i, (row, c) in enumerate(zip(responses, truth.tolist(), strict=True)):
        step = row - means[c]
        steps[i] = step * np.sqrt(i / (i + 1.0))
        counts[c] += 1.0
        means[c] += step / counts[c]
    return means, steps.T @ steps / len(responses)


DEEP_SLDA = Method("deep-slda", fit, ("features",), about="streaming discriminant as published, inexact")
