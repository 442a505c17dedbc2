"""How unlike everything that was fitted an image is, and what share of the fitted images are as unlike."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.evidence import Evidence
from yoro.discriminant.leave_one_out import LeaveOneOut
from yoro.discriminant.readings import FEATURES
from yoro.discriminant.reservoir import Members
from yoro.discriminant.shrinkage import Spectrum
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError
from yoro.model.model import Model
from yoro.model.open_model import OpenModel
from yoro.model.settings import HERE, Loading

Array = NDArray[np.float64]
ALL = "all"  # what every class is called where classes do not count


@dataclass(frozen=True)
class Metric:
    """Squared Mahalanobis distances to class means at one shrinkage."""

    statistics: ResponseStatistics
    spectrum: Spectrum
    rho: float
    scale: float = 1.0  # of the distances

    def __call__(self, responses: NDArray[np.floating]) -> Array:
        """Distances (n, classes) of new responses; infinite to a class without data."""
        known = self.statistics.counts > 0
        centre = self.statistics.counts @ self.statistics.means / self.statistics.total
        values, delta = self.spectrum.regularised(self.rho)
        moved = responses - centre
        turned = moved @ self.spectrum.basis
        rows = turned / np.sqrt(values)
        means = (self.statistics.means[known] - centre) @ self.spectrum.basis / np.sqrt(values)
        found = np.full((len(rows), len(known)), np.inf)
        found[:, known] = (rows**2).sum(1)[:, None] - 2 * rows @ means.T + (means**2).sum(1)
        if self.spectrum.target == "identity" and turned.shape[1] < moved.shape[1]:  # what lies outside the span
            rest = np.maximum((moved**2).sum(1) - (turned**2).sum(1), 0.0)
            outside = self.rho * self.spectrum.trace / self.spectrum.width + delta
            found += (rest / outside if outside > 0 else rest)[:, None]
        return self.scale * found

    def left_out(self, members: Members) -> tuple[Array, NDArray[np.intp]]:
        """The same of fitted responses, each by the statistics without it; and which of them these are."""
        left_out = LeaveOneOut(self.statistics, self.spectrum, members)
        found = self.scale * left_out.distances(self.rho)
        found[:, self.statistics.counts == 0] = np.inf
        return found, left_out.rows


@dataclass(frozen=True)
class Strangeness:
    """The distance to the nearest class, and that less the distance to all the data: each on its own scale, summed.

    The second (relative Mahalanobis) forgives what is unusual in every class, the first does not; which of the two
    tells more depends on the data. `fitted` are those of the fitted responses, each by the statistics without it.
    """

    part: slice  # of the response that is measured
    within: Metric
    whole: Metric
    centres: Array  # (2,) medians of the two over the fitted
    spreads: Array  # (2,)
    fitted: Array  # (m,) sorted

    def __call__(self, responses: NDArray[np.floating]) -> Array:
        """How strange each of (n, width) is; the fitted ones have about zero."""
        mine = np.asarray(responses[:, self.part], dtype=np.float64)
        return self._joined(_pair(self.within(mine), self.whole(mine)))

    def typicality(self, responses: NDArray[np.floating]) -> Array:
        """The share of fitted images at least as strange as each of (n, width), that one counted in.

        If an image is like the fitted ones, it is at most p with a probability of at most p.
        """
        less = np.searchsorted(self.fitted, self(responses), side="left").astype(np.float64)
        return (1.0 + len(self.fitted) - less) / (1.0 + len(self.fitted))

    def _joined(self, pair: Array) -> Array:
        return ((pair - self.centres) / self.spreads).sum(axis=1)  # type: ignore[no-any-return]


def strangeness(model: Model) -> Strangeness:
    """What a model takes for strange, by the responses that it keeps; on its features, where it reads them."""
    members = model.members()
    if members is None:
        raise InputError(
            "This model keeps no individual responses, so it cannot say what is unknown to it. "
            "Fit again without --no-reservoir."
        )
    return strangeness_of(model, members)[0]


def strangeness_of(model: Model, members: Members) -> tuple[Strangeness, Array, NDArray[np.intp]]:
    """The measure by some of the fitted responses, what it says of each without itself, and which of them these are."""
    layout, parts = model.statistics.layout, model.choice.parts or (model.choice,)
    heaviest = max(range(len(parts)), key=lambda i: parts[i].weight)
    at = layout.names.index(FEATURES) if FEATURES in layout.names else heaviest
    within, whole, pair, rows = _left_out(model.evidence_of(at, members), parts[at].shrinkage)
    spreads = np.where(pair.std(axis=0) > 0, pair.std(axis=0), 1.0)
    made = Strangeness(layout.slices[at], within, whole, np.median(pair, axis=0), spreads, np.empty(0))
    values = made._joined(pair)
    return replace(made, fitted=np.sort(values)), values, rows


@dataclass(frozen=True)
class Outside:
    """How well images of other things are told from those of known classes."""

    auroc: float  # the probability that one of other things is stranger than one of a known class
    fpr95: float  # the share of other things that is accepted where 95 % of the known are
    known: int
    outside: int


def tell_apart(known: Array, outside: Array) -> Outside:
    """The figures of two lists of strangeness."""
    if not len(known) or not len(outside):
        raise InputError(f"{len(known)} known and {len(outside)} other images could be read; expected some of each.")
    order = np.sort(known)
    below, to = (np.searchsorted(order, outside, side=side).mean() for side in ("left", "right"))
    limit = order[int(np.ceil(0.95 * len(order))) - 1]
    return Outside(float(below + to) / 2 / len(order), float((outside <= limit).mean()), len(order), len(outside))


def measure_outside(
    classifier: OpenModel, data: object, outside: object, *, loading: Loading = HERE, progress: bool = False
) -> Outside:
    """How well a classifier tells images of other things from labelled data of its classes."""
    measure = strangeness(classifier.model)
    part, _ = classifier.to_measure(data)
    streams = (
        classifier.measured(part, loading=loading, progress=progress),
        classifier.answers(outside, loading=loading, progress=progress),
    )
    known, other = (
        np.concatenate([np.empty(0), *(measure(a.responses) for a in stream if a.responses is not None)])
        for stream in streams
    )
    return tell_apart(known, other)


def _left_out(evidence: Evidence, rho: float) -> tuple[Metric, Metric, Array, NDArray[np.intp]]:
    """The two metrics, both distances (m, 2) of the fitted responses without themselves, and which these are."""
    members, statistics = evidence.members, evidence.statistics
    assert members is not None
    joint = statistics.rename(dict.fromkeys(statistics.classes, ALL))
    spectrum = evidence.decompose(joint)
    if evidence.spectrum.degenerate or spectrum.degenerate:
        raise InputError("No class has two different images, so nothing can be told to be strange. Fit more images.")
    within = Metric(statistics, evidence.spectrum, rho)
    # Both covariances get the same multiple of the identity: they differ by the spread of the class means alone.
    share = rho * evidence.spectrum.trace / (rho * evidence.spectrum.trace + (1 - rho) * spectrum.trace)
    whole = Metric(joint, spectrum, share, share * spectrum.trace / (rho * evidence.spectrum.trace) if rho > 0 else 1.0)
    near, rows = within.left_out(members)
    far, others = whole.left_out(replace(members, labels=np.full(len(members), ALL)))
    place = {row: i for i, row in enumerate(others.tolist())}
    pair = _pair(near, far[[place[row] for row in rows.tolist()]])
    if not len(pair):
        raise InputError("Every class has one image alone, so nothing can be told to be strange. Fit more images.")
    return within, whole, pair, rows


def _pair(near: Array, far: Array) -> Array:
    least = near.min(axis=1)
    return np.column_stack([least, least - far[:, 0]])
