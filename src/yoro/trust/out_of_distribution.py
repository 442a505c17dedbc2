"""Out-of-distribution (OOD) detection: how unlike the training images an image is, and how unusual that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.evidence import Evidence, make_evidence
from yoro.discriminant.leave_one_out import LeaveOneOut
from yoro.discriminant.reservoir import Members
from yoro.discriminant.shrinkage import Spectrum
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError
from yoro.mappings.batches import Array
from yoro.model.model import Model
from yoro.model.open_model import OpenModel
from yoro.model.settings import USUAL, Loading
from yoro.model.solve import threads_for
from yoro.trust.detector_choice import PLAIN, Term, auroc, choose_terms, transformed

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
        known, centre = self.statistics.counts > 0, self.statistics.centre
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
class Distances:
    """The Mahalanobis distance to the nearest class and the relative one, each on the scale of the fitted, weighted.

    The relative distance (less the distance to all the data) forgives what is unusual in every class, the plain one
    does not; which of the two detects more depends on the data.
    """

    part: slice  # of the response that is measured,
    transform: str  # after this was done to it
    within: Metric
    whole: Metric
    centres: Array  # (2,) medians of the two over the fitted
    spreads: Array  # (2,)
    weights: tuple[float, float] = (1.0, 1.0)

    def __call__(self, responses: NDArray[np.floating]) -> Array:
        """Weighted sums (n,) of the two for responses (n, width of all readings)."""
        mine = transformed(np.asarray(responses[:, self.part], dtype=np.float64), self.transform)
        return self.joined(_pair(self.within(mine), self.whole(mine)))

    def joined(self, pair: Array) -> Array:
        return ((pair - self.centres) / self.spreads) @ np.array(self.weights)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class OutOfDistributionScore:
    """The sum of Mahalanobis distances in one or several readings.

    `fitted` are the leave-one-out scores of the training responses.
    """

    terms: tuple[Distances, ...]
    fitted: Array  # (m,) sorted

    def __call__(self, responses: NDArray[np.floating]) -> Array:
        """OOD scores (n,) of responses (n, width); those of the training images are about zero."""
        return np.sum([term(responses) for term in self.terms], axis=0)  # type: ignore[no-any-return]

    def typicality(self, responses: NDArray[np.floating]) -> Array:
        """Conformal p-values (n,): the share of training images with at least this OOD score, the image included.

        For an image of the training distribution it is at most p with a probability of at most p.
        """
        less = np.searchsorted(self.fitted, self(responses), side="left").astype(np.float64)
        return (1.0 + len(self.fitted) - less) / (1.0 + len(self.fitted))


def out_of_distribution_score(model: Model) -> OutOfDistributionScore:
    """The OOD score of a model, by its stored responses: the usual one, or one chosen by hiding fitted classes.

    The choice follows from the responses alone, so that a saved model makes it again.
    """
    members = model.members()
    if members is None:
        raise InputError(
            "This model stores no individual responses, so it cannot detect out-of-distribution images. "
            "Fit again without --no-reservoir."
        )
    return left_out_scores(model, members)[0]


def left_out_scores(
    model: Model, members: Members, terms: Sequence[Term] = ()
) -> tuple[OutOfDistributionScore, Array, NDArray[np.intp]]:
    """The OOD score by some of the training responses, their leave-one-out scores, and their rows.

    Without `terms` these are chosen.
    """
    layout, usual = model.statistics.layout, usual_term(model)
    if not terms:
        terms = (usual,) if model.words is not None else choose_terms(layout, usual, members)
    with threads_for(model.statistics):
        parts = [_left_out(_evidence(model, members, term), term.shrinkage) for term in terms]
    made, pairs, found = [], [], []
    for term, (within, whole, pair, rows) in zip(terms, parts, strict=True):
        spreads = np.where(pair.std(axis=0) > 0, pair.std(axis=0), 1.0)
        centres, part = np.median(pair, axis=0), layout.slices[term.reading]
        made.append(Distances(part, term.transform, within, whole, centres, spreads, term.weights))
        pairs.append(pair)
        found.append({row: i for i, row in enumerate(rows.tolist())})
    # Transformed readings are known by the responses kept alone, where a class may have lost all but one.
    rows = np.array([row for row in found[0] if all(row in places for places in found)], dtype=np.intp)
    values = np.zeros(len(rows))
    for distances, pair, places in zip(made, pairs, found, strict=True):
        values += distances.joined(pair[[places[row] for row in rows.tolist()]])
    return OutOfDistributionScore(tuple(made), np.sort(values)), values, rows


def usual_term(model: Model) -> Term:
    """Both distances in the main reading, at the model's shrinkage."""
    at, parts = model.main_reading, model.choice.parts or (model.choice,)
    return Term(at, shrinkage=parts[at].shrinkage)


def _evidence(model: Model, members: Members, term: Term) -> Evidence:
    """What is known in the space of a term: by all the responses, or, where they are transformed, by these."""
    if term.transform == PLAIN:
        return model.evidence_of(term.reading, members)
    rows = term.rows(model.statistics.layout, members.responses)
    statistics = ResponseStatistics()
    statistics.update(rows, members.labels, members.weights)
    return make_evidence(statistics, replace(members, responses=rows))


@dataclass(frozen=True)
class DetectionMetrics:
    """How well out-of-distribution images are detected."""

    auroc: float  # the probability that an OOD image scores above one of a known class
    fpr95: float  # the share of OOD images accepted at the threshold that accepts 95 % of the known
    known: int
    outside: int


def detection_metrics(known: Array, outside: Array) -> DetectionMetrics:
    """The metrics of the OOD scores of known and of other images."""
    area, order = auroc(known, outside), np.sort(known)
    limit = order[int(np.ceil(0.95 * len(order))) - 1]
    return DetectionMetrics(area, float((outside <= limit).mean()), len(order), len(outside))


def evaluate_detection(
    classifier: OpenModel, data: object, outside: object, *, loading: Loading = USUAL, progress: bool = False
) -> DetectionMetrics:
    """How well a classifier detects OOD images among labelled data of its classes."""
    measure = out_of_distribution_score(classifier.model)
    part, _ = classifier.to_measure(data)
    inside = classifier.measured(part, loading=loading, progress=progress)
    others = classifier.answers(outside, loading=loading, progress=progress)
    known, other = (
        np.concatenate([np.empty(0), *(measure(a.responses) for a in stream if a.responses is not None)])
        for stream in (inside, others)
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
        raise InputError("No OOD score: every class has a single image, or a single group. Fit more images.")
    return within, whole, pair, rows


def _pair(near: Array, far: Array) -> Array:
    least = near.min(axis=1)
    return np.column_stack([least, least - far[:, 0]])
