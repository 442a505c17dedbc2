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

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.calibration import Prior, log_prior
from yoro.discriminant.reservoir import Members
from yoro.discriminant.shrinkage import EPSILON, Inverses, LogNodes, Spectrum
from yoro.discriminant.statistics import ResponseStatistics
from yoro.mappings.batches import Array, class_codes

BLOCK = 1024  # responses scored at a time, unless there are many classes
TOGETHER = 1024  # and classes
# Scores, responses times classes. Beyond these, a sample of the responses is left out: one to choose shrinkage, weights
# and temperature on, and a larger one for the accuracy and all else that is said of the choice.
CHOOSING_SCORES = 4_000_000
KEPT_SCORES = 16_000_000
EXACT = 1e-13  # what interpolation between metrics may add to a product, relatively
ROUGH = 1e-6  # and where it is enough to know which shrinkages are far from the best
WORTH_ROUGH = 2**22  # products of a member, a class and a coordinate from which rough scores are much quicker
FEWEST = 100  # minimum size of a sample of responses, whatever the number of classes


def sample_size(classes: int, *, kept: bool = False) -> int:
    """How many responses are scored, given the number of classes: when choosing, or when storing scores."""
    return max(FEWEST, (KEPT_SCORES if kept else CHOOSING_SCORES) // max(classes, 1))


def stratified(truth: NDArray[np.intp], most: int) -> NDArray[np.intp]:
    """Ascending indices of a stratified sample: at most this many, with a share for each class.

    Within a class the first are taken. Responses are stored in the order of seeded digests, so this is a seeded draw.

    >>> stratified(np.array([0, 1, 0, 0, 1, 0]), 3).tolist()
    [0, 1, 3]
    """
    if len(truth) <= most:
        return np.arange(len(truth))
    by_class = np.argsort(truth, kind="stable")
    return np.sort(by_class[np.arange(most) * len(truth) // most])


class Turned(NamedTuple):
    """Members in the eigenbasis of a spectrum: their coordinates (m, rank) from a centre (width,)."""

    centre: Array
    rows: Array


def turn(spectrum: Spectrum, centre: Array, responses: NDArray[np.floating]) -> Turned:
    """Responses (m, width) in the eigenbasis of a spectrum."""
    return Turned(centre, (responses - centre) @ spectrum.basis)


@dataclass(frozen=True)
class Scored:
    """Leave-one-out scores (m, classes), up to a constant a row; true classes and weights (m,)."""

    scores: Array
    truth: NDArray[np.intp]
    weights: Array


def _drawn(
    singles: NDArray[np.intp], groups: Sequence[NDArray[np.intp]], most: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """A sample of the members that are left out one by one, by class, and of the groups, by their classes."""
    share = most / (len(singles) + sum(map(len, groups)))
    teams = np.array([truth[0] for truth in groups], dtype=np.intp)
    return stratified(singles, round(share * len(singles))), stratified(teams, round(share * len(groups)))


@dataclass(frozen=True)
class _Singles:
    """Members that are left out one by one, class by class; whatever is kept of them has a row each."""

    place: NDArray[np.intp]  # among all that are left out
    truth: NDArray[np.intp]
    residuals: Array  # (m, rank) from the mean of their class
    count: Array  # of their class
    unit: Array  # what leaving out takes from it
    freedom: Array  # 1 / remaining degrees of freedom; 0 if no covariance is left
    shares: Array  # (m, nodes) by which inverses at the nodes make their own
    rough: Array  # (m, few nodes) the same with fewer
    single: NDArray[np.float32]  # the residuals in single precision, where rough scores are worth their while

    def __getitem__(self, rows: slice | NDArray[np.intp]) -> _Singles:
        return _Singles(*(getattr(self, part.name)[rows] for part in fields(self)))

    def __len__(self) -> int:
        return len(self.truth)


@dataclass(frozen=True)
class _Without:
    """The discriminants that each lack one of some members: another metric, and a rank-one change of it."""

    members: _Singles
    rr: Array  # (b,) the residual of what is left out, with itself in that metric
    rm: Array  # (b, classes) and with the class means
    own: Array  # (b,) and with the mean of its class, as that was
    ym: Array  # (b, classes) that mean with all means, as they were
    constant: Array  # (b, classes)
    gain: Array  # (b,)
    shift: Array  # (b,) of the own class's mean along the residual

    def scores(self, zm: Array, rz: Array) -> Array:
        """Scores (b, classes) of vectors by their products in the metric: with the means, and with the residual."""
        scores = zm + self.constant
        scores += (self.gain * rz)[:, None] * self.rm
        scores[np.arange(len(rz)), self.members.truth] -= self.shift * rz
        return scores

    def of_members(self) -> tuple[Array, Array]:
        """Scores without priors (b, classes) of the members themselves, and their squared lengths (b,)."""
        rows, truth = np.arange(len(self.own)), self.members.truth
        rz = self.rr + self.own
        zm = self.rm + self.ym
        zm[rows, truth] += self.shift * self.rr
        return self.scores(zm, rz), rz + zm[rows, truth] + self.gain * rz**2


class LeaveOneOut:
    """Members rotated into the eigenbasis once; `scores` then costs a product for each of few nodes.

    Without a member the covariance differs from that of all by a multiple of the identity, besides its rank-one
    change: products in all these metrics are mixed of those in few. A member that is alone in its class (or whose
    group is the whole class) is skipped: without it the class would not exist.
    """

    def __init__(
        self,
        statistics: ResponseStatistics,
        spectrum: Spectrum,
        members: Members,
        *,
        prior: Prior = "empirical",
        turned: Turned | None = None,
        most: int | None = None,
    ) -> None:
        """`turned` are the members in the eigenbasis, where they are at hand; of more than `most` a sample is taken."""
        self._spectrum, self._counts, self._prior = spectrum, statistics.counts, prior
        self._classes = statistics.classes
        self._total, self._present = statistics.total, int((statistics.counts > 0).sum())
        self._scatter_values = spectrum.values * max(statistics.degrees, 0.0)
        self._trace = float(self._scatter_values.sum())
        if spectrum.change is not None:
            self._trace = spectrum.trace * statistics.degrees
        self._centre = centre = statistics.centre if turned is None else turned.centre
        self._means = np.where(statistics.counts[:, None] > 0, statistics.means - centre, 0.0) @ spectrum.basis
        truth = class_codes(members.labels.tolist(), self._classes)
        sizes = {name: int(n) for name, n in zip(*np.unique(members.groups, return_counts=True), strict=True) if name}
        together = np.array([sizes.get(name, 1) > 1 for name in members.groups.tolist()], dtype=bool)
        units = np.minimum(members.weights, 1.0)
        alone = np.flatnonzero(~together & (self._counts[truth] - units > 1e-9))
        teams = [np.flatnonzero(members.groups == name) for name in sizes if sizes[name] > 1]
        teams = [rows for rows in teams if self._survives(rows, truth, members.weights)]
        self.possible = len(alone) + sum(map(len, teams))  # how many can be left out; a sample has fewer
        place = np.argsort(truth[alone], kind="stable")
        if most is not None and most < self.possible:
            drawn, some = _drawn(truth[alone][place], [truth[rows] for rows in teams], most)
            alone, teams = alone[np.sort(place[drawn])], [teams[i] for i in some]
            place = np.argsort(truth[alone], kind="stable")

        def vectors(rows: NDArray[np.intp]) -> Array:
            return self._turned(members.responses[rows]) if turned is None else turned.rows[rows]

        self._groups = [(vectors(rows), truth[rows], members.weights[rows]) for rows in teams]
        rows = alone[place]
        self._singles = self._left_singly(place, truth[rows], vectors(rows), units[rows])
        self.rows = np.concatenate([alone, *teams])  # which members the scores are of
        self.truth = truth[self.rows]
        self.weights = members.weights[self.rows]
        self._last: tuple[float, Scored] | None = None  # exact scores, and their shrinkage

    def __len__(self) -> int:
        return len(self.truth)

    def _turned(self, responses: NDArray[np.floating]) -> Array:
        """Responses in the eigenbasis, from the centre of all."""
        return turn(self._spectrum, self._centre, responses).rows

    def sampled(self, most: int) -> Self:
        """About so many of these at most, of each class its share and groups whole; this one, if it has no more."""
        if len(self) <= most:
            return self
        drawn, teams = _drawn(self._singles.truth, [truth for _, truth, _ in self._groups], most)
        single, few = self._singles[drawn], copy(self)
        few._singles = replace(single, place=np.argsort(np.argsort(single.place)))
        few._groups = [self._groups[i] for i in teams]
        ends = len(self._singles) + np.cumsum([len(truth) for _, truth, _ in self._groups], dtype=np.intp)
        places = [np.sort(single.place), *(np.arange(ends[i] - len(self._groups[i][1]), ends[i]) for i in teams)]
        chosen = np.concatenate(places)
        few._last = None
        few.rows, few.truth, few.weights = self.rows[chosen], self.truth[chosen], self.weights[chosen]
        return few

    def scores(self, rho: float, *, rough: bool = False) -> Scored:
        """Scores of every member under the mapping fitted without it, at one shrinkage.

        `rough` ones, with products in single precision, are good to about six digits.
        """
        if not rough and self._last is not None and self._last[0] == rho:
            return self._last[1]
        scored = Scored(self._found(rho, rough=rough)[0], self.truth, self.weights)
        if not rough:
            self._last = rho, scored
        return scored

    def distances(self, rho: float) -> Array:
        """Squared distances (m, classes) of every member to the class means, in the metric fitted without it."""
        scores, lengths = self._found(rho, priors=False)
        return lengths[:, None] - 2 * scores

    def _found(self, rho: float, *, rough: bool = False, priors: bool = True) -> tuple[Array, Array]:
        """Scores (m, classes) of every member without it, and squared lengths (m,)."""
        found, lengths, start = np.empty((len(self), len(self._counts))), np.empty(len(self)), len(self._singles)
        for part in self._blocks():
            scores, lengths[part.place] = self._without(part, rho, rough=rough).of_members()
            if priors:
                self._add_log_priors(scores, part)
            found[part.place] = scores
        for group in self._groups:
            mine = slice(start, start := start + len(group[1]))
            found[mine], lengths[mine], counts = self._group(*group, rho, group[0])
            if priors:
                found[mine] += log_prior(counts, self._classes, self._prior)
        return found, lengths

    def _blocks(self) -> list[_Singles]:
        rows = min(BLOCK, sample_size(len(self._counts)))
        return [self._singles[i : i + rows] for i in range(0, len(self._singles), rows)]

    def _survives(self, rows: NDArray[np.intp], truth: NDArray[np.intp], weights: Array) -> bool:
        gone = np.bincount(truth[rows], weights[rows], len(self._counts))
        return bool((self._counts - gone > 1e-9)[gone > 0].all())

    def _left_singly(self, place: NDArray[np.intp], truth: NDArray[np.intp], vectors: Array, unit: Array) -> _Singles:
        """Members of their own; sets the nodes of all their metrics."""
        residuals, count = np.subtract(vectors, self._means[truth], out=vectors), self._counts[truth]
        trace = self._trace - unit * count / (count - unit) * np.einsum("ij,ij->i", residuals, residuals)
        freedom = self._freedom(trace, self._total - unit - self._present)
        self._nodes, shares = self._metrics(trace, freedom, EXACT)
        self._rough_nodes, rough = self._metrics(trace, freedom, ROUGH)
        self.large = residuals.size * len(self._counts) > WORTH_ROUGH
        self._unit = float(np.abs(residuals).max(initial=0.0)) or 1.0  # so that single precision has room
        single = (residuals / self._unit if self.large else residuals[:, :0]).astype(np.float32)
        return _Singles(place, truth, residuals, count, unit, freedom, shares, rough, single)

    def _metrics(self, trace: Array, freedom: Array, error: float) -> tuple[Array, Array]:
        """Traces (nodes,) of few metrics, and the shares (m, nodes) of each in the metric of every member.

        The Euclidean metric is the last of them, with a trace of 0, where members need it.
        """
        sound = freedom > 0
        nodes, between = self._few_nodes(trace[sound], error)
        shares = np.zeros((len(trace), len(nodes) + 1))
        shares[sound, :-1], shares[~sound, -1] = between / freedom[sound, None], 1.0
        return (nodes, shares[:, :-1]) if sound.all() else (np.append(nodes, 0.0), shares)

    def _few_nodes(self, traces: Array, error: float) -> tuple[Array, Array]:
        """Few traces, and the shares (m, nodes) by which products in their metrics make those at other traces."""
        if not len(traces):
            return np.empty(0), np.empty((0, 0))
        nodes = LogNodes(float(traces.min()), float(traces.max()), error)
        return nodes.places, nodes.between(traces)

    def _freedom(self, trace: Array, degrees: Array) -> Array:
        """One by the degrees of freedom; 0 where so little is left that only the Euclidean metric remains."""
        sound = (degrees > 0) & (trace > EPSILON * self._trace)
        return np.where(sound, 1.0 / np.where(sound, degrees, 1.0), 0.0)

    def _inverse(self, traces: Array, rho: float) -> Inverses:
        """Inverses (n, rank) of the shrunk scatters of such traces; without a trace, the identity."""
        values, target = (1.0 - rho) * self._scatter_values, rho * traces / self._spectrum.width
        floor = EPSILON * self._spectrum.width * (values.max(initial=0.0) + target)
        diagonal = np.maximum(np.add.outer(target, values), floor[:, None])
        diagonal[traces == 0] = 1.0
        return self._spectrum.inverses(1.0 / diagonal, np.where(traces == 0, 0.0, 1.0 - rho))

    def _without(self, part: _Singles, rho: float, *, rough: bool = False) -> _Without:
        rows, truth, left = np.arange(len(part)), part.truth, part.count - part.unit
        shares, inverses = part.shares, self._inverse(self._nodes, rho)
        if rough:
            shares, inverses = part.rough, self._inverse(self._rough_nodes, rho)
        rr = np.einsum("ij,ij->i", shares, inverses.squares(part.residuals))
        rm, ym, mm = self._with_means(part.single if rough else part.residuals, truth, shares, inverses)
        shift, own = part.unit / left, rm[rows, truth]
        mm[rows, truth] += -2 * shift * own + shift**2 * rr
        rm[rows, truth] -= shift * rr
        slope = (1.0 - rho) * part.freedom * part.unit * part.count / left
        gain = slope / (1.0 - slope * rr)  # Sherman-Morrison
        constant = -0.5 * (mm + gain[:, None] * rm**2)
        return _Without(part, rr, rm, own, ym, constant, gain, shift)

    def _with_means(
        self, residuals: NDArray[np.floating], truth: NDArray[np.intp], shares: Array, inverses: Inverses
    ) -> tuple[Array, Array, Array]:
        """Products (b, classes) with the class means: of residuals, of the own mean, and of each with itself."""
        classes, own = np.unique(truth, return_inverse=True)
        unit = self._unit if residuals.dtype == np.float32 else 1.0
        few = (self._means[classes] / unit).astype(residuals.dtype, copy=False)
        rm, ym, mm = np.empty((3, len(truth), len(self._means)))
        for start in range(0, len(self._means), TOGETHER):
            columns = slice(start, start + TOGETHER)
            means = self._means[columns]
            weighted = inverses.times(means)  # (nodes, classes, rank)
            mm[:, columns] = shares @ np.einsum("jkr,kr->jk", weighted, means)
            turned = (weighted * unit).reshape(-1, means.shape[1]).astype(residuals.dtype, copy=False).T
            for products, out in ((residuals @ turned, rm), ((few @ turned)[own], ym)):
                each = products.reshape(len(truth), len(inverses), -1)
                np.einsum("ij,ijk->ik", shares, each, out=out[:, columns])
        return rm, ym, mm

    def _add_log_priors(self, scores: Array, part: _Singles) -> None:
        """Add the logs of the priors that are left to the scores of members (b, classes)."""
        scores += log_prior(self._counts, self._classes, self._prior)
        if self._prior == "empirical":
            scores += (np.log(self._total) - np.log(self._total - part.unit))[:, None]
            scores[np.arange(len(part)), part.truth] += np.log(part.count - part.unit) - np.log(part.count)

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
        trace = np.array([self._trace - (down**2).sum()])
        freedom = self._freedom(trace, np.array([counts.sum() - self._present]))[0]
        inverse, scale, slope = self._inverse(trace, rho), 1.0 / (freedom or 1.0), (1.0 - rho) * freedom
        if not freedom:
            inverse = self._spectrum.inverses(np.ones((1, means.shape[1])), np.zeros(1))
        white_down, white_asked, white_means = (scale * inverse.times(each)[0] for each in (down, asked, means))
        core = np.eye(len(down)) - slope * white_down @ down.T
        zb, mb = white_asked @ down.T, white_means @ down.T
        half = slope * np.linalg.solve(core, mb.T)  # (b, classes)
        cross = white_asked @ means.T + zb @ half
        norms = np.einsum("kj,kj->k", means, white_means) + np.einsum("kb,bk->k", mb, half)
        lengths = np.einsum("ij,ij->i", asked, white_asked)
        lengths += slope * np.einsum("ib,bi->i", zb, np.linalg.solve(core, zb.T))
        return cross - 0.5 * norms, lengths, counts


class Refits:
    """The discriminants at one shrinkage, each fitted without one member or one group.

    Members are in the order of `LeaveOneOut.rows`. A response costs one product with every residual, and one with
    every mean in few metrics, because those of the refits differ only by a multiple of the identity.
    """

    def __init__(self, left_out: LeaveOneOut, rho: float) -> None:
        self._all, self._rho, self._parts = left_out, rho, []
        self._inverses = left_out._inverse(left_out._nodes, rho)
        for part in left_out._blocks():
            weighted = self._inverses.mixed(part.residuals, part.shares)
            priors = np.zeros((len(part), len(left_out._counts)))
            left_out._add_log_priors(priors, part)
            self._parts.append((left_out._without(part, rho), weighted, priors))

    def __call__(self, responses: NDArray[np.floating]) -> Iterator[Array]:
        """For each response the scores (m, classes) of all refits."""
        every = self._all
        vectors = every._turned(responses)
        teams = [every._group(*group, self._rho, vectors) for group in every._groups]
        products = [vectors @ weighted.T for _, weighted, _ in self._parts]
        for at, vector in enumerate(vectors):
            found, start = np.empty((len(every), len(every._counts))), len(every._singles)
            nodes = self._inverses.times(vector[None])[:, 0] @ every._means.T
            for (part, _, priors), rz in zip(self._parts, products, strict=True):
                found[part.members.place] = part.scores(part.members.shares @ nodes + priors, rz[at])
            for (_, truth, _), (scores, _, counts) in zip(every._groups, teams, strict=True):
                found[start : start + len(truth)] = scores[at] + log_prior(counts, every._classes, every._prior)
                start += len(truth)
            yield found
