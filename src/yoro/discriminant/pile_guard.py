"""Which unlabelled responses belong with the labelled ones (outlier rejection by a random walk).

Distances alone do not tell: images of one task may be as unlike each other as strangers are. But images of a task are
neighbours, and so are strangers. A random walk that starts at the labelled responses and goes from neighbour to
neighbour visits images of the task often and strangers seldom. How often is usual is told by its visits to labelled
responses from those of other classes: those of the same class may be pictures of the same moment.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, diags_array

from yoro.mappings.batches import Array

NEIGHBOURS = 10
GOES_ON = 0.9  # probability of another step of the walk
STEPS = 30
GROUPS = 8  # of classes: how often walks from the others come to each is known
USUAL = 0.65  # of the lower quartile of these: what an unlabelled response must reach
APART = 0.78  # probability `lone` from which on a pile is of another kind
STARTS = 2048  # labelled responses that walks set out from, at most
BLOCK = 1024  # responses whose neighbours are looked for at a time


def belonging(labelled: Sequence[Array], truth: NDArray[np.intp], pile: Sequence[Array]) -> NDArray[np.bool_]:
    """Which unlabelled responses (m,) belong with labelled ones, by the principal components (rows, rank) of readings.

    `truth` (n,) are the classes of the labelled. None belongs where the pile as a whole is of another kind.
    """
    step = max(1, len(labelled[0]) // STARTS)
    truth, m = truth[::step], len(pile[0])
    starts = len(truth)
    if len(np.unique(truth)) < 2 or not m:
        return np.ones(m, dtype=bool)
    rows = directions([np.concatenate([near[::step], far]) for near, far in zip(labelled, pile, strict=True)])
    if lone(rows[:starts], truth, rows[starts:]) > APART:
        return np.zeros(m, dtype=bool)
    visits, usual = _visits(_neighbours(rows), truth % GROUPS)
    return visits >= USUAL * usual


def directions(parts: Sequence[Array]) -> NDArray[np.float32]:
    """Rows whose products are the mean cosine over the readings, large components evened out by half."""
    made = []
    for part in parts:
        even = part / np.sqrt(np.maximum(part.std(axis=0), np.finfo(np.float64).tiny))
        made.append(even / np.maximum(np.linalg.norm(even, axis=1, keepdims=True), np.finfo(np.float64).tiny))
    return np.asarray(np.hstack(made) / np.sqrt(len(made)), dtype=np.float32)


def lone(labelled: NDArray[np.float32], truth: NDArray[np.intp], pile: NDArray[np.float32]) -> float:
    """The probability that a labelled response is nearer to one of another class than to any of as many of the pile.

    It is below one half if both are of the same kind, and one if they have nothing in common. All draws from the pile
    are taken into account.
    """
    step = -(-len(labelled) // len(pile))
    labelled, truth = labelled[::step], truth[::step]
    others = truth[:, None] != truth
    among = np.where(others, labelled @ labelled.T, -np.inf).max(axis=1)
    nearer = (labelled @ pile.T > among[:, None]).mean(axis=1)
    return float(((1 - nearer) ** others.sum(axis=1)).mean())


def _neighbours(rows: NDArray[np.float32]) -> csr_array:
    """The graph (n, n) in which responses are joined if one is among the nearest of the other, for a walk."""
    n = len(rows)
    count = min(NEIGHBOURS, n - 1)
    found = []
    for first in range(0, n, BLOCK):
        alike = rows[first : first + BLOCK] @ rows.T
        alike[np.arange(len(alike)), np.arange(first, first + len(alike))] = -np.inf
        found.append(np.argpartition(-alike, count - 1, axis=1)[:, :count])
    ends = np.concatenate(found).ravel()
    graph = csr_array((np.ones(len(ends)), (np.repeat(np.arange(n), count), ends)), shape=(n, n))
    graph = graph.maximum(graph.T)
    scale = diags_array(1 / np.sqrt(graph.sum(axis=1)))
    return csr_array(scale @ graph @ scale)


def _visits(graph: csr_array, group: NDArray[np.intp]) -> tuple[Array, float]:
    """How often walks from the first rows, in groups, visit each of the other rows (m,).

    Also how often walks from other groups visit one of the first rows, in the lower quartile, as if there were as many
    of them: classes that are very unlike the others are seldom visited.
    """
    starts = len(group)
    out = np.zeros((graph.shape[0], GROUPS))
    out[np.arange(starts), group] = 1.0
    found = out
    for _ in range(STEPS):
        found = GOES_ON * (graph @ found) + (1 - GOES_ON) * out
    total = found.sum(axis=1)
    others = total[:starts] - found[np.arange(starts), group]
    share = 1 - np.bincount(group, minlength=GROUPS)[group] / starts
    return total[starts:], float(np.quantile(others[share > 0] / share[share > 0], 0.25)) if (share > 0).any() else 0.0
