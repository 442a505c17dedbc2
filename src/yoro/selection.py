"""Which shrinkage? The paper's validation rule, exact leave-one-out, folds, closed formulas, or a number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yoro.confidence import Prior, doubtful_loss, fit_temperature
from yoro.errors import InputError, SelectionError
from yoro.leave_one_out import LeaveOneOut, Scored
from yoro.mappings.discriminant import check_shrinkage, solve_path
from yoro.reservoir import Members, row_digests
from yoro.shrinkage import Spectrum, dense_spectrum, ledoit_wolf, oas, rblw
from yoro.statistics import ResponseStatistics

Array = NDArray[np.float64]
Validation = tuple[NDArray[np.floating], NDArray[np.str_]]  # responses and labels

PAPER_GRID = (0.01, 0.03, 0.1, 0.3, 0.5, 0.8)
FINE_GRID = tuple(sorted({*PAPER_GRID, *(round(10 ** (-i / 4), 5) for i in range(13))}))  # 0.001 to 1
RULES = ("loo", "validation", "k-fold", "oas", "rblw", "ledoit-wolf")
FOLDS = 5
ROUNDING = 1e-12  # losses closer than this, relatively, are equal


@dataclass(frozen=True)
class Choice:
    """A shrinkage, by which rule it was chosen, and how every candidate fared.

    `scores` are numbers of correct answers under `validation`, and mean negative log-likelihoods
    under `loo` and `k-fold`; closed formulas have no candidates.
    """

    rule: str
    shrinkage: float
    temperature: float = 1.0
    candidates: tuple[float, ...] = ()
    scores: tuple[float, ...] = ()


@dataclass(frozen=True)
class Evidence:
    """What a rule may use: statistics and spectrum always, members and validation data if there are any."""

    statistics: ResponseStatistics
    spectrum: Spectrum
    members: Members | None = None
    validation: Validation | None = None
    prior: Prior = "empirical"
    decompose: Callable[[ResponseStatistics], Spectrum] = dense_spectrum


def select_shrinkage(rule: str | float, evidence: Evidence) -> Choice:
    """Choose a shrinkage by a rule's name, or take the number given."""
    if not isinstance(rule, str):
        return Choice("fixed", check_shrinkage(rule), _temperature(rule, evidence))
    if rule not in RULES:
        raise InputError(f"{rule!r} is no shrinkage rule; expected one of {', '.join(RULES)}, or a number from 0 to 1.")
    if evidence.spectrum.degenerate:
        return Choice(rule, 1.0)  # no spread within classes: every shrinkage gives the same mapping
    if rule == "validation":
        return by_validation(evidence)
    if rule == "loo":
        return by_leave_one_out(evidence)
    if rule == "k-fold":
        return by_folds(evidence)
    rho = _closed_formula(rule, evidence)
    return Choice(rule, rho, _temperature(rho, evidence))


def by_validation(evidence: Evidence, candidates: Sequence[float] = PAPER_GRID) -> Choice:
    """The paper's rule: most correct answers on validation responses, ties to the smaller shrinkage."""
    if evidence.validation is None:
        raise _lacking("validation", "validation responses", evidence)
    responses, labels = evidence.validation
    truth = _codes(labels, evidence.statistics.classes)
    best: tuple[int, float, Array] | None = None
    correct = []
    grid = sorted(candidates)
    for rho, mapping in zip(
        grid, solve_path(evidence.statistics, evidence.spectrum, grid, prior=evidence.prior), strict=True
    ):
        scores = mapping(responses)
        correct.append(int((scores.argmax(axis=1) == truth).sum()))
        if best is None or correct[-1] > best[0]:
            best = correct[-1], rho, scores
    if best is None:
        raise InputError("No candidate shrinkages were given.")
    temperature = fit_temperature(best[2], truth, np.ones(len(truth)))
    return Choice("validation", best[1], temperature, tuple(grid), tuple(map(float, correct)))


def by_leave_one_out(evidence: Evidence, candidates: Sequence[float] = FINE_GRID) -> Choice:
    """Least exact leave-one-out negative log-likelihood at a fitted temperature, ties to the larger."""
    if not evidence.members:
        raise _lacking("loo", "individual responses", evidence)
    left_out = LeaveOneOut(evidence.statistics, evidence.spectrum, evidence.members, prior=evidence.prior)
    if not len(left_out):
        raise SelectionError(
            "No kept response can be left out: each is the last of its class, or its group is. "
            f"Rules that work here: {_working(evidence, besides='loo')}."
        )
    return _least_loss("loo", candidates, left_out.scores)


def by_folds(evidence: Evidence, candidates: Sequence[float] = FINE_GRID, folds: int = FOLDS) -> Choice:
    """Least negative log-likelihood of folds under the statistics less the fold, ties to the larger.

    The members are dealt out whole groups at a time, in the order of their keys; a fold's
    statistics are subtracted from the full ones, so nothing is traversed again.
    """
    if not evidence.members:
        raise _lacking("k-fold", "individual responses", evidence)
    members, classes = evidence.members, evidence.statistics.classes
    scored: dict[float, list[Scored]] = {rho: [] for rho in sorted(candidates)}
    for rows in _deal(members, folds):
        fold = ResponseStatistics()
        fold.update(members.responses[rows], members.labels[rows], members.weights[rows])
        rest = evidence.statistics - fold
        rows = rows[np.isin(members.labels[rows], rest.classes)]
        if not len(rows):
            continue
        rest = rest + ResponseStatistics(classes)
        truth = _codes(members.labels[rows], classes)
        mappings = solve_path(rest, evidence.decompose(rest), list(scored), prior=evidence.prior)
        for rho, mapping in zip(scored, mappings, strict=True):
            scored[rho].append(Scored(mapping(members.responses[rows]), truth, members.weights[rows]))
    if not scored or not next(iter(scored.values())):
        raise SelectionError(
            f"No class has images in two folds. Rules that work here: {_working(evidence, besides='k-fold')}."
        )
    return _least_loss("k-fold", candidates, lambda rho: _joined(scored[rho]))


def _least_loss(rule: str, candidates: Sequence[float], scores_at: Callable[[float], Scored]) -> Choice:
    best: tuple[float, float, float] | None = None
    losses, grid = [], sorted(candidates, reverse=True)
    temperature = 1.0
    for rho in grid:  # from the largest down, so that a tie stays with the larger
        scored = scores_at(check_shrinkage(rho))
        temperature = fit_temperature(scored.scores, scored.truth, scored.weights, start=temperature)
        losses.append(doubtful_loss(scored.scores, scored.truth, scored.weights, temperature))
        if best is None or losses[-1] < best[0] * (1 - ROUNDING):
            best = losses[-1], rho, temperature
    if best is None:
        raise InputError("No candidate shrinkages were given.")
    return Choice(rule, best[1], best[2], tuple(reversed(grid)), tuple(reversed(losses)))


def _closed_formula(rule: str, evidence: Evidence) -> float:
    if rule == "oas":
        return oas(evidence.spectrum)
    if rule == "rblw":
        return rblw(evidence.spectrum)
    if not evidence.members:
        raise _lacking("ledoit-wolf", "individual responses", evidence)
    statistics, members = evidence.statistics, evidence.members
    means = statistics.means[_codes(members.labels, statistics.classes)]
    residuals = (members.responses - means) @ evidence.spectrum.basis
    return ledoit_wolf(evidence.spectrum, residuals, members.weights, statistics.total)


def _temperature(rho: float, evidence: Evidence) -> float:
    """Temperature at a shrinkage that was not chosen by likelihood: from members if kept, else 1."""
    if not evidence.members or evidence.spectrum.degenerate:
        return 1.0
    left_out = LeaveOneOut(evidence.statistics, evidence.spectrum, evidence.members, prior=evidence.prior)
    if not len(left_out):
        return 1.0
    scored = left_out.scores(rho)
    return fit_temperature(scored.scores, scored.truth, scored.weights)


def _codes(labels: NDArray[np.str_], classes: tuple[str, ...]) -> NDArray[np.intp]:
    index = {name: i for i, name in enumerate(classes)}
    try:
        return np.array([index[name] for name in labels.tolist()], dtype=np.intp)
    except KeyError as error:
        raise InputError(
            f"The validation data hold class {error.args[0]!r}, of which the training data have no example. "
            "Add examples of it, or leave it out of the validation data."
        ) from None


def _deal(members: Members, folds: int) -> list[NDArray[np.intp]]:
    """Rows of each fold; a group is one unit, as are equal responses."""
    contents = row_digests(members.responses)
    units = [name or content for name, content in zip(members.groups.tolist(), contents, strict=True)]
    seen: dict[str | bytes, int] = {}
    turn = np.array([seen.setdefault(unit, len(seen)) % folds for unit in units])
    return [np.flatnonzero(turn == fold) for fold in range(min(folds, len(seen)))]


def _joined(parts: list[Scored]) -> Scored:
    return Scored(
        np.concatenate([part.scores for part in parts]),
        np.concatenate([part.truth for part in parts]),
        np.concatenate([part.weights for part in parts]),
    )


def _working(evidence: Evidence, besides: str) -> str:
    able = ["loo", "k-fold", "ledoit-wolf"] if evidence.members else []
    able += ["validation"] if evidence.validation is not None else []
    able += ["oas", "rblw", "a number from 0 to 1"]
    return ", ".join(rule for rule in able if rule != besides)


def _lacking(rule: str, what: str, evidence: Evidence) -> SelectionError:
    return SelectionError(
        f"The rule {rule!r} needs {what}, and there are none. Rules that work here: {_working(evidence, besides=rule)}."
    )
