"""The nearest: class means by Euclidean distance, or k neighbours by cosine, k chosen by leave-one-out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yoro.mappings.batches import Array, Codes
from yoro.research.peers.method import (
    ROWS,
    FitTask,
    LinearScores,
    Method,
    Scorer,
    class_means,
    correct,
    in_blocks,
    unit,
)

NEIGHBOURS = (1, 3, 5, 10, 20)


def fit_means(task: FitTask) -> Scorer:
    """Half the squared distance to each class mean, less what all classes share."""
    means = class_means(task.responses, task.truth, len(task.classes))
    return LinearScores(means.T, -0.5 * (means**2).sum(axis=1))


@dataclass(frozen=True)
class Votes:
    """The stored training vectors, which vote."""

    keys: Array  # (n, width), unit length
    truth: Codes
    classes: int
    neighbours: int

    def __call__(self, responses: Array) -> Array:
        """Votes (n, classes); among equal votes the class of the nearer neighbours wins."""
        return in_blocks(
            lambda part: votes(unit(part) @ self.keys.T, self.truth, self.classes, self.neighbours), responses
        )


def votes(similarity: Array, truth: Codes, classes: int, neighbours: int) -> Array:
    """One vote for each of the nearest, and for each a little more, the nearer it is, that only breaks ties."""
    k = min(neighbours, similarity.shape[1])
    nearest = np.argsort(-similarity, axis=1, kind="stable")[:, :k]
    worth = 1.0 + 0.5 ** np.arange(1, k + 1) / (k + 1)  # what is added sums to less than one vote
    scores = np.zeros((len(similarity), classes))
    for rank in range(k):
        scores[np.arange(len(similarity)), truth[nearest[:, rank]]] += worth[rank]
    return scores


def fit(task: FitTask) -> Scorer:
    """Most right answers when each training image is left out, with its group; ties to fewer neighbours."""
    task = task.normalised()
    options = [k for k in NEIGHBOURS if k < len(task.truth)]
    right = np.zeros(len(options), dtype=int)
    for start in range(0, len(task.truth), ROWS):
        mine = np.arange(start, min(start + ROWS, len(task.truth)))
        similarity = task.responses[mine] @ task.responses.T
        similarity[_together(task, mine)] = -np.inf
        for i, k in enumerate(options):
            right[i] += correct(votes(similarity, task.truth, len(task.classes), k), task.truth[mine])
    return fit_with(task, options[int(np.argmax(right))])


def _together(task: FitTask, mine: Codes) -> NDArray[np.bool_]:
    """Which training images (m, n) are the image itself or of its group."""
    same: NDArray[np.bool_] = mine[:, None] == np.arange(len(task.truth))
    if task.groups is not None:
        names = np.array(task.groups)
        same |= (names[mine][:, None] == names) & (names[mine] != "")[:, None]
    return same


def fit_with(task: FitTask, neighbours: int) -> Scorer:
    """The same with a number of neighbours that is given."""
    task = task.normalised()
    return Votes(task.responses, task.truth, len(task.classes), neighbours)


NEAREST_MEAN = Method("ncm", fit_means, about="nearest class mean")
NEAREST_NEIGHBOURS = Method("knn", fit, ("stored data",), about="k nearest neighbours, k by leave-one-out")
