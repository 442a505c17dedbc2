"""Groups of photos that look alike: k-means in the partly whitened space of the readings that tell classes apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score
from threadpoolctl import threadpool_limits

from yoro.discriminant.readings import FEATURES, LOGITS, Layout, unit_rows
from yoro.mappings.batches import Array

Codes = NDArray[np.intp]

DIRECTIONS = 32  # principal directions that photos are compared in
WHITENED = 0.5  # power of the spread that a direction is divided by: 0 not whitened, 1 wholly
SAMPLE = 2000  # photos that the number of groups is found from, at most
LEAST = 5  # photos a group, in the mean
MOST_GROUPS = 300
LADDER = 1.2  # ratio of one number of groups to the one tried before
STARTS = 4  # of k-means


def compared_space(layout: Layout, responses: NDArray[np.floating]) -> Array:
    """Vectors of length one (n, directions) by which photos are compared.

    Logits and features, where they are read: earlier layers tell textures apart rather than things.
    """
    used = [layout.slices[i] for i in sorted(layout.places(LOGITS) + layout.places(FEATURES))]
    parts = [np.asarray(responses[:, part], dtype=np.float64) for part in used or layout.slices]
    rows = _centred(np.concatenate([unit_rows(_centred(part)) for part in parts], axis=1))
    with threadpool_limits(1, user_api="blas"):  # the same groups on every machine
        values, turned = np.linalg.eigh(rows @ rows.T if len(rows) <= rows.shape[1] else rows.T @ rows)
        values, turned = values[::-1][:DIRECTIONS], turned[:, ::-1][:, :DIRECTIONS]
        kept = values > 1e-10 * max(float(values[0]), np.finfo(np.float64).tiny)
        spread = np.sqrt(values[kept])
        found = turned[:, kept] * spread if len(rows) <= rows.shape[1] else rows @ turned[:, kept]
    signs = np.where(found[np.abs(found).argmax(axis=0), np.arange(found.shape[1])] < 0, -1.0, 1.0)
    return np.asarray(unit_rows(signs * found / spread**WHITENED), dtype=np.float64)


def group_alike(space: Array, count: int | None = None) -> Codes:
    """The group (n,) of each photo, the largest group first; as many groups as `best_count` says, unless told."""
    distinct = len(np.unique(space, axis=0))
    count = min(best_count(space) if count is None else count, distinct)
    if count < 2:
        return np.zeros(len(space), dtype=np.intp)
    return _by_size(_means(space, count, STARTS))


def best_count(space: Array) -> int:
    """The number of groups whose silhouette is largest: where photos are nearest to their own and far from the next."""
    rows = np.random.default_rng(0).permutation(len(space))[:SAMPLE]
    sample = np.unique(space[np.sort(rows)], axis=0)
    tried, most = list[int](), min(MOST_GROUPS, len(sample) // LEAST)
    count = 2.0
    while round(count) <= most:
        tried.append(round(count))
        count = max(count * LADDER, count + 1)
    scores = [float(silhouette_score(sample, _means(sample, k, 2))) for k in tried]
    return tried[int(np.argmax(scores))] if tried else 1


def _means(space: Array, count: int, starts: int) -> Codes:
    with threadpool_limits(1):
        found = KMeans(count, n_init=starts, random_state=0, algorithm="lloyd").fit_predict(space)
    return np.asarray(found, dtype=np.intp)


def _by_size(codes: Codes) -> Codes:
    """The same groups, numbered by falling size; of equal ones the one whose first photo comes first."""
    found, first, inverse, sizes = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    order = sorted(range(len(found)), key=lambda i: (-sizes[i], first[i]))
    rank = np.empty(len(found), dtype=np.intp)
    rank[order] = np.arange(len(found))
    return np.asarray(rank[inverse], dtype=np.intp)


def _centred(rows: Array) -> Array:
    return np.asarray(rows - rows.mean(axis=0))
