"""The inputs of shrinkage selection, and the mapping of a choice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.calibration import Prior
from yoro.discriminant.descriptions import Descriptions, blend
from yoro.discriminant.leave_one_out import Turned, turn
from yoro.discriminant.reservoir import Members
from yoro.discriminant.shrinkage import Spectrum, dense_spectrum
from yoro.discriminant.solve import solve_once, solve_path
from yoro.discriminant.statistics import ResponseStatistics
from yoro.mappings.affine import AffineMapping

if TYPE_CHECKING:
    from yoro.discriminant.semi_supervised import PileChoice

Validation = tuple[NDArray[np.floating], NDArray[np.str_]]  # responses and labels
Decompose = Callable[[ResponseStatistics], Spectrum]


@dataclass(frozen=True)
class Choice:
    """A shrinkage, the rule that chose it, and the score of every candidate.

    `scores` are numbers of correct answers under `validation`, and mean negative log-likelihoods
    under `loo` and `k-fold`; closed formulas have no candidates. `alpha` is the weight of the
    zero-shot head beside the mapping.

    With several readings each has a part: a choice of its own, with its name and its ensemble weight.
    """

    rule: str
    shrinkage: float
    temperature: float = 1.0
    candidates: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()
    alpha: float = 0.0
    name: str = ""  # of the reading, where this is a part
    weight: float = 1.0  # of the part in the sum of all
    right: float | None = None  # leave-one-out accuracy of the part alone
    parts: tuple[Choice, ...] = ()
    pile: PileChoice | None = None  # how unlabelled responses are used, where there are any

    @property
    def asked(self) -> str | float:
        """The rule that was requested, or the shrinkage itself."""
        return self.shrinkage if self.rule == "fixed" else self.rule


@dataclass(frozen=True)
class Evidence:
    """What a selection rule may use; members and validation data only if there are any.

    `head` is a zero-shot mapping that is blended with BDM if that helps.
    """

    statistics: ResponseStatistics
    spectrum: Spectrum
    members: Members | None = None
    validation: Validation | None = None
    prior: Prior = "empirical"
    decompose: Decompose = dense_spectrum
    head: AffineMapping | None = None
    turned: Turned | None = None  # the members in the basis of the spectrum, where they are at hand

    def with_turned(self) -> Evidence:
        """The same with the members in the basis of the spectrum."""
        if not self.members or not self.statistics.total:
            return self
        return replace(self, turned=turn(self.spectrum, self.statistics.centre, self.members.responses))

    def mapping(self, choice: Choice) -> AffineMapping:
        """The mapping at the chosen shrinkage, blended with the head if there is one."""
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
    spectrum: Spectrum | None = None,
) -> Evidence:
    """Evidence from statistics and members, with the anchors and the zero-shot head of sentences if they vote.

    `decompose` replaces the default spectrum of this kind of response; `spectrum` reuses one that was computed before.
    """
    head = None
    if words is not None and votes:
        head, statistics = words.head(statistics.classes), words.anchored(statistics)
    decompose = decompose or (dense_spectrum if words is None else words.spectrum)
    spectrum = spectrum or decompose(statistics)
    return Evidence(statistics, spectrum, members, prior=prior, decompose=decompose, head=head)


def mapping_at(
    statistics: ResponseStatistics, choice: Choice, prior: Prior, words: Descriptions | None, *, votes: bool = True
) -> AffineMapping:
    """The mapping of an earlier choice from new statistics."""
    if words is None:
        return solve_once(statistics, choice.shrinkage, prior=prior)
    return make_evidence(statistics, None, prior, words, votes=votes).mapping(choice)
