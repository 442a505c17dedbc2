"""Which shrinkage? The paper's validation rule, exact leave-one-out, folds, closed formulas, or a number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.calibration import fit_blend, fit_temperature, tolerant_loss
from yoro.discriminant.evidence import Choice, Evidence
from yoro.discriminant.leave_one_out import LeaveOneOut, Scored, sample_size
from yoro.discriminant.reservoir import Members
from yoro.discriminant.rules import MEMBERS, VALIDATION, check_rule, check_shrinkage, rule_unavailable, working_rules
from yoro.discriminant.shrinkage import ledoit_wolf, oas, rblw
from yoro.discriminant.simulated import simulated_members
from yoro.discriminant.solve import solve_path
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError, SelectionError
from yoro.mappings.batches import Array, class_codes, row_digests

PAPER_GRID = (0.01, 0.03, 0.1, 0.3, 0.5, 0.8)
# The paper's, and even steps of rho / (1 - rho) from 0.001 to the nearest class mean: where responses are wider than
# they are many, what matters happens between 0.8 and 1.
FINE_GRID = tuple(sorted({*PAPER_GRID, *(round(1 / (1 + 10 ** (-i / 4)), 5) for i in range(-12, 11)), 1.0}))
COARSE = 4  # every COARSE-th candidate is tried first, then the neighbours of the best
FOLDS = 5
ROUNDING = 1e-12  # losses closer than this, relatively, are equal
ROUGHLY = 1e-7  # rough losses closer than this, relatively, may be in another order; or than
DOUBT = 10.0  # times the largest error that was seen


def select_shrinkage(rule: str | float, evidence: Evidence, left_out: LeaveOneOut | None = None) -> Choice:
    """Choose a shrinkage by a rule's name, or take the number given; `left_out` is at hand where it was made before."""
    rule = check_rule(rule)
    if not isinstance(rule, str):
        return _at_shrinkage("fixed", rule, evidence, left_out)
    if evidence.spectrum.degenerate and (rule != "validation" or evidence.head is None):
        return _by_head(rule, evidence)  # no spread within classes: every shrinkage gives the same mapping
    if rule == "validation":
        return by_validation(evidence)
    if rule == "loo":
        return by_leave_one_out(evidence, left_out=left_out)
    if rule == "k-fold":
        return by_folds(evidence)
    return _at_shrinkage(rule, _closed_formula(rule, evidence), evidence, left_out)


def leave_one_out(evidence: Evidence, *, every: bool = False) -> LeaveOneOut | None:
    """Leave-one-out of the stored responses; None if there are none, or none can be left out.

    Of many responses and many classes a sample, unless `every` one is wanted.
    """
    if not evidence.members or evidence.spectrum.degenerate:
        return None
    most = None if every else sample_size(len(evidence.statistics.classes), kept=True)
    left_out = _left_out(evidence, evidence.members, most)
    return left_out if len(left_out) else None


def _left_out(evidence: Evidence, members: Members, most: int | None = None) -> LeaveOneOut:
    sums, spectrum = evidence.statistics, evidence.spectrum
    return LeaveOneOut(sums, spectrum, members, prior=evidence.prior, turned=evidence.turned, most=most)


def opinion_of(evidence: Evidence, left_out: LeaveOneOut) -> Array | None:
    """What the head says of the members left out; it has seen none of them, so nothing need be taken from it."""
    if evidence.head is None or evidence.members is None:
        return None
    return evidence.head(evidence.members.responses[left_out.rows])


def by_validation(evidence: Evidence, candidates: Sequence[float] = PAPER_GRID) -> Choice:
    """The paper's rule: most correct answers on validation responses, ties to the smaller shrinkage."""
    if evidence.validation is None:
        raise rule_unavailable("validation", *_have(evidence))
    responses, labels = evidence.validation
    truth = class_codes(labels.tolist(), evidence.statistics.classes)
    grid = sorted(candidates)
    mappings = solve_path(evidence.statistics, evidence.spectrum, grid, prior=evidence.prior)
    scored = (Scored(mapping(responses), truth, np.ones(len(truth))) for mapping in mappings)
    opinion = None if evidence.head is None else evidence.head(responses)
    return _best("validation", grid, scored, opinion)


def by_leave_one_out(
    evidence: Evidence, candidates: Sequence[float] = FINE_GRID, left_out: LeaveOneOut | None = None
) -> Choice:
    """Least exact leave-one-out negative log-likelihood at a fitted temperature, ties to the larger.

    Some candidates are tried first, and then those beside the best of them; many responses of many classes are
    represented by a sample.
    """
    if not evidence.members:
        raise rule_unavailable("loo", *_have(evidence))
    if left_out is None:
        left_out = _left_out(evidence, evidence.members)
    if evidence.head is not None and left_out.possible < len(evidence.statistics.classes):
        return _by_head("loo", evidence)
    if not len(left_out):
        raise SelectionError(
            "Leave-one-out is impossible: every kept response, or its group, is the only one of its class. "
            f"Rules that work here: {working_rules(*_have(evidence), besides='loo')}."
        )
    left_out = left_out.sampled(sample_size(len(evidence.statistics.classes)))
    grid = sorted((check_shrinkage(rho) for rho in candidates), reverse=True)  # so that a tie stays with the larger
    tried = _CandidateSearch("loo", opinion_of(evidence, left_out))
    rough = left_out.large and evidence.head is None
    for rho in sorted({*grid[::COARSE], *grid[-1:]}, reverse=True):
        tried.add(rho, left_out.scores(rho, rough=rough))
    near = tried.beside_best()
    for rho in (rho for rho in grid if near[0] < rho < near[1] and rho not in tried):
        tried.add(rho, left_out.scores(rho, rough=rough))
    if rough:
        exact: dict[float, float] = {}  # and by how much its rough cost was wrong
        while (one := tried.doubtful(exact)) is not None:
            exact[one] = tried.add(one, left_out.scores(one))
    return tried.choice()


def by_folds(evidence: Evidence, candidates: Sequence[float] = FINE_GRID, folds: int = FOLDS) -> Choice:
    """Least negative log-likelihood of folds under the statistics less the fold, ties to the larger.

    The members are dealt out whole groups at a time, in the order of their keys; a fold's
    statistics are subtracted from the full ones, so nothing is traversed again.
    """
    if not evidence.members:
        raise rule_unavailable("k-fold", *_have(evidence))
    members, classes = evidence.members, evidence.statistics.classes
    scored: dict[float, list[Scored]] = {check_shrinkage(rho): [] for rho in sorted(candidates, reverse=True)}
    order: list[NDArray[np.intp]] = []
    for rows in _deal(members, folds):
        fold = ResponseStatistics()
        fold.update(members.responses[rows], members.labels[rows], members.weights[rows])
        rest = evidence.statistics - fold
        rows = rows[np.isin(members.labels[rows], rest.classes)]
        if not len(rows):
            continue
        order.append(rows)
        rest = rest + ResponseStatistics(classes)
        truth = class_codes(members.labels[rows].tolist(), classes)
        mappings = solve_path(rest, evidence.decompose(rest), list(scored), prior=evidence.prior)
        for rho, mapping in zip(scored, mappings, strict=True):
            scored[rho].append(Scored(mapping(members.responses[rows]), truth, members.weights[rows]))
    if not scored or not next(iter(scored.values())):
        raise SelectionError(
            "No class has images in two folds. "
            f"Rules that work here: {working_rules(*_have(evidence), besides='k-fold')}."
        )
    opinion = None if evidence.head is None else evidence.head(members.responses[np.concatenate(order)])
    return _best("k-fold", list(scored), (_joined(parts) for parts in scored.values()), opinion)


@dataclass(frozen=True)
class _Candidate:
    """How one candidate fared: the smaller the cost, the better; `right` (n,) are its correct answers."""

    cost: float
    shrinkage: float
    temperature: float
    alpha: float
    right: NDArray[np.bool_]


class _CandidateSearch:
    """How candidates fared, alone and with the head's opinion (n, classes), if there is one."""

    def __init__(self, rule: str, opinion: Array | None) -> None:
        self._rule, self._opinion = rule, opinion
        self._plain: list[_Candidate] = []
        self._mixed: list[_Candidate] = []
        self._head: NDArray[np.bool_] | None = None  # the head's own correct answers
        self._weights = np.empty(0)

    def __contains__(self, rho: float) -> bool:
        return any(candidate.shrinkage == rho for candidate in self._plain)

    def add(self, rho: float, answers: Scored) -> float:
        """Try a candidate, anew if it was tried roughly; gives by how much its cost has changed then."""
        start = self._plain[-1].temperature if self._plain else 1.0
        temperature = fit_temperature(answers.scores, answers.truth, answers.weights, start=start)
        before = [candidate for candidate in self._plain if candidate.shrinkage == rho]
        self._plain = [candidate for candidate in self._plain if candidate.shrinkage != rho]
        self._plain.append(_candidate(self._rule, answers, rho, temperature, 0.0))
        if self._opinion is not None:
            opinion = self._opinion
            warmth, alpha = fit_blend(answers.scores, opinion, answers.truth, answers.weights, temperature)
            both = Scored(answers.scores + alpha * opinion, answers.truth, answers.weights)
            self._mixed.append(_candidate(self._rule, both, rho, warmth, alpha))
            self._head, self._weights = opinion.argmax(axis=1) == answers.truth, answers.weights
        return abs(before[0].cost - self._plain[-1].cost) if before else 0.0

    def doubtful(self, exact: Mapping[float, float]) -> float | None:
        """The best candidate of those that are not exact and may be the best of all; None if there are none.

        `exact` are the others, and by how much their rough costs were wrong.
        """
        best = min(candidate.cost for candidate in self._plain)
        margin = DOUBT * max(exact.values(), default=np.inf) + ROUGHLY * abs(best)
        may_be = [one for one in self._plain if one.shrinkage not in exact and one.cost <= best + margin]
        return min(may_be, key=lambda one: one.cost).shrinkage if may_be else None

    def beside_best(self) -> tuple[float, float]:
        """The candidates below and above the best so far."""
        rhos = sorted(candidate.shrinkage for candidate in self._plain)
        at = rhos.index(self._chosen()[1].shrinkage)
        return rhos[max(at - 1, 0)], rhos[min(at + 1, len(rhos) - 1)]

    def choice(self) -> Choice:
        """The candidate of least cost, with the head's opinion if it earns its place."""
        candidates, best = self._chosen()
        curve = sorted((candidate.shrinkage, candidate.cost) for candidate in candidates)
        sign = -1.0 if self._rule == "validation" else 1.0  # the cost there is minus the number of correct answers
        scores = tuple(sign * cost for _, cost in curve)
        return Choice(self._rule, best.shrinkage, best.temperature, tuple(rho for rho, _ in curve), scores, best.alpha)

    def _chosen(self) -> tuple[list[_Candidate], _Candidate]:
        if not self._plain:
            raise InputError("No candidate shrinkages were given.")
        best = _least(self._rule, self._plain)
        if self._head is not None:
            mixed = _least(self._rule, self._mixed)
            if _earns(mixed, best, self._head, self._weights):
                return self._mixed, mixed
        return self._plain, best


def _best(rule: str, grid: Sequence[float], scored: Iterable[Scored], opinion: Array | None) -> Choice:
    """The best of all candidates."""
    tried = _CandidateSearch(rule, opinion)
    for rho, answers in zip(grid, scored, strict=True):
        tried.add(rho, answers)
    return tried.choice()


def _candidate(rule: str, answers: Scored, rho: float, temperature: float, alpha: float) -> _Candidate:
    right = answers.scores.argmax(axis=1) == answers.truth
    if rule == "validation":
        cost = -float(right.sum())
    else:
        cost = tolerant_loss(answers.scores, answers.truth, answers.weights, temperature)
    return _Candidate(cost, rho, temperature, alpha, right)


def _least(rule: str, candidates: Sequence[_Candidate]) -> _Candidate:
    """The candidate of least cost; of equals that of the larger shrinkage, but under the paper's rule the smaller."""
    ordered = sorted(candidates, key=lambda candidate: candidate.shrinkage, reverse=rule != "validation")
    best = ordered[0]
    for candidate in ordered[1:]:
        if candidate.cost < best.cost - ROUNDING * abs(best.cost):
            best = candidate
    return best


def _earns(mixed: _Candidate, plain: _Candidate, head: NDArray[np.bool_], weights: Array) -> bool:
    """Whether the head corrects more answers than it breaks, by one standard error; or is the better of the two.

    Likelihood alone would also take a head that only makes sure answers less sure.
    """
    gained = float(weights @ (mixed.right & ~plain.right))
    lost = float(weights @ (plain.right & ~mixed.right))
    return gained - lost > (gained + lost) ** 0.5 or bool(weights @ head > weights @ plain.right)


def _by_head(rule: str, evidence: Evidence) -> Choice:
    """Nearest class means beside the head, where there are too few images to leave any out.

    The two are put on one scale, by the spread of what they say of wrong classes; then the means
    count the more the more often the head errs on the images.
    """
    if evidence.head is None or not evidence.members:
        return Choice(rule, 1.0)
    statistics, members = evidence.statistics, evidence.members
    truth = class_codes(members.labels.tolist(), statistics.classes)
    mapping = solve_path(statistics, evidence.spectrum, [1.0], prior=evidence.prior)[0]
    opinion = evidence.head(members.responses)
    errors = int((opinion.argmax(axis=1) != truth).sum())
    trust = 1.5 * (errors + 1) / (len(truth) + 2)  # by the rule of succession: three right answers prove little
    alpha = _spread(mapping(members.responses), truth) / (trust * _spread(opinion, truth) or 1.0)
    return Choice(rule, 1.0, alpha or 1.0, alpha=alpha)


def _spread(scores: Array, truth: NDArray[np.intp]) -> float:
    """Root mean square of the scores of wrong classes about their mean for each image."""
    wrong = scores.copy()
    wrong[np.arange(len(truth)), truth] = np.nan
    return float(np.sqrt(np.nanmean((wrong - np.nanmean(wrong, axis=1, keepdims=True)) ** 2)))


def _closed_formula(rule: str, evidence: Evidence) -> float:
    if rule == "oas":
        return oas(evidence.spectrum)
    if rule == "rblw":
        return rblw(evidence.spectrum)
    if not evidence.members:
        raise rule_unavailable("ledoit-wolf", *_have(evidence))
    statistics, members = evidence.statistics, evidence.members
    means = statistics.means[class_codes(members.labels.tolist(), statistics.classes)]
    residuals = (members.responses - means) @ evidence.spectrum.basis
    return ledoit_wolf(evidence.spectrum, residuals, members.weights, statistics.total)


def _at_shrinkage(rule: str, rho: float, evidence: Evidence, left_out: LeaveOneOut | None = None) -> Choice:
    """Temperature and head at a shrinkage that was not chosen by likelihood: from members, or as sums alone allow."""
    left_out = left_out or leave_one_out(evidence)
    if left_out is None:
        return Choice(rule, rho, _simulated_temperature(rho, evidence))
    left_out = left_out.sampled(sample_size(len(evidence.statistics.classes)))
    chosen = _best(rule, [rho], [left_out.scores(rho)], opinion_of(evidence, left_out))
    return replace(chosen, candidates=(), scores=())


def _simulated_temperature(rho: float, evidence: Evidence) -> float:
    """The temperature of members that are invented from the sums, where none are kept."""
    plain = evidence.head is None and evidence.spectrum.target == "identity"
    if evidence.members or not plain or evidence.spectrum.degenerate:
        return 1.0
    invented = simulated_members(evidence.statistics, evidence.spectrum)
    left_out = None if invented is None else leave_one_out(replace(evidence, members=invented))
    if left_out is None:
        return 1.0
    scored = left_out.sampled(sample_size(len(evidence.statistics.classes))).scores(rho)
    return fit_temperature(scored.scores, scored.truth, scored.weights)


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


def _have(evidence: Evidence) -> tuple[str, ...]:
    """What there is besides the statistics, as `rules` names it."""
    there = {MEMBERS: evidence.members, VALIDATION: evidence.validation}
    return tuple(what for what, found in there.items() if found is not None and len(found))
