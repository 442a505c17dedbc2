"""What an out-of-distribution score is made of, chosen by hiding some of the fitted classes from the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from yoro.discriminant.readings import LOGITS, Layout, unit_rows
from yoro.discriminant.reservoir import Members
from yoro.errors import InputError
from yoro.mappings.batches import Array

Space = tuple[int, str, float]

PLAIN, CENTRED, HELLINGER = "plain", "centred", "hellinger"
SHRINKAGE = 0.5  # of the terms that are added; from 0.1 to 0.6 the AUROC moves by 0.01 at most
FEWEST_CLASSES = 4
FEWEST_A_CLASS = 3
MOST_A_CLASS = 16
MOST = 600  # responses that the choice is made on
PARTITIONS = 2  # of the classes into thirds, each of which is hidden once
MARGIN = 0.2  # in AUROC, divided by the number of classes
RELATIVE = (0.1, 1.0)  # weights that lean on the relative distance


@dataclass(frozen=True)
class Term:
    """A part of an OOD score: a reading, what is done to it, the weights of its two distances, its shrinkage.

    "centred" takes the mean off every row and divides it by its length; "hellinger" takes the square roots of the
    softmax probabilities. The distances are those to the nearest class and the relative one.
    """

    reading: int
    transform: str = PLAIN
    weights: tuple[float, float] = (1.0, 1.0)
    shrinkage: float = SHRINKAGE

    @property
    def space(self) -> Space:
        """Terms in the same space differ in their weights alone."""
        return self.reading, self.transform, self.shrinkage

    def rows(self, layout: Layout, responses: NDArray[np.floating]) -> Array:
        """Responses (n, width of all readings) as the term takes them."""
        return transformed(np.asarray(responses[:, layout.slices[self.reading]], dtype=np.float64), self.transform)


def transformed(rows: Array, transform: str) -> Array:
    """Rows of one reading under a transform."""
    if transform == PLAIN:
        return rows
    if transform == CENTRED:
        return np.asarray(unit_rows(rows - rows.mean(axis=1, keepdims=True)), dtype=np.float64)
    powers = np.exp((rows - rows.max(axis=1, keepdims=True)) / 2)
    return np.asarray(unit_rows(powers), dtype=np.float64)


def candidates(layout: Layout, usual: Term) -> list[tuple[Term, ...]]:
    """The scores to choose from, the usual one first.

    All contain both distances in its reading: without the plain one, images of another kind would pass.
    """
    relative = replace(usual, weights=RELATIVE)
    made: list[tuple[Term, ...]] = [(usual,), (relative,)]
    network = layout.readings[usual.reading].network
    mine = [i for i, reading in enumerate(layout.readings) if reading.network == network and i != usual.reading]
    layers = [Term(i) for i in mine if layout.readings[i].layer != LOGITS]
    if layers:
        shallow = layers[-2:]  # readings come from the last layer to the first
        made += [(usual, *shallow), (usual, *(replace(term, weights=(2.0, 2.0)) for term in shallow))]
    for logits in [i for i in mine if layout.readings[i].layer == LOGITS]:
        roots, centred = Term(logits, HELLINGER), Term(logits, CENTRED, (0.0, 1.0))
        made += [(usual, roots), (relative, replace(roots, weights=(0.0, 1.0))), (relative, centred)]
        made += [(usual, roots, *layers)] if layers else []
    return made


def choose_terms(layout: Layout, usual: Term, members: Members) -> tuple[Term, ...]:
    """The terms of the score that tells hidden classes from known ones best, by the responses kept.

    A third of the classes is hidden from the others at a time. The usual score stays unless another one is better by
    a margin that grows as classes become fewer, and where there are too few classes, or images in groups or weighted.
    """
    offered = candidates(layout, usual)
    rows, truth = _sample(members)
    if len(np.unique(truth)) < FEWEST_CLASSES:
        return offered[0]
    found = areas(layout, offered, members.responses[rows], truth)
    best = int(np.argmax(found))
    return offered[best] if found[best] > found[0] + margin(len(np.unique(truth))) else offered[0]


def areas(
    layout: Layout, offered: Sequence[tuple[Term, ...]], responses: NDArray[np.floating], truth: NDArray[np.intp]
) -> Array:
    """The AUROC of every score for hidden classes, the mean over what is hidden; zero where it cannot be made."""
    spaces = {term.space: term for terms in offered for term in terms}
    hidden = hidden_classes(truth)
    pairs: dict[Space, list[Hidden | None]] = {}
    with threadpool_limits(1, user_api="blas"):  # many small products: threads would wait for each other
        for space, term in spaces.items():
            rows = term.rows(layout, responses)
            rows -= rows.mean(axis=0)
            gram, width = rows @ rows.T, rows.shape[1]
            pairs[space] = [hide(gram, truth, mask, term.shrinkage, width) for mask in hidden]
    made = [all(one is not None for term in terms for one in pairs[term.space]) for terms in offered]
    return np.array([
        np.mean([_area(terms, pairs, fold) for fold in range(len(hidden))]) if sound else 0.0
        for terms, sound in zip(offered, made, strict=True)
    ])  # fmt: skip


def margin(classes: int) -> float:
    """By how much an AUROC must be larger to count: with few classes it depends on which are hidden."""
    return MARGIN / classes


def hidden_classes(truth: NDArray[np.intp]) -> list[NDArray[np.bool_]]:
    """Which responses (n,) are hidden, a third of the classes at a time; every class is hidden PARTITIONS times."""
    classes = len(np.unique(truth))
    thirds = [np.random.default_rng(seed).permutation(classes) % 3 for seed in range(PARTITIONS)]
    return [third[truth] == i for third in thirds for i in range(3)]


@dataclass(frozen=True)
class Hidden:
    """The two distances of responses of known classes (n, 2), each left out of the fit, and of hidden ones (m, 2)."""

    known: Array
    hidden: Array

    def standardised(self) -> Hidden:
        """Both on the scale of the known."""
        centre, spread = np.median(self.known, axis=0), self.known.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        return Hidden((self.known - centre) / spread, (self.hidden - centre) / spread)


def hide(gram: Array, truth: NDArray[np.intp], hidden: NDArray[np.bool_], rho: float, width: int) -> Hidden | None:
    """The distances of a fit without the hidden classes, from the products (n, n) of all responses of `width`.

    The fit is exact. A known response is left out of means and scatter, while the shrinkage target stays. None where
    the classes have no spread.
    """
    kept = np.flatnonzero(~hidden)
    _, codes = np.unique(truth[kept], return_inverse=True)
    n, k = len(kept), int(codes.max()) + 1
    rho = float(np.clip(rho, 0.01, 0.999))  # below, and at one, the products below lose their digits
    within = _Residuals(gram, kept, codes)
    trace = float(within.products.trace()) / (n - k)
    if not trace > 1e-12 * float(gram.trace()) / len(gram):
        return None
    target = rho * trace / width
    near = within.distances((1 - rho) / (n - k), target).min(axis=1)
    whole = _Residuals(gram, kept, np.zeros(n, dtype=np.intp))
    far = whole.distances((1 - rho) / (n - 1), target)[:, 0]
    pair = np.column_stack([near, near - far])
    return Hidden(pair[kept], pair[hidden]).standardised()


class _Residuals:
    """Residuals r about the means of some responses, known by their products alone."""

    def __init__(self, gram: Array, kept: NDArray[np.intp], codes: NDArray[np.intp]) -> None:
        self.kept, self.codes, self.lengths = kept, codes, gram.diagonal()
        self.counts = np.bincount(codes).astype(np.float64)
        self.average = np.zeros((len(self.counts), len(kept)))
        self.average[codes, np.arange(len(kept))] = 1.0 / self.counts[codes]
        self.means = self.average @ gram[kept]  # (k, all): products of the means with all
        self.with_all = gram[kept] - self.means[codes]  # (n, all)
        inner = self.with_all[:, kept]
        self.products = inner - (inner @ self.average.T)[:, codes]  # (n, n)

    def distances(self, slope: float, target: float) -> Array:
        """Squared distances (all, k) to the means in `(slope r'r + target I)^-1`, the kept without themselves."""
        from scipy.linalg import cholesky, solve_triangular

        core = cholesky(self.products + target / slope * np.eye(len(self.kept)), lower=True)
        half = solve_triangular(core, self.with_all, lower=True)  # (n, all)
        half_means = half[:, self.kept] @ self.average.T  # (n, k)
        cross = (self.means.T - half.T @ half_means) / target  # (all, k)
        between = (self.means[:, self.kept] @ self.average.T - half_means.T @ half_means) / target  # (k, k)
        lengths = (self.lengths - np.einsum("ij,ij->j", half, half)) / target
        found: Array = lengths[:, None] - 2 * cross + between.diagonal()
        rows, own = np.arange(len(self.kept)), self.codes
        factor = self.counts[own] / (self.counts[own] - 1)
        mine = cross[self.kept]
        along = (lengths[self.kept] - mine[rows, own])[:, None] - mine + between[own]  # r' P (z - mean)
        residual = along[rows, own]
        gain = slope * factor / (1 - slope * factor * residual)  # Sherman-Morrison
        left = found[self.kept] + gain[:, None] * along**2
        left[rows, own] = factor**2 * (residual + gain * residual**2)
        found[self.kept] = left
        return found


def _area(terms: Sequence[Term], pairs: dict[Space, list[Hidden | None]], fold: int) -> float:
    known: Array | float = 0.0
    hidden: Array | float = 0.0
    for term in terms:
        pair = pairs[term.space][fold]
        assert pair is not None
        known, hidden = known + pair.known @ term.weights, hidden + pair.hidden @ term.weights
    return auroc(np.asarray(known), np.asarray(hidden))


def auroc(known: Array, outside: Array) -> float:
    """The probability that a score of `outside` is above one of `known`; ties count half."""
    if not len(known) or not len(outside):
        raise InputError(f"Read {len(known)} images of known classes and {len(outside)} others; both are needed.")
    order = np.sort(known)
    below, to = (np.searchsorted(order, outside, side=side).mean() for side in ("left", "right"))
    return float(below + to) / 2 / len(order)


def _sample(members: Members) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows of at most MOST responses of whole classes, in the order kept, and their class codes."""
    if (members.groups != "").any() or (members.weights != 1.0).any():
        return np.empty(0, dtype=np.intp), np.empty(0, dtype=np.intp)
    _, first, codes = np.unique(members.labels, return_index=True, return_inverse=True)
    chosen: list[NDArray[np.intp]] = []
    for code in np.argsort(first):  # those kept come in a seeded order, so these classes are a seeded draw
        mine = np.flatnonzero(codes == code)[:MOST_A_CLASS]
        if len(mine) >= FEWEST_A_CLASS and sum(map(len, chosen)) + len(mine) <= MOST:
            chosen.append(mine)
    rows = np.sort(np.concatenate([np.empty(0, dtype=np.intp), *chosen]))
    return rows, np.unique(codes[rows], return_inverse=True)[1]
