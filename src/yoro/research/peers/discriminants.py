"""BDM and the paper's ablations of it, behind the contract of the peers.

Where there are texts the responses are `scale T v`, as in the paper, and everything is solved over
the image vectors v with the target `(T'T)^-1`; `bdm-features` takes I in feature space instead.
`bdm` is the default of this package, so there it has the zero-shot head of the texts beside it, if
that earns its place. The ablations are of the mapping itself, without the head: next to `bdm-images`.
Validation data serve the rules that need them and are not fitted, also where they are held out of
the training data: that is the paper's protocol. (`yoro fit` fits validation data that are given,
unless the rule needs them.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.evidence import Validation, make_evidence
from yoro.discriminant.reservoir import Members
from yoro.discriminant.selection import select_shrinkage
from yoro.discriminant.shrinkage import Spectrum, make_spectrum
from yoro.discriminant.solve import solve_empirical
from yoro.discriminant.statistics import ResponseStatistics
from yoro.mappings.affine import AffineMapping
from yoro.mappings.cooccurrence import CoOccurrence, bayesian_mapping, frequency_mapping, plus_table, random_mapping
from yoro.option import check_choice
from yoro.research.peers.coordinate_selection import ADAPTIVE, CONDITIONAL, select_retention, solve_retained
from yoro.research.peers.method import FitTask, LinearScores, Method, Scorer, gathered


def fit(task: FitTask, rule: str = "loo", target: str | None = None, votes: bool = False) -> Scorer:
    """BDM with the shrinkage by a rule of `select_shrinkage`, towards a target of `make_spectrum`.

    Where the texts vote, their zero-shot head takes part as it does in `yoro.model.solve`.
    """
    trial = task.validated() if rule == "validation" else task
    groups = np.array(trial.groups or [""] * len(trial.truth), dtype=np.str_)
    members = Members(trial.responses, trial.labels, groups, np.ones(len(trial.truth)))
    words = None if task.texts is None else task.texts.described(task.classes)
    known = make_evidence(
        gathered(trial), members, words=words, votes=votes,
        decompose=lambda statistics: spectrum_of(task, statistics, target),
    )  # fmt: skip
    if rule == "validation":
        known = replace(known, validation=_named(trial))
    return known.mapping(select_shrinkage(rule, known))


def fit_spoken(task: FitTask, target: str | None = None) -> Scorer:
    """BDM where there are texts, but without their zero-shot head."""
    task.needed_texts()
    return fit(task, target=target)


def fit_zero_shot(task: FitTask) -> Scorer:
    """The head alone: what `yoro fit --shots 0` answers. No image is read; on unit vectors MPE is the same."""
    head = task.needed_texts().described(task.classes).head(task.classes)
    return LinearScores(head.weights, head.bias, normalise=True)


def fit_empirical(task: FitTask) -> Scorer:
    """No shrinkage at all."""
    statistics = gathered(task)
    return solve_empirical(statistics, spectrum_of(task, statistics))


@dataclass(frozen=True)
class RetainedScores:
    """The scores of a mapping over some coordinates, with the share of them that was kept."""

    mapping: AffineMapping
    share: float
    shrinkage: float

    def __call__(self, responses: NDArray[np.float64]) -> NDArray[np.float64]:
        return self.mapping(responses)


@dataclass(frozen=True)
class RetentionSettings:
    """Whether coordinates are ordered for each shrinkage that is tried, or once for all."""

    order: str = "each"

    def __post_init__(self) -> None:
        check_choice("order", self.order, ("each", "once"))


EACH_TIME = RetentionSettings()


def fit_retained(
    task: FitTask, settings: RetentionSettings = EACH_TIME, *, shares: tuple[float, ...]
) -> RetainedScores:
    """Selected coordinates (see `coordinate_selection`); share and shrinkage by validation."""
    trial = task.validated()
    statistics = gathered(trial)
    texts = None if task.texts is None else task.texts.flat
    chosen = select_retention(statistics, _named(trial), shares, texts=texts, once=settings.order == "once")
    width = task.responses.shape[1] if texts is None else len(texts)
    mapping = solve_retained(statistics, chosen.columns, chosen.shrinkage, texts)
    return RetainedScores(mapping, len(chosen.columns) / width, chosen.shrinkage)


def spectrum_of(task: FitTask, statistics: ResponseStatistics, target: str | None = None) -> Spectrum:
    """The spectrum with a target by name; without, the paper's for this kind of response."""
    if task.texts is None:
        return make_spectrum(statistics, target or "identity")
    return make_spectrum(statistics, target or "texts", task.texts.flat, task.texts.scale)


def in_responses(task: FitTask) -> FitTask:
    """The task over explicit responses: `scale T v` where there are texts."""
    if task.texts is None:
        return task
    lift = task.texts.scale * task.texts.flat.T
    seen = task.validation and (task.validation[0] @ lift, task.validation[1])
    return replace(task, responses=task.responses @ lift, validation=seen, texts=None)


def _named(task: FitTask) -> Validation:
    _, responses, truth = task.trial()
    return responses, np.asarray(task.classes, dtype=np.str_)[truth]


FEATURES = partial(fit_spoken, target="identity")
BDM = (
    Method("bdm", partial(fit, votes=True), ("stored data",), about="the paper's discriminant, on one layer"),
    Method("bdm-images", fit_spoken, ("texts", "stored data"), about="the same without the zero-shot head"),
    Method("zero-shot", fit_zero_shot, ("texts",), 0, about="the zero-shot head of the texts alone"),
    Method("bdm-validation", partial(fit, rule="validation"), ("validation",), about="the paper's rule"),
    Method("bdm-oas", partial(fit, rule="oas"), about="oracle approximating shrinkage"),
    Method("bdm-rblw", partial(fit, rule="rblw"), about="Rao-Blackwellised Ledoit-Wolf"),
    Method("bdm-ledoit-wolf", partial(fit, rule="ledoit-wolf"), ("stored data",), about="Ledoit and Wolf's shrinkage"),
    Method("bdm-empirical", fit_empirical, about="no shrinkage: pseudo-inverse"),
    Method("bdm-diagonal", partial(fit, target="diagonal"), ("stored data",), about="target: the diagonal"),
    Method("bdm-features", FEATURES, ("features", "texts", "stored data"), about="target: I in feature space"),
    *(
        Method(name, partial(fit_retained, shares=shares), ("validation",), about=about, settings=RetentionSettings)
        for name, shares, about in (
            ("bdm-conditional", CONDITIONAL, "95 % of coordinates"),
            ("bdm-adaptive", ADAPTIVE, "a chosen share of them"),
        )
    ),
)


def fit_random(task: FitTask) -> Scorer:
    """RLM: sources drawn by lot."""
    width = task.responses.shape[1] if task.texts is None else len(task.texts.flat)
    return _folded(random_mapping(width, task.classes, task.generator(4)), task)


def fit_table(
    task: FitTask, table: Callable[[tuple[str, ...]], CoOccurrence], solve: Callable[[CoOccurrence], AffineMapping]
) -> Scorer:
    """A mapping of the table of which source classes answer to which target classes."""
    counted = table(task.classes)
    counted.update(in_responses(task).responses, task.labels)
    return _folded(solve(counted), task)


def _folded(mapping: AffineMapping, task: FitTask) -> Scorer:
    """A mapping over responses as it is, or over responses `scale T v` as one over v."""
    if task.texts is None:
        return mapping
    return LinearScores(task.texts.scale * task.texts.flat.T @ mapping.weights, mapping.bias)


LABEL_MAPPINGS = (
    Method("rlm", fit_random, passes=0, about="random label mapping"),
    Method("flm", partial(fit_table, table=CoOccurrence, solve=frequency_mapping), about="frequency label mapping"),
    Method("blm", partial(fit_table, table=CoOccurrence, solve=bayesian_mapping), about="Bayesian label mapping"),
    Method("blm+", partial(fit_table, table=plus_table, solve=bayesian_mapping), about="BLM over probabilities"),
)
