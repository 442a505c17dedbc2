"""What a rule may look at to choose a shrinkage, and the mapping of a choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.calibration import Prior
from yoro.discriminant.descriptions import Descriptions, blend
from yoro.discriminant.reservoir import Members
from yoro.discriminant.shrinkage import Spectrum, dense_spectrum
from yoro.discriminant.solve import solve_once, solve_path
from yoro.discriminant.statistics import ResponseStatistics
from yoro.mappings.affine import AffineMapping

Validation = tuple[NDArray[np.floating], NDArray[np.str_]]  # responses and labels
Decompose = Callable[[ResponseStatistics], Spectrum]


@dataclass(frozen=True)
class Choice:
    """A shrinkage, by which rule it was chosen, and how every candidate fared.

    `scores` are numbers of correct answers under `validation`, and mean negative log-likelihoods
    under `loo` and `k-fold`; closed formulas have no candidates. `alpha` is the weight of the
    zero-shot head beside the mapping.

    Of several readings each has a part: a choice of its own, with its name and its share of the answer.
    """

    rule: str
    shrinkage: float
    temperature: float = 1.0
    candidates: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()
    alpha: float = 0.0
    name: str = ""  # of the reading, where this is a part
    weight: float = 1.0  # of the part in the sum of all
    right: float | None = None  # the share of leave-one-out answers that the part alone has right
    parts: tuple[Choice, ...] = ()

    @property
    def asked(self) -> str | float:
        """What was asked for: the rule, or the shrinkage itself."""
        return self.shrinkage if self.rule == "fixed" else self.rule


@dataclass(frozen=True)
class Evidence:
    """What a rule may use: statistics and spectrum always, members and validation data if there are any.

    `head` is a mapping whose opinion is added to that of BDM, if that helps.
    """

    statistics: ResponseStatistics
    spectrum: Spectrum
    members: Members | None = None
    validation: Validation | None = None
    prior: Prior = "empirical"
    decompose: Decompose = dense_spectrum
    head: AffineMapping | None = None

    def validated_on(self, validation: Validation | None) -> Evidence:
        """The same with validation data."""
        return replace(self, validation=validation)

    def mapping(self, choice: Choice) -> AffineMapping:
        """The mapping at the shrinkage chosen, with the head beside it where there is one."""
        mapping = solve_path(self.statistics, self.spectrum, [choice.shrinkage], prior=self.prior)[0]
        return mapping if self.head is None else blend(mapping, self.head, choice.alpha)


def make_evidence(
    statistics: ResponseStatistics,
    members: Members | None,
    prior: Prior = "empirical",
    words: Descriptions | None = None,
    *,
    votes: bool = True,
    decompose: Decompose | None = None,
) -> Evidence:
    """What is known: with the anchors and the head of sentences, if there are any and they vote.

    `decompose` is another spectrum than the default for this kind of response.
    """
    head = None
    if words is not None and votes:
        head, statistics = words.head(statistics.classes), words.anchored(statistics)
    decompose = decompose or (dense_spectrum if words is None else words.spectrum)
    return Evidence(statistics, decompose(statistics), members, prior=prior, decompose=decompose, head=head)


def mapping_at(
    statistics: ResponseStatistics, choice: Choice, prior: Prior, words: Descriptions | None, *, votes: bool = True
) -> AffineMapping:
    """The mapping of a choice made before, from other statistics."""
    if words is None:
        return solve_once(statistics, choice.shrinkage, prior=prior)
    return make_evidence(statistics, None, prior, words, votes=votes).mapping(choice)
