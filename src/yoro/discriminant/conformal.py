"""Conformal prediction: how well a label fits a response, ranked among the training responses with their own labels.

A training response is scored by the mixture fitted without it. A new one is scored by these leave-one-out mixtures
(jackknife+), or is added under every label in turn while every training response is left out (full conformal
prediction). Shrinkages, weights and temperature stay as chosen.

A rank (`beaten`) is the number of training responses whose label fits better: the fewer, the better the class fits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.augmented import Augmented
from yoro.discriminant.calibration import log_probabilities
from yoro.discriminant.evidence import Choice, Evidence
from yoro.discriminant.leave_one_out import Refits
from yoro.discriminant.mixture import LeaveOneOutScores, Mixture
from yoro.discriminant.selection import leave_one_out
from yoro.mappings.batches import Array


@dataclass(frozen=True)
class _Head:
    """One discriminant of the mixture."""

    part: slice  # of the response
    scale: float
    evidence: Evidence
    shrinkage: float
    alpha: float

    def opinion(self, responses: NDArray[np.floating]) -> Array:
        """The scores that the zero-shot head adds for responses (n, width of the reading), if there is one."""
        head = self.evidence.head
        return np.zeros((len(responses), 1)) if head is None else self.alpha * head(responses)


def _heads(mixture: Mixture, choice: Choice) -> list[_Head]:
    parts, found = choice.parts or (choice,), []
    for evidence, part, where in zip(mixture.evidences, parts, mixture.layout.slices, strict=True):
        scale = part.weight / part.temperature if choice.parts else 1.0
        if scale > 0:
            found.append(_Head(where, scale, evidence, part.shrinkage, part.alpha))
    return found


def _sum(heads: Sequence[_Head], scores: Sequence[Array], opinions: Sequence[Array]) -> Array:
    """The weighted sum of the scores of all heads, with the opinion of the zero-shot head of each."""
    total = np.zeros_like(scores[0])
    for head, mine, opinion in zip(heads, scores, opinions, strict=True):
        total += head.scale * (mine + opinion)
    return total


class JackknifeRanks:
    """Ranks by the mixtures of exact leave-one-out (jackknife+); `found` are the leave-one-out scores."""

    def __init__(self, mixture: Mixture, choice: Choice, found: LeaveOneOutScores) -> None:
        self._heads, self._temperature = _heads(mixture, choice), choice.temperature
        self._refits = [
            Refits(left_out, head.shrinkage)
            for head in self._heads
            if (left_out := leave_one_out(head.evidence)) is not None
        ]
        logs = log_probabilities(found.scored.scores, self._temperature)
        self._truth = found.scored.truth
        self._own = logs[np.arange(len(logs)), self._truth]
        self._sorted = np.sort(self._own)
        self._counts = np.bincount(self._truth, minlength=logs.shape[1])

    def __len__(self) -> int:
        """How many training responses there are to rank among."""
        return len(self._own)

    def by_all(self, responses: NDArray[np.floating]) -> Array:
        """Ranks (n, classes) of jackknife+ (Barber et al. 2021), by all leave-one-out mixtures."""
        return np.stack([(logs < self._own[:, None]).sum(axis=0) for logs in self._answers(responses)]).astype(float)

    def by_class(self, responses: NDArray[np.floating], logs: Array) -> Array:
        """Mean ranks (n, classes) over the mixtures that lack one response of the class in question.

        So it is treated like the training responses, each of which was scored while its class had one less. A class
        of which none can be left out is scored by the whole mixture, `logs` (n, classes).
        """
        found = self._worse_than(logs)
        seen = self._counts > 0
        for at, answers in enumerate(self._answers(responses)):
            each = self._worse_than(answers[np.arange(len(answers)), self._truth])
            means = np.bincount(self._truth, each, len(seen))[seen] / self._counts[seen]
            found[at, seen] = means
        return found

    def _worse_than(self, logs: Array) -> Array:
        return len(self) - np.searchsorted(self._sorted, logs, side="right").astype(float)

    def _answers(self, responses: NDArray[np.floating]) -> Iterator[Array]:
        """For each response the log-probabilities (m, classes) of all leave-one-out mixtures."""
        refitted = [refits(responses[:, head.part]) for head, refits in zip(self._heads, self._refits, strict=True)]
        opinions = [head.opinion(responses[:, head.part]) for head in self._heads]
        for at, scores in enumerate(zip(*refitted, strict=True)):
            total = _sum(self._heads, scores, [opinion[at] for opinion in opinions])
            yield log_probabilities(total, self._temperature)


class FullConformalRanks:
    """Ranks of full conformal prediction: one leave-one-out for every class that the new response is added under."""

    def __init__(self, mixture: Mixture, choice: Choice) -> None:
        self._heads, self._temperature = _heads(mixture, choice), choice.temperature
        self._augmented, self._opinions = [], []
        for head in self._heads:
            evidence, members = head.evidence, head.evidence.members
            assert members is not None
            one = Augmented(evidence.statistics, evidence.spectrum, members, head.shrinkage, evidence.prior)
            self._augmented.append(one)
            self._opinions.append(head.opinion(members.responses[one.rows]))
        self._truth = self._augmented[0].truth

    def __len__(self) -> int:
        return len(self._truth)

    def beaten(self, responses: NDArray[np.floating], logs: Array) -> Array:
        """Ranks (n, classes) of responses; `logs` (n, classes) are their log-probabilities."""
        return np.stack([self._one(response, mine) for response, mine in zip(responses, logs, strict=True)])

    def _one(self, response: NDArray[np.floating], logs: Array) -> Array:
        found, rows = np.full(len(logs), np.inf), np.arange(len(self._truth))
        each = [one(response[head.part]) for head, one in zip(self._heads, self._augmented, strict=True)]
        for c, scores in enumerate(zip(*each, strict=True)):
            if not np.isfinite(logs[c]):
                continue  # a class without data
            total = _sum(self._heads, scores, self._opinions)
            own = log_probabilities(total, self._temperature)[rows, self._truth]
            found[c] = (own > logs[c]).sum()
        return found
