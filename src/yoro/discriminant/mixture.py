"""An ensemble of discriminants, one per reading, with ensemble weights by leave-one-out.

Each head gives calibrated log-probabilities; the answer is their weighted sum. The normalising constant of a head is
the same for every class, so the sum is one affine map of the whole response: it is explained, exported, updated,
merged and made to forget like a single discriminant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.calibration import fit_temperature, fit_weights, log_probabilities, spread
from yoro.discriminant.evidence import Choice, Evidence
from yoro.discriminant.leave_one_out import LeaveOneOut, Scored, sample_size, stratified
from yoro.discriminant.readings import FEATURES, Layout, side_by_side
from yoro.discriminant.selection import leave_one_out, opinion_of, select_shrinkage
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import Array

STRENGTH = 10.0  # pseudo-images in favour of equal weights: a prior for small data; more where networks are
FEW = 3  # images per class; with fewer, leave-one-out says little of the heads, and the features answer alone
WORTH = 2.0  # standard errors by which readings beyond the usual ones must lower the leave-one-out loss
WORTH_AMONG = 0.5  # and several networks that of the first: weights of many heads are held to equal ones the more
LEAST_GAIN = 0.005  # nats per image: where all answers are right, even noise lowers the loss a little
SMALLEST_SHARE = 0.01  # of the answer: a head with less is left out
SMALLEST_NETWORK = 0.05  # share of the answer below which a network is not worth its time
SILENCE = 1e-3  # nats: if all heads together say less, the one most often right answers alone. One outlier among few
# images can bring the likelihood to that.


class LeaveOneOutScores(NamedTuple):
    """Exact leave-one-out scores of kept responses, and the rows (m,) that they are of."""

    scored: Scored
    rows: NDArray[np.intp]


@dataclass(frozen=True)
class Mixture:
    """The discriminants of every reading of a layout."""

    layout: Layout
    evidences: tuple[Evidence, ...]
    described: bool = False  # whether sentences describe the classes, in the space of the first reading

    def judge(self, rule: str | float) -> tuple[Choice, LeaveOneOutScores | None]:
        """Choose a shrinkage for each reading by the rule; weights and temperature by leave-one-out.

        Also returns the leave-one-out scores of the choice, which have been computed by then.
        """
        judged = side_by_side(partial(self._judged, rule), range(len(self.evidences)), self.layout.widths)
        heads = [head for _, head in judged if head is not None]
        if len(judged) == 1:
            return judged[0][0], heads[0] if heads else None
        named = zip(judged, self.layout.names, strict=True)
        parts = [replace(part, name=name, right=None if head is None else _right(head)) for (part, head), name in named]
        choice = self._weighed(parts, [head.scored for head in heads])
        return choice, sum_of_scores(choice.parts, heads) if len(heads) == len(judged) else None

    def mapping(self, choice: Choice) -> AffineMapping:
        """The sum of the heads as one mapping of the whole response."""
        if not choice.parts:
            return self.evidences[0].mapping(choice)
        mappings = side_by_side(lambda pair: pair[0].mapping(pair[1]), self._paired(choice))
        return sum_of_mappings(choice.parts, mappings)

    def left_out(self, choice: Choice, *, every: bool = False) -> LeaveOneOutScores | None:
        """Exact leave-one-out scores of the kept responses; None if none can be left out.

        Of many responses and many classes those of a sample, unless `every` one is wanted.
        """
        if not choice.parts:
            return _left_out(self.evidences[0], choice, every)
        found = side_by_side(lambda pair: _left_out(*pair, every), self._paired(choice), self.layout.widths)
        heads = [head for head in found if head is not None]
        return sum_of_scores(choice.parts, heads) if len(heads) == len(found) else None

    def with_turned(self) -> Mixture:
        """The same with all members in the bases of their spectra."""
        evidences = side_by_side(Evidence.with_turned, self.evidences, self.layout.widths)
        return replace(self, evidences=tuple(evidences))

    def delta(self, choice: Choice) -> float:
        """The largest addition to a diagonal that a factorisation needed."""
        parts = choice.parts or (choice,)
        pairs = zip(self.evidences, parts, strict=True)
        return max(evidence.spectrum.regularised(part.shrinkage)[1] for evidence, part in pairs)

    def _judged(self, rule: str | float, i: int) -> tuple[Choice, LeaveOneOutScores | None]:
        """The choice of one head, and its leave-one-out scores where there are any."""
        evidence = self.evidences[i]
        left_out = leave_one_out(evidence)
        if self.described and i > 0 and left_out is None and isinstance(rule, str):
            return Choice(rule, 1.0), None  # what the sentences say answers alone
        choice = select_shrinkage(rule, evidence, left_out)
        return choice, None if left_out is None else _scored(evidence, choice, left_out)

    def _paired(self, choice: Choice) -> list[tuple[Evidence, Choice]]:
        return list(zip(self.evidences, choice.parts, strict=True))

    def _weighed(self, parts: Sequence[Choice], found: Sequence[Scored]) -> Choice:
        """The parts with their ensemble weights: by likelihood, shrunk towards equal ones for small data."""
        if self._few() or self._imagined() or len(found) < len(parts):
            return self._alone(parts)
        rows = stratified(found[0].truth, sample_size(found[0].scores.shape[1]))
        truth, counted = found[0].truth[rows], found[0].weights[rows]
        scores = [head.scores[rows] / part.temperature for head, part in zip(found, parts, strict=True)]
        weights = self._weights(scores, truth, counted)
        # A head that knows little is calibrated to say little: its share counts how much it says after all.
        said = np.array([spread(part) for part in scores])
        shares = weights * said
        if shares.sum() < SILENCE:
            return _combined(parts, np.eye(len(parts))[max(range(len(parts)), key=lambda i: parts[i].right or 0.0)])
        parts = [replace(part, temperature=part.temperature * s) for part, s in zip(parts, said, strict=True)]
        return _combined(parts, np.where(shares < SMALLEST_SHARE * shares.sum(), 0.0, shares))

    def _weights(self, scores: Sequence[Array], truth: NDArray[np.intp], counted: Array) -> Array:
        """Ensemble weights (heads,), zero for readings that are not needed.

        The usual readings of a network stay alone unless all of it are better beyond noise, and so does the first
        network among several. Of these, those with a small share of the answer are then left out one by one.
        """
        share, networks = counted / counted.sum(), self.layout.networks

        def weighed(heads: Sequence[int], strength: float = STRENGTH) -> Array:
            mine, weights = [scores[i] for i in heads], np.zeros(len(scores))
            equal = np.full(len(mine), 1.0 / fit_temperature(np.sum(mine, axis=0), truth, counted))
            weights[heads] = fit_weights(mine, truth, counted, equal, strength=strength)
            return weights

        def joined(kept: Sequence[str]) -> Array:
            return weighed([i for name in kept for i in heads[name]], STRENGTH * len(kept) ** 0.5)

        def losses(weights: Array) -> Array:
            """The loss of every image."""
            used = np.flatnonzero(weights).tolist() or heads[networks[0]]
            logs = log_probabilities(np.tensordot(weights[used], np.stack([scores[i] for i in used]), 1))
            return -logs[np.arange(len(truth)), truth]

        def better(weights: Array, than: Array, errors: float) -> bool:
            gain = losses(than) - losses(weights)
            mean = float(share @ gain)
            return mean > max(errors * math.sqrt(float(share**2 @ (gain - mean) ** 2)), LEAST_GAIN)

        heads = dict[str, list[int]]()
        for name in networks:
            every = [i for i, reading in enumerate(self.layout.readings) if reading.network == name]
            usual = [] if self.described else [i for i in every if i in self.layout.usual]
            usual = usual or every[:1]
            more = len(usual) < len(every) and better(weighed(every), weighed(usual), WORTH)
            heads[name] = every if more else usual
        own = weighed(heads[networks[0]])
        if len(networks) == 1 or not better(weights := joined(networks), own, WORTH_AMONG):
            return own
        said, kept = [spread(part) for part in scores], list(networks)
        while len(kept) > 1:
            shares = [float(sum(weights[i] * said[i] for i in heads[name])) for name in kept]
            if min(shares) >= SMALLEST_NETWORK * sum(shares):
                break
            kept.pop(int(np.argmin(shares)))
            weights = joined(kept)
        return weights

    def _imagined(self) -> bool:
        """Whether a class has no images, only sentences, which only the first reading knows."""
        known = self.evidences[0].statistics.counts > 0
        return any((one.statistics.counts > 0)[known].sum() < known.sum() for one in self.evidences[1:])

    def _few(self) -> bool:
        counts = self.evidences[0].statistics.counts
        return bool(np.median(counts[counts > 0]) < FEW) if (counts > 0).any() else True

    def _alone(self, parts: Sequence[Choice]) -> Choice:
        """The features alone, or else the first part; the others stay for when there are more images."""
        best = self.layout.places(FEATURES) or [0]
        return _combined(parts, np.eye(len(parts))[best].mean(axis=0))


def _combined(parts: Sequence[Choice], weights: Array) -> Choice:
    total = float(weights.sum())
    shared = tuple(replace(part, weight=float(w / total)) for part, w in zip(parts, weights, strict=True))
    heaviest = max(shared, key=lambda part: part.weight)
    return Choice(heaviest.rule, heaviest.shrinkage, 1.0 / total, alpha=parts[0].alpha, parts=shared)


def sum_of_mappings(parts: Sequence[Choice], mappings: Sequence[AffineMapping]) -> AffineMapping:
    """The weighted sum of the heads' mappings as one mapping of the whole response."""
    scales = [part.weight / part.temperature for part in parts]
    first = mappings[0]
    weights = np.concatenate([scale * mapping.weights for scale, mapping in zip(scales, mappings, strict=True)])
    known = np.isfinite(first.bias)
    bias = np.full(len(known), -np.inf)  # of classes without data
    heard = [(scale, mapping) for scale, mapping in zip(scales, mappings, strict=True) if scale > 0]
    bias[known] = sum(scale * mapping.bias[known] for scale, mapping in heard)
    return AffineMapping(weights, bias, first.classes)


def sum_of_scores(parts: Sequence[Choice], heads: Sequence[LeaveOneOutScores]) -> LeaveOneOutScores:
    """The weighted sum of the heads' scores."""
    scales = [part.weight / part.temperature for part in parts]
    total = sum(scale * head.scored.scores for scale, head in zip(scales, heads, strict=True) if scale > 0)
    return LeaveOneOutScores(replace(heads[0].scored, scores=np.asarray(total)), heads[0].rows)


def _right(head: LeaveOneOutScores) -> float:
    """Leave-one-out accuracy of a head."""
    return float(np.mean(head.scored.scores.argmax(axis=1) == head.scored.truth))


def _scored(evidence: Evidence, choice: Choice, left_out: LeaveOneOut) -> LeaveOneOutScores:
    """Leave-one-out scores of one head at its shrinkage, with the zero-shot head's opinion."""
    scored, opinion = left_out.scores(choice.shrinkage), opinion_of(evidence, left_out)
    if opinion is not None:
        scored = replace(scored, scores=scored.scores + choice.alpha * opinion)
    return LeaveOneOutScores(scored, left_out.rows)


def _left_out(evidence: Evidence, choice: Choice, every: bool) -> LeaveOneOutScores | None:
    left_out = leave_one_out(evidence, every=every)
    return None if left_out is None else _scored(evidence, choice, left_out)
