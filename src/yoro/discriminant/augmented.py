"""Leave-one-out of a training set augmented by one response, for full conformal prediction.

With a response x fitted in under class c, and member i taken out, the scatter is

    S + f q q' - f_i r r',   q = x - mu_c,   f = n_c / (n_c + 1)

and r the residual of the member from its mean, which x has moved if both are of class c. All vectors involved are sums
of members, class means and x, so that every product is found in tables of theirs. Few metrics suffice for the tables,
because those of the augmented sets differ only by a multiple of the identity.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.calibration import Prior, log_prior
from yoro.discriminant.reservoir import Members
from yoro.discriminant.shrinkage import LogNodes, Spectrum
from yoro.discriminant.statistics import ResponseStatistics
from yoro.mappings.batches import Array, class_codes


@dataclass(frozen=True)
class _Tables:
    """Inner products of members (n) and class means (k) in the metric of every node."""

    nodes: LogNodes
    inverse: Array  # (nodes, rank)
    zz: Array  # (n, nodes)
    both: Array  # (n, nodes, 2 k): members with the means, and then their residuals with the means
    mm: Array  # (nodes, k, k)


class Augmented:
    """Leave-one-out scores of augmented sets at one shrinkage; `members` are the training responses or a sample."""

    def __init__(
        self, statistics: ResponseStatistics, spectrum: Spectrum, members: Members, rho: float, prior: Prior
    ) -> None:
        self._counts, self._classes, self._prior = statistics.counts, statistics.classes, prior
        self._spectrum, self._rho = spectrum, rho
        self._degrees = statistics.total - int((statistics.counts > 0).sum())  # one in, one out
        self._scatter = spectrum.values * statistics.degrees
        self._centre = statistics.counts @ statistics.means / statistics.total
        known = statistics.counts[:, None] > 0
        self._means = np.where(known, statistics.means - self._centre, 0.0) @ spectrum.basis
        truth = class_codes(members.labels.tolist(), self._classes)
        self.rows = np.flatnonzero(self._counts[truth] > 1)
        self.truth = truth[self.rows]
        self._vectors = (members.responses[self.rows] - self._centre) @ spectrum.basis
        residuals = self._vectors - self._means[self.truth]
        self._lengths = np.einsum("ij,ij->i", residuals, residuals)
        self._made: tuple[float, float, _Tables] | None = None

    def __call__(self, response: NDArray[np.floating]) -> Iterator[Array]:
        """For every class that x is added under, the leave-one-out scores (n, classes) of the members."""
        moved = response - self._centre
        x = moved @ self._spectrum.basis
        rest = max(float(moved @ moved - x @ x), 0.0) if self._spectrum.target == "identity" else 0.0
        steps = x - self._means
        far = np.einsum("ij,ij->i", steps, steps) + rest  # |q|^2 of every class
        slope = (1.0 - self._rho) / self._degrees
        shifts = [
            self._rho * self._trace(c, x, far[c]) / (self._degrees * self._spectrum.width) for c in range(len(far))
        ]
        tables = self._tables(shifts, slope)
        nodes = tables.inverse
        products = (
            (nodes * x**2).sum(axis=1) + rest / tables.nodes.places,  # xx, (nodes,)
            self._vectors @ (nodes * x).T,  # xz, (n, nodes)
            (nodes * x) @ self._means.T,  # xm, (nodes, k)
        )
        for c, shift in enumerate(shifts):
            yield self._scores(c, slope, shift, tables, products)

    def _trace(self, c: int, x: Array, far: float) -> Array:
        """Trace of the scatter (n,) with x in class c and the member out."""
        count = self._counts[c]
        lost, own = self._lengths.copy(), self._counts[self.truth] + (self.truth == c)
        mine = self.truth == c
        q, g = x - self._means[c], 1.0 / (count + 1)
        residuals = self._vectors[mine] - self._means[c] - g * q
        lost[mine] = np.einsum("ij,ij->i", residuals, residuals)
        lost[mine] += g**2 * max(far - float(q @ q), 0.0)  # what x has outside the span, the mean has a part of
        return self._scatter.sum() + count * g * far - own / (own - 1) * lost  # type: ignore[no-any-return]

    def _tables(self, shifts: list[Array], slope: float) -> _Tables:
        """Tables in metrics from the smallest shift to the largest; reused if the last ones cover that range."""
        low, high = float(min(s.min() for s in shifts)), float(max(s.max() for s in shifts))
        if self._made is None or not self._made[0] <= low <= high <= self._made[1]:
            low, high = low / 1.5, high * 1.5
            nodes = LogNodes(low, high)
            inverses = 1.0 / np.add.outer(nodes.places, slope * self._scatter)
            weighted = [self._vectors * inverse for inverse in inverses]
            zz = np.stack([np.einsum("ij,ij->i", w, self._vectors) for w in weighted], axis=1)
            zm = np.stack([w @ self._means.T for w in weighted], axis=1)
            mm = np.array([(self._means * inverse) @ self._means.T for inverse in inverses])
            both = np.concatenate([zm, zm - mm[:, self.truth].swapaxes(0, 1)], axis=2)
            self._made = low, high, _Tables(nodes, inverses, zz, both, mm)
        return self._made[2]

    def _scores(
        self, c: int, slope: float, shift: Array, tables: _Tables, products: tuple[Array, Array, Array]
    ) -> Array:
        shares, truth, rows = tables.nodes.between(shift), self.truth, np.arange(len(self.truth))
        mine, g = (truth == c).astype(float), 1.0 / (self._counts[c] + 1)
        own = self._counts[truth] + mine
        step, factor = 1.0 / (own - 1), own / (own - 1)

        zz, xz = np.einsum("im,im->i", shares, tables.zz), np.einsum("im,im->i", shares, products[1])
        zm, rm = np.split(np.einsum("im,imk->ik", shares, tables.both), 2, axis=1)
        xx, xm = shares @ products[0], shares @ products[2]
        cm, mm = shares @ tables.mm[:, c], shares @ np.einsum("mkk->mk", tables.mm)

        qq = xx - 2 * xm[:, c] + mm[:, c]
        zq, qm = xz - zm[:, c], xm - cm
        rr = zz - 2 * zm[rows, truth] + mm[rows, truth]
        rr += mine * (g**2 * qq - 2 * g * (zq - qm[rows, truth]))
        rm -= (g * mine)[:, None] * qm
        rq = zq - qm[rows, truth] - g * mine * qq
        rz = zz - zm[rows, truth] - g * mine * zq

        mm[:, c] += 2 * g * qm[:, c] + g**2 * qq  # x moves the mean of its class
        zm[:, c] += g * zq
        rm[:, c] += g * rq
        qm[:, c] += g * qq
        mm[rows, truth] += -2 * step * rm[rows, truth] + step**2 * rr  # and the member leaves its own
        zm[rows, truth] -= step * rz
        qm[rows, truth] -= step * rq
        rm[rows, truth] -= step * rr

        up, down = slope * self._counts[c] * g, -slope * factor  # Woodbury's identity with q and r
        size = (1 + up * qq) * (1 + down * rr) - up * down * rq**2
        a, b, d = (1 + down * rr) * up / size, -up * down * rq / size, (1 + up * qq) * down / size
        hq, hr = a[:, None] * qm + b[:, None] * rm, b[:, None] * qm + d[:, None] * rm
        scores = zm - zq[:, None] * hq - rz[:, None] * hr - 0.5 * (mm - qm * hq - rm * hr)
        return scores + self._log_priors(c)  # type: ignore[no-any-return]

    def _log_priors(self, c: int) -> Array:
        counts = self._counts.copy()
        counts[c] += 1
        found = np.empty((len(self.truth), len(counts)))
        for y in np.unique(self.truth):
            left = counts.copy()
            left[y] -= 1
            found[self.truth == y] = log_prior(left, self._classes, self._prior)
        return found
