"""From what was gathered to a whole model: choose the shrinkage, and solve."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from yoro import limits
from yoro.discriminant.evidence import Choice, Validation
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.mixture import Mixture
from yoro.discriminant.readings import Layout
from yoro.discriminant.rules import MEMBERS, RULES
from yoro.discriminant.shrinkage import Spectrum
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError
from yoro.mappings.affine import AffineMapping
from yoro.model.gathered import Gathered
from yoro.model.model import LEFT_OUT, Model, Origin, Verb, held_out, kept_members, known, with_pile
from yoro.model.settings import SolveSettings
from yoro.text.encoded_bank import EncodedBank


def solve(
    gathered: Gathered,
    settings: SolveSettings,
    origin: Origin,
    *,
    words: EncodedBank | None = None,
    evidence: Mixture | Validation | None = None,
    keep: Choice | None = None,
    verb: Verb | None = None,
) -> Model:
    """The model of what was gathered: its shrinkage chosen by the rule, or `keep`, a choice made before.

    `evidence` is what is known of it, where that is at hand, or only the images to choose by.
    With sentences and no image at all, the model is the zero-shot head of the sentences. `verb` goes into the
    model's history, and says whether labels are whole numbers.
    """
    statistics, left_out = gathered.statistics, None
    spectra: list[Spectrum] = []
    if words is not None:
        statistics = statistics + _nothing_yet(words, statistics)
    _check_classes(statistics, words)
    if words is not None and statistics.total == 0:
        mapping, choice, delta = *_zero_shot(statistics, words, settings.shrinkage), 0.0
    else:
        with threads_for(statistics):
            if not isinstance(evidence, Mixture):
                evidence = known(statistics, kept_members(gathered.reservoir), settings.prior, words, evidence)
            choice, left_out = (keep, None) if keep is not None else evidence.judge(settings.shrinkage)
            if settings.paper:
                choice = replace(choice, temperature=1.0)
            mapping, delta = evidence.mapping(choice), evidence.delta(choice)
            spectra = [one.spectrum for one in evidence.evidences]
    if gathered.pile is not None and (gathered.whole or statistics.total == 0) and not settings.paper:
        with threadpool_limits(1, user_api="blas"):
            learned = with_pile(replace(gathered, statistics=statistics), choice.asked, settings.prior, words, mapping)
        choice = replace(choice, pile=learned.choice)
        if learned.choice.weight:
            mapping, choice = learned.mapping, replace(choice, temperature=learned.temperature)
            left_out = held_out(learned)
    if verb is not None and left_out is not None and len(left_out.rows):
        right = left_out.scored.scores.argmax(axis=1) == left_out.scored.truth
        verb = replace(verb, more={**verb.more, LEFT_OUT: {"accuracy": float(right.mean()), "n": len(right)}})
    model = Model(
        replace(gathered, statistics=statistics, skipped=[]), mapping, choice, settings.prior, settings.protocol,
        delta, origin, verb.history() if verb is not None else [], words, verb is not None and verb.integers,
    )  # fmt: skip
    model.found_left_out = left_out
    if len(spectra) > 1 and spectra[model.main_reading].change is None:
        # A single reading may be so wide that its spectrum is not worth the memory.
        model.found_spectrum = spectra[model.main_reading]
    return model


def settings_of(model: Model, gathered: Gathered) -> tuple[SolveSettings, Choice | None]:
    """The settings a model was solved with; and its choice of shrinkage, where that cannot be made again."""
    rule, kept = model.choice.asked, gathered.reservoir
    lacks = isinstance(rule, str) and RULES[rule] == MEMBERS and kept is None
    capacity, seed = (0, 0) if kept is None else (kept.capacity, kept.seed)
    held = model.choice if rule == "validation" or lacks else None
    return SolveSettings(rule, model.prior, model.protocol, capacity, seed), held


def threads_for(statistics: JointStatistics) -> AbstractContextManager[object]:
    """One BLAS thread where readings are solved side by side: more would only wait for each other, busily."""
    import scipy.linalg  # noqa: F401  # has a BLAS of its own, which obeys only once it is loaded

    return threadpool_limits(1, user_api="blas") if len(statistics.parts) > 1 else nullcontext()


def _zero_shot(statistics: JointStatistics, words: EncodedBank, rule: str | float) -> tuple[AffineMapping, Choice]:
    """The head of the sentences alone, which reads the image vectors and nothing else."""
    head, layout = words.descriptions.head(statistics.classes), statistics.layout
    choice = Choice(rule, 1.0, alpha=1.0) if isinstance(rule, str) else Choice("fixed", rule, alpha=1.0)
    if len(layout.readings) == 1:
        return head, choice
    others = np.zeros((layout.width - layout.widths[0], len(head.classes)))
    parts = [
        replace(choice, name=name, weight=float(i == 0), alpha=float(i == 0)) for i, name in enumerate(layout.names)
    ]
    whole = AffineMapping(np.concatenate([head.weights, others]), head.bias, head.classes)
    return whole, replace(choice, parts=tuple(parts))


def _nothing_yet(words: EncodedBank, known: JointStatistics) -> JointStatistics:
    """Statistics that know the classes of the sentences and the readings, and no image."""
    classes, layout = words.bank.classes, known.layout if known.width else Layout.of(words.vectors.shape[1])

    def nothing(d: int) -> ResponseStatistics:
        empty = {"counts": np.zeros(len(classes)), "means": np.zeros((len(classes), d)), "scatter": np.zeros((d, d))}
        return ResponseStatistics.from_arrays(dict(empty), classes)

    return JointStatistics(layout, [nothing(width) for width in layout.widths])


def _check_classes(statistics: JointStatistics, words: EncodedBank | None) -> None:
    if len(statistics.classes) > limits.MODEL_CLASSES:
        raise InputError(
            f"There are {len(statistics.classes):,} classes; at most {limits.MODEL_CLASSES:,} can be fitted. "
            "Are the labels names of images instead of classes?"
        )
    votes = words is not None and words.votes
    present = len(statistics.classes) if votes else int((statistics.counts > 0).sum())
    if present < 2:
        raise InputError(
            f"There is data for {present} class{'es' if present == 0 else ''}; a classifier needs at least 2."
        )
