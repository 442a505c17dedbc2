"""Out-of-distribution (OOD) detection: how unlike the training images an image is, and how unusual that is."""

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
ALL = "all"  # the one class of the class-independent distance


@dataclass(frozen=True)
class Metric:
    """Squared Mahalanobis distances to the class means, at one shrinkage."""

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
        """Leave-one-out distances of training responses, and the rows of those that can be left out."""
        left_out = LeaveOneOut(self.statistics, self.spectrum, members)
        found = self.scale * left_out.distances(self.rho)
        found[:, self.statistics.counts == 0] = np.inf
        return found, left_out.rows


@dataclass(frozen=True)
class OutOfDistributionScore:
    """Mahalanobis distance to the nearest class plus relative Mahalanobis distance, each on its own scale.

    The relative distance (less the distance to all the data) forgives what is unusual in every class, the plain one
    does not; which of the two detects more depends on the data. `fitted` are the leave-one-out scores of the training
    responses.
    """

    part: slice  # of the response that is measured
    within: Metric
    whole: Metric
    centres: Array  # (2,) medians of the two over the fitted
    spreads: Array  # (2,)
    fitted: Array  # (m,) sorted

    def __call__(self, responses: NDArray[np.floating]) -> Array:
        """OOD scores (n,) of responses (n, width); those of the training images are about zero."""
        mine = np.asarray(responses[:, self.part], dtype=np.float64)
        return self._joined(_pair(self.within(mine), self.whole(mine)))

    def typicality(self, responses: NDArray[np.floating]) -> Array:
        """Conformal p-values (n,): the share of training images with at least this OOD score, the image included.

        For an image of the training distribution it is at most p with a probability of at most p.
        """
        less = np.searchsorted(self.fitted, self(responses), side="left").astype(np.float64)
        return (1.0 + len(self.fitted) - less) / (1.0 + len(self.fitted))

    def _joined(self, pair: Array) -> Array:
        return ((pair - self.centres) / self.spreads).sum(axis=1)  # type: ignore[no-any-return]


def out_of_distribution_score(model: Model) -> OutOfDistributionScore:
    """The OOD score of a model, by its stored responses; on its features, where it reads them."""
    members = model.members()
    if members is None:
        raise InputError(
            "This model stores no individual responses, so it cannot detect out-of-distribution images. "
            "Fit again without --no-reservoir."
        )
    return left_out_scores(model, members)[0]


def left_out_scores(model: Model, members: Members) -> tuple[OutOfDistributionScore, Array, NDArray[np.intp]]:
    """The OOD score by some of the training responses, their leave-one-out scores, and their rows."""
    layout, parts = model.statistics.layout, model.choice.parts or (model.choice,)
    heaviest = max(range(len(parts)), key=lambda i: parts[i].weight)
    at = layout.names.index(FEATURES) if FEATURES in layout.names else heaviest
    within, whole, pair, rows = _left_out(model.evidence_of(at, members), parts[at].shrinkage)
    spreads = np.where(pair.std(axis=0) > 0, pair.std(axis=0), 1.0)
    made = OutOfDistributionScore(layout.slices[at], within, whole, np.median(pair, axis=0), spreads, np.empty(0))
    values = made._joined(pair)
    return replace(made, fitted=np.sort(values)), values, rows


@dataclass(frozen=True)
class DetectionMetrics:
    """How well out-of-distribution images are detected."""

    auroc: float  # the probability that an OOD image scores above one of a known class
    fpr95: float  # the share of OOD images accepted at the threshold that accepts 95 % of the known
    known: int
    outside: int


def detection_metrics(known: Array, outside: Array) -> DetectionMetrics:
    """The metrics of the OOD scores of known and of other images."""
    if not len(known) or not len(outside):
        raise InputError(f"Read {len(known)} images of known classes and {len(outside)} others; both are needed.")
    order = np.sort(known)
    below, to = (np.searchsorted(order, outside, side=side).mean() for side in ("left", "right"))
    limit = order[int(np.ceil(0.95 * len(order))) - 1]
    return DetectionMetrics(
        float(below + to) / 2 / len(order), float((outside <= limit).mean()), len(order), len(outside)
    )


def evaluate_detection(
    classifier: OpenModel, data: object, outside: object, *, loading: Loading = HERE, progress: bool = False
) -> DetectionMetrics:
    """How well a classifier detects OOD images among labelled data of its classes."""
    measure = out_of_distribution_score(classifier.model)
    part, _ = classifier.to_measure(data)
    streams = (
        classifier.measured(part, loading=loading, progress=progress),
        classifier.answers(outside, loading=loading, progress=progress),
    )
    known, other = (
        np.concatenate([np.empty(0), *(measure(a.responses) for a in stream if a.responses is not None)])
        for stream in streams
    )
    return detection_metrics(known, other)


def _left_out(evidence: Evidence, rho: float) -> tuple[Metric, Metric, Array, NDArray[np.intp]]:
    """The two metrics, the leave-one-out distances (m, 2) of the training responses, and their rows."""
    members, statistics = evidence.members, evidence.statistics
    assert members is not None
    joint = statistics.rename(dict.fromkeys(statistics.classes, ALL))
    spectrum = evidence.decompose(joint)
    if evidence.spectrum.degenerate or spectrum.degenerate:
        raise InputError("No OOD score: no class has two different images. Fit more images.")
    within = Metric(statistics, evidence.spectrum, rho)
    # Both covariances get the same multiple of the identity: they differ by the spread of the class means alone.
    share = rho * evidence.spectrum.trace / (rho * evidence.spectrum.trace + (1 - rho) * spectrum.trace)
    whole = Metric(joint, spectrum, share, share * spectrum.trace / (rho * evidence.spectrum.trace) if rho > 0 else 1.0)
    near, rows = within.left_out(members)
    far, others = whole.left_out(replace(members, labels=np.full(len(members), ALL)))
    place = {row: i for i, row in enumerate(others.tolist())}
    pair = _pair(near, far[[place[row] for row in rows.tolist()]])
    if not len(pair):
        raise InputError("No OOD score: every class has a single image. Fit more images.")
    return within, whole, pair, rows


def _pair(near: Array, far: Array) -> Array:
    least = near.min(axis=1)
    return np.column_stack([least, least - far[:, 0]])
