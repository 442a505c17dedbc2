"""From what was gathered to a model: choose the shrinkage, and solve."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from yoro.discriminant.calibration import Prior
from yoro.discriminant.descriptions import Descriptions, blend
from yoro.discriminant.reservoir import Members, Reservoir
from yoro.discriminant.selection import Choice, Evidence, Validation, select_shrinkage
from yoro.discriminant.shrinkage import Spectrum, dense_spectrum
from yoro.discriminant.solve import solve_once, solve_path
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError
from yoro.mappings.affine import AffineMapping
from yoro.model.one_pass import Gathered
from yoro.model.store import Model
from yoro.text.encoded_bank import Wording


def solve(
    gathered: Gathered,
    rule: str | float,
    prior: Prior,
    protocol: str,
    *,
    validation: Validation | None = None,
    keep: Choice | None = None,
    wording: Wording | None = None,
) -> Model:
    """From what was gathered to a model: choose the shrinkage (or keep a choice made before) and solve.

    With sentences and no image at all, the model is the zero-shot head of the sentences.
    """
    statistics = gathered.statistics
    if wording is not None:
        statistics = statistics + _nothing_yet(wording)
    _check_classes(statistics, wording)
    if wording is not None and statistics.total == 0:
        mapping, delta = wording.descriptions.head(statistics.classes), 0.0
        choice = Choice(rule, 1.0, alpha=1.0) if isinstance(rule, str) else Choice("fixed", rule, alpha=1.0)
    else:
        known = evidence(statistics, gathered.reservoir, prior, wording)
        choice = keep or select_shrinkage(rule, replace(known, validation=validation))
        if protocol == "paper":
            choice = replace(choice, temperature=1.0)
        mapping = chosen_mapping(known, choice)
        delta = known.spectrum.regularised(choice.shrinkage)[1]
    return Model(
        statistics, mapping, choice, gathered.ledger, gathered.reservoir, prior, protocol, delta, wording=wording
    )


def mapping_at(statistics: ResponseStatistics, choice: Choice, prior: Prior, wording: Wording | None) -> AffineMapping:
    """The mapping of a choice made before, from other statistics."""
    if wording is None:
        return solve_once(statistics, choice.shrinkage, prior=prior)
    return chosen_mapping(evidence(statistics, None, prior, wording), choice)


def evidence(
    statistics: ResponseStatistics, reservoir: Reservoir | None, prior: Prior, wording: Wording | None
) -> Evidence:
    """What is known, as the rules and leave-one-out take it: with anchors and head, if sentences vote."""
    members = reservoir.members() if reservoir is not None and len(reservoir) else None
    if wording is None:
        return make_evidence(statistics, members, prior)
    return make_evidence(statistics, members, prior, wording.descriptions, votes=wording.votes)


def make_evidence(
    statistics: ResponseStatistics,
    members: Members | None,
    prior: Prior = "empirical",
    words: Descriptions | None = None,
    *,
    votes: bool = True,
    decompose: Callable[[ResponseStatistics], Spectrum] | None = None,
) -> Evidence:
    """The same from its parts; `decompose` is another spectrum than the default for this kind of response."""
    head = None
    if words is not None and votes:
        head, statistics = words.head(statistics.classes), words.anchored(statistics)
    decompose = decompose or (dense_spectrum if words is None else words.spectrum)
    return Evidence(statistics, decompose(statistics), members, prior=prior, decompose=decompose, head=head)


def chosen_mapping(known: Evidence, choice: Choice) -> AffineMapping:
    """The mapping at the shrinkage chosen, with the head beside it where there is one."""
    mapping = solve_path(known.statistics, known.spectrum, [choice.shrinkage], prior=known.prior)[0]
    return mapping if known.head is None else blend(mapping, known.head, choice.alpha)


def _nothing_yet(wording: Wording) -> ResponseStatistics:
    """Statistics that know the classes and the dimension, and no image."""
    classes, d = wording.bank.classes, wording.vectors.shape[1]
    empty = {"counts": np.zeros(len(classes)), "means": np.zeros((len(classes), d)), "scatter": np.zeros((d, d))}
    return ResponseStatistics.from_arrays(dict(empty), classes)


def _check_classes(statistics: ResponseStatistics, wording: Wording | None) -> None:
    votes = wording is not None and wording.votes
    present = len(statistics.classes) if votes else int((statistics.counts > 0).sum())
    if present < 2:
        raise InputError(
            f"There is data for {present} class{'es' if present == 0 else ''}; a classifier needs at least 2."
        )
