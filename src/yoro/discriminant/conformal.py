"""How well a label fits a response, beside how well their own labels fit the responses that were fitted.

A fitted response is judged by the mixture without it. A new one is judged by these same mixtures, each of which lacks
one that was fitted, or (full conformal prediction) is fitted in under every label in turn, while every fitted one
is taken out. Shrinkages, weights and temperature stay as they were chosen.

`beaten` says of every class how many of the fitted have a label that fits better: the fewer, the better it fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.augmented import Augmented
from yoro.discriminant.calibration import log_probabilities
from yoro.discriminant.evidence import Choice, Evidence
from yoro.discriminant.leave_one_out import Refits
from yoro.discriminant.mixture import LeftOut, Mixture
from yoro.discriminant.selection import leave_one_out

Array = NDArray[np.float64]


@dataclass(frozen=True)
class _Head:
    """One discriminant of the sum."""

    part: slice  # of the response
    scale: float
    evidence: Evidence
    shrinkage: float
    alpha: float

    def opinion(self, responses: NDArray[np.floating]) -> Array:
        """What the zero-shot head adds for responses (n, width of the reading), where there is one."""
        head = self.evidence.head
        return np.zeros((len(responses), 1)) if head is None else self.alpha * head(responses)


def _heads(mixture: Mixture, choice: Choice) -> list[_Head]:
    parts, found = choice.parts or (choice,), []
    for evidence, part, where in zip(mixture.evidences, parts, mixture.layout.slices, strict=True):
        scale = part.weight / part.temperature if choice.parts else 1.0
        if scale > 0:
            found.append(_Head(where, scale, evidence, part.shrinkage, part.alpha))
    return found


class LeftOutRanks:
    """Ranks by the refits of exact leave-one-out; `found` are its scores of the choice."""

    def __init__(self, mixture: Mixture, choice: Choice, found: LeftOut) -> None:
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
        """How many fitted responses there are to rank among."""
        return len(self._own)

    def by_all(self, responses: NDArray[np.floating]) -> Array:
        """Beaten (n, classes) in jackknife+ (Barber et al. 2021): by every fitted one, in the mixture without it."""
        return np.stack([(logs < self._own[:, None]).sum(axis=0) for logs in self._answers(responses)]).astype(float)

    def by_class(self, responses: NDArray[np.floating], logs: Array) -> Array:
        """Beaten (n, classes), a class being judged by the mixtures that lack one of that class alone; their mean.

        So it is in the position of the fitted ones: each was judged while its own class had one less. A class of which
        none can be left out is judged by the answers of the whole mixture, `logs` (n, classes).
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
        """For each response log-probabilities (m, classes) by all mixtures that lack one."""
        refitted = [refits(responses[:, head.part]) for head, refits in zip(self._heads, self._refits, strict=True)]
        opinions = [head.opinion(responses[:, head.part]) for head in self._heads]
        for at, scores in enumerate(zip(*refitted, strict=True)):
            total = np.zeros_like(scores[0])
            for head, mine, opinion in zip(self._heads, scores, opinions, strict=True):
                total += head.scale * (mine + opinion[at])
            yield log_probabilities(total, self._temperature)


class FullRanks:
    """Ranks by refits with the new response among the fitted: as many leave-one-outs as there are classes."""

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
        """How many fitted responses there are to rank among."""
        return len(self._truth)

    def beaten(self, responses: NDArray[np.floating], logs: Array) -> Array:
        """How many of what was fitted with a response fit better (n, classes); `logs` (n, classes) are the answers."""
        return np.stack([self._one(response, mine) for response, mine in zip(responses, logs, strict=True)])

    def _one(self, response: NDArray[np.floating], logs: Array) -> Array:
        found, rows = np.full(len(logs), np.inf), np.arange(len(self._truth))
        each = [one(response[head.part]) for head, one in zip(self._heads, self._augmented, strict=True)]
        for c, scores in enumerate(zip(*each, strict=True)):
            if not np.isfinite(logs[c]):
                continue  # a class of which nothing is known
            total = np.zeros_like(scores[0])
            for head, mine, opinion in zip(self._heads, scores, self._opinions, strict=True):
                total += head.scale * (mine + opinion)
            own = log_probabilities(total, self._temperature)[rows, self._truth]
            found[c] = (own > logs[c]).sum()
        return found
