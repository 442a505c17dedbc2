"""Exact leave-one-out scores of BDM for any shrinkage, from one eigendecomposition.

Without response i of class y, with residual r = z_i - mu_y, the statistics are

    S - f r r',   f = n_y / (n_y - 1)          scatter
    mu_y - r / (n_y - 1)                       own-class mean
    tr S - f |r|^2                             trace, so the target of the shrinkage moves too

The target stays a multiple of the identity, hence diagonal in the same eigenbasis, and the
rank-one change of the scatter is undone by Sherman and Morrison. A group is left out whole,
by the same algebra with several rows. Weights are frequencies: leaving one out takes one unit.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.calibration import Prior, log_prior
from yoro.discriminant.reservoir import Members
from yoro.discriminant.resolvent import Resolvent
from yoro.discriminant.shrinkage import EPSILON, Spectrum
from yoro.discriminant.statistics import ResponseStatistics
from yoro.mappings.batches import class_codes

Array = NDArray[np.float64]

BLOCK = 1024  # responses scored at a time, unless there are many classes
# Scores, responses times classes. Beyond these, a sample of the responses is left out: one to choose shrinkage, weights
# and temperature on, and a larger one for the accuracy and all else that is said of the choice.
CHOOSING_SCORES = 4_000_000
KEPT_SCORES = 16_000_000
FEWEST = 100  # responses of a sample, however many classes there are


def sample_size(classes: int, *, kept: bool = False) -> int:
    """How many responses are scored against so many classes: to choose on, or to be kept with the choice."""
    return max(FEWEST, (KEPT_SCORES if kept else CHOOSING_SCORES) // max(classes, 1))


def stratified(truth: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Places of at most so many, ascending; of each class its share. Within a class the first come first.

    Responses kept come in the order of seeded digests, so that this is a seeded draw.

    >>> stratified(np.array([0, 1, 0, 0, 1, 0]), 3).tolist()
    [0, 1, 3]
    """
    if len(truth) <= most:
        return np.arange(len(truth))
    by_class = np.argsort(truth, kind="stable")
    return np.sort(by_class[np.arange(most) * len(truth) // most])


@dataclass(frozen=True)
class Scored:
    """Leave-one-out scores (m, classes), up to a constant a row; true classes and weights (m,)."""

    scores: Array
    truth: NDArray[np.intp]
    weights: Array


@dataclass(frozen=True)
class _Without:
    """The discriminants that each lack one of some members: a diagonal metric and a rank-one change of it."""

    slope: Array  # (b,) the diagonal metric is this times the scatter's eigenvalues,
    target: Array  # (b,) and that
    inverse: Array  # (b, rank) of it
    weighted: Array  # (b, rank) the residual of what is left out, in it
    rm: Array  # (b, classes) that residual with the class means
    constant: Array  # (b, classes)
    gain: Array  # (b,)
    shift: Array  # (b,) of the own class's mean along the residual
    truth: NDArray[np.intp]

    def scores(self, zm: Array, rz: Array) -> Array:
        """Scores (b, classes) of vectors by their products in the metric: with the means, and with the residual."""
        scores = zm + self.constant
        scores += (self.gain * rz)[:, None] * self.rm
        scores[np.arange(len(rz)), self.truth] -= self.shift * rz
        return scores


class LeaveOneOut:
    """Members rotated into the eigenbasis once; `scores` then costs three products per shrinkage.

    A member that is alone in its class (or whose group is the whole class) is skipped: without it the class would not
    exist.
    """

    def __init__(
        self, statistics: ResponseStatistics, spectrum: Spectrum, members: Members, *, prior: Prior = "empirical"
    ) -> None:
        self._spectrum, self._counts, self._prior = spectrum, statistics.counts, prior
        self._classes = statistics.classes
        self._total, self._present = statistics.total, int((statistics.counts > 0).sum())
        self._scatter_values = spectrum.values * max(statistics.degrees, 0.0)
        self._centre = centre = statistics.counts @ statistics.means / statistics.total
        self._means = np.where(statistics.counts[:, None] > 0, statistics.means - centre, 0.0) @ spectrum.basis
        truth = class_codes(members.labels.tolist(), self._classes)
        vectors = (members.responses - centre) @ spectrum.basis  # (m, rank)
        sizes = {name: int(n) for name, n in zip(*np.unique(members.groups, return_counts=True), strict=True) if name}
        together = np.array([sizes.get(name, 1) > 1 for name in members.groups.tolist()], dtype=bool)
        units = np.minimum(members.weights, 1.0)
        alone = ~together & (self._counts[truth] - units > 1e-9)
        self._vectors, self._truth, self._units = vectors[alone], truth[alone], units[alone]
        teams = [np.flatnonzero(members.groups == name) for name in sizes if sizes[name] > 1]
        teams = [rows for rows in teams if self._survives(rows, truth, members.weights)]
        self._groups = [(vectors[rows], truth[rows], members.weights[rows]) for rows in teams]
        self.rows = np.concatenate([np.flatnonzero(alone), *teams])  # which members the scores are of
        self.truth = truth[self.rows]
        self.weights = members.weights[self.rows]
        self.possible = len(self.rows)  # how many can be left out; a sample has fewer

    def __len__(self) -> int:
        return len(self.truth)

    def sampled(self, most: int) -> Self:
        """About so many of these at most, of each class its share and groups whole; this one, if it has no more."""
        if len(self) <= most:
            return self
        share, few = most / len(self), copy(self)
        single = stratified(self._truth, round(share * len(self._truth)))
        teams = stratified(np.array([truth[0] for _, truth, _ in self._groups]), round(share * len(self._groups)))
        few._vectors, few._truth, few._units = self._vectors[single], self._truth[single], self._units[single]
        few._groups = [self._groups[i] for i in teams]
        ends = len(self._truth) + np.cumsum([len(truth) for _, truth, _ in self._groups], dtype=np.intp)
        places = [single, *(np.arange(ends[i] - len(self._groups[i][1]), ends[i]) for i in teams)]
        chosen = np.concatenate(places)
        few.rows, few.truth, few.weights = self.rows[chosen], self.truth[chosen], self.weights[chosen]
        return few

    def scores(self, rho: float) -> Scored:
        """Scores of every member under the mapping fitted without it, at one shrinkage."""
        found = np.empty((len(self), len(self._counts)))
        for part in self._blocks():
            np.add(self._singles(part, rho)[0], self._log_priors(part), out=found[part])
        start = len(self._truth)
        for group in self._groups:
            scores, _, counts = self._group(*group, rho, group[0])
            found[start : start + len(scores)] = scores + log_prior(counts, self._classes, self._prior)
            start += len(scores)
        return Scored(found, self.truth, self.weights)

    def distances(self, rho: float) -> Array:
        """Squared distances (m, classes) of every member to the class means, in the metric fitted without it."""
        parts = [self._singles(part, rho) for part in self._blocks()]
        parts += [self._group(*group, rho, group[0])[:2] for group in self._groups]
        none = np.empty((0, len(self._counts)))
        return np.concatenate([none, *(lengths[:, None] - 2 * scores for scores, lengths in parts)])

    def _blocks(self) -> list[slice]:
        rows = min(BLOCK, sample_size(len(self._counts)))
        return [slice(i, min(i + rows, len(self._truth))) for i in range(0, len(self._truth), rows)]

    def _survives(self, rows: NDArray[np.intp], truth: NDArray[np.intp], weights: Array) -> bool:
        gone = np.bincount(truth[rows], weights[rows], len(self._counts))
        return bool((self._counts - gone > 1e-9)[gone > 0].all())

    def _singles(self, part: slice, rho: float) -> tuple[Array, Array]:
        """Scores without priors (b, classes), and squared lengths (b,)."""
        vectors, out = self._vectors[part], self._without(part, rho)
        rz = np.einsum("ij,ij->i", out.weighted, vectors)
        weighted = np.multiply(vectors, out.inverse, out=out.inverse)
        zz = np.einsum("ij,ij->i", weighted, vectors)
        return out.scores(weighted @ self._means.T, rz), zz + out.gain * rz**2

    def _without(self, part: slice, rho: float) -> _Without:
        vectors, truth, unit = self._vectors[part], self._truth[part], self._units[part]
        rows = np.arange(len(truth))
        count = self._counts[truth]
        left = count - unit
        factor, shift = unit * count / left, unit / left
        residual = vectors - self._means[truth]
        lost = factor * np.einsum("ij,ij->i", residual, residual)
        slope, target, diagonal = self._metric(lost, self._total - unit - self._present, rho)
        inverse = np.reciprocal(diagonal, out=diagonal)  # (b, rank): D_i^-1
        weighted = residual * inverse  # D^-1 r
        rr = np.einsum("ij,ij->i", weighted, residual)
        rm = weighted @ self._means.T  # r' D^-1 mu_c
        mm = inverse @ (self._means**2).T
        own_rm = rm[rows, truth]
        mm[rows, truth] += -2 * shift * own_rm + shift**2 * rr
        rm[rows, truth] -= shift * rr
        gain = slope * factor / (1.0 - slope * factor * rr)  # Sherman-Morrison
        constant = -0.5 * (mm + gain[:, None] * rm**2)
        return _Without(slope, target, inverse, weighted, rm, constant, gain, shift, truth)

    def _metric(self, lost: Array, degrees: Array, rho: float) -> tuple[Array, Array, Array]:
        """Factor of the scatter and target (m,), and the diagonal of the shrunk covariance they make, (m, rank)."""
        trace = np.maximum(self._scatter_values.sum() - lost, 0.0)
        sound = (degrees > 0) & (trace > EPSILON * self._scatter_values.sum())  # else: the Euclidean metric
        degrees = np.where(sound, degrees, 1.0)
        slope = np.where(sound, (1.0 - rho) / degrees, 0.0)
        target = np.where(sound, rho * trace / (degrees * self._spectrum.width), 1.0)
        diagonal = np.multiply.outer(slope, self._scatter_values)
        diagonal += target[:, None]
        floor = EPSILON * self._spectrum.width * (slope * self._scatter_values.max(initial=0.0) + target)
        if (target < floor).any():  # only where rho is zero, or nearly
            np.maximum(diagonal, floor[:, None], out=diagonal)
        return slope, target, diagonal

    def _log_priors(self, part: slice) -> Array:
        truth, unit = self._truth[part], self._units[part]
        base = log_prior(self._counts, self._classes, self._prior)
        table = np.repeat(base[None], len(truth), axis=0)
        if self._prior == "empirical":
            table += (np.log(self._total) - np.log(self._total - unit))[:, None]
            own = self._counts[truth]
            table[np.arange(len(truth)), truth] += np.log(own - unit) - np.log(own)
        return table

    def _group(
        self, vectors: Array, truth: NDArray[np.intp], weights: Array, rho: float, asked: Array
    ) -> tuple[Array, Array, Array]:
        """The same of vectors `asked`, a group left out whole by Woodbury's identity; and the counts that are left."""
        counts = self._counts.copy()
        means = self._means.copy()
        rows = [np.empty((0, means.shape[1]))]
        for c in np.unique(truth):
            mine = truth == c
            weight = weights[mine]
            gone, mean = weight.sum(), weight @ vectors[mine] / weight.sum()
            step = mean - means[c]
            left = counts[c] - gone
            rows.append(np.sqrt(weight)[:, None] * (vectors[mine] - mean))
            rows.append(np.sqrt(gone * counts[c] / left) * step[None])
            means[c] -= gone / left * step
            counts[c] = left
        down = np.concatenate(rows)  # (b, rank): the scatter loses down' down
        degrees = np.array([counts.sum() - self._present])
        slope, _, diagonal = self._metric(np.array([(down**2).sum()]), degrees, rho)
        inverse = 1.0 / diagonal[0]
        core = np.eye(len(down)) - slope[0] * (down * inverse) @ down.T
        zb, mb = (asked * inverse) @ down.T, (means * inverse) @ down.T
        half = slope[0] * np.linalg.solve(core, mb.T)  # (b, classes)
        cross = (asked * inverse) @ means.T + zb @ half
        norms = np.einsum("kj,kj,j->k", means, means, inverse) + np.einsum("kb,bk->k", mb, half)
        lengths = np.einsum("ij,ij,j->i", asked, asked, inverse)
        lengths += slope[0] * np.einsum("ib,bi->i", zb, np.linalg.solve(core, zb.T))
        return cross - 0.5 * norms, lengths, counts


class Refits:
    """The discriminants at one shrinkage, each fitted without one member or one group.

    Members are in the order of `LeaveOneOut.rows`. A response costs one product with every residual, and one with
    every mean in few metrics, because those of the refits differ only by a multiple of the identity.
    """

    def __init__(self, left_out: LeaveOneOut, rho: float) -> None:
        self._all, self._rho = left_out, rho
        made = [left_out._without(part, rho) for part in left_out._blocks()]
        self._singles = [replace(part, inverse=np.empty((0, 0))) for part in made]  # the resolvent has them all
        slope = np.concatenate([np.ones(0), *(part.slope for part in made)])
        target = np.concatenate([np.ones(0), *(part.target for part in made)])
        if rho < 1:  # as multiples of one scatter
            target, scales, values = target / slope, slope, left_out._scatter_values
        else:
            scales, values = np.ones_like(slope), np.zeros_like(left_out._scatter_values)
        low, high = (float(target.min()), float(target.max())) if made else (1.0, 1.0)
        self._resolvent = Resolvent(values, low, high)
        self._shares = self._resolvent.between(target) / scales[:, None]
        self._priors = left_out._log_priors(slice(0, len(slope)))

    def __call__(self, responses: NDArray[np.floating]) -> Iterator[Array]:
        """For each response the scores (m, classes) of all refits."""
        every = self._all
        vectors = (responses - every._centre) @ every._spectrum.basis
        teams = [every._group(*group, self._rho, vectors) for group in every._groups]
        products = [vectors @ part.weighted.T for part in self._singles]
        for at, vector in enumerate(vectors):
            zm = self._shares @ ((self._resolvent.inverse * vector) @ every._means.T) + self._priors
            parts, start = [], 0
            for part, rz in zip(self._singles, products, strict=True):
                parts.append(part.scores(zm[start : start + len(part.truth)], rz[at]))
                start += len(part.truth)
            for (_, truth, _), (scores, _, counts) in zip(every._groups, teams, strict=True):
                one = scores[at] + log_prior(counts, every._classes, every._prior)
                parts.append(np.repeat(one[None], len(truth), axis=0))
            yield np.concatenate(parts)
