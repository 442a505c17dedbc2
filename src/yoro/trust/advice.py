"""What a fit of these data is worth, what more images would buy, and which: all from the responses of one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from yoro.data.responses import ResponseBatch
from yoro.discriminant.calibration import log_probabilities
from yoro.discriminant.reservoir import Members
from yoro.errors import InputError
from yoro.mappings.batches import class_codes
from yoro.model.gathered import Gathered
from yoro.model.model import Model
from yoro.model.settings import SolveSettings
from yoro.model.solve import solve
from yoro.trust.learning_curve import Judged, Share, forecast, measured

DRAWS = 6  # of each size
MOST_IMAGES = 1_500  # in a draw: larger ones cost seconds each, and leave-one-out tells of the end of the curve
FEWEST = 4  # images of the median class: with fewer there is no curve


@dataclass(frozen=True)
class Point:
    """Accuracy with so many images a class, with a 90 % interval."""

    images: float
    accuracy: float
    low: float
    high: float


@dataclass(frozen=True)
class Need:
    """A class that is answered badly: its images, the share of them answered rightly, and what it is taken for."""

    name: str
    images: int
    recall: float
    probability: float  # of the right class, on average
    mistaken_for: str | None


@dataclass(frozen=True)
class Alone:
    """A reading by itself: the share of right leave-one-out answers, and its part in the answer of all."""

    name: str
    accuracy: float
    weight: float


@dataclass(frozen=True)
class Advice:
    """All figures are by exact leave-one-out, or of refits on some of the images tested on the others."""

    images: int
    classes: int
    each: float  # images of the median class
    now: Point  # the leave-one-out answers
    curve: tuple[Point, ...]  # refits on fewer
    forecast: tuple[Point, ...]  # to expect on new images: as it is, with twice, and with four times as many
    needs: tuple[Need, ...]  # the neediest class first
    readings: tuple[Alone, ...] = ()  # the best first
    seconds: float = 0.0  # that the pass took
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, object]:
        """The same as plain values."""
        plain = {**vars(self), "now": vars(self.now)}
        for key in ("curve", "forecast", "needs", "readings"):
            plain[key] = [vars(item) for item in getattr(self, key)]
        return plain


def advise(model: Model) -> Advice:
    """Advice from a model and the responses that it keeps; nothing is read again."""
    found = model.left_out()
    if found is None or model.reservoir is None:
        raise InputError(
            "No fitted example can be left out, so there is nothing to advise by: fit at least two images a class, "
            "and keep responses (no --no-reservoir)."
        )
    logs = log_probabilities(found.scored.scores, model.choice.temperature)
    judged, members = Judged.of(logs, found.scored.truth), model.reservoir.members()
    counts = model.statistics.counts[model.statistics.counts > 0]
    each, notes = float(np.median(counts)), list[str]()
    curve = list(_curve(model, members, each))
    if not curve:
        notes.append(f"With {each:g} images in the median class there is no learning curve; {FEWEST} are needed.")
    event = next((entry for entry in reversed(model.history) if entry.get("verb") == "fit"), {})
    return Advice(
        int(model.statistics.total), len(counts), each, _point(each, measured(judged.accuracy, len(judged))),
        tuple(curve),
        tuple(_point(n, share) for n, share in forecast(each, judged, len(counts))),
        tuple(_needs(model, logs, found.scored.truth)), tuple(_readings(model)),
        float(str(event.get("seconds", 0.0))), tuple(notes),
    )  # fmt: skip


def refit(model: Model, members: Members, rows: NDArray[np.intp]) -> Model:
    """The model of some of the kept responses, chosen as the model was."""
    rule = "loo" if model.choice.asked == "validation" else model.choice.asked
    gathered = Gathered.empty(max(len(rows), 1), 0, model.statistics.layout)
    responses, labels = members.responses[rows], members.labels[rows].tolist()
    groups, names = members.groups[rows].tolist(), [f"row {i}" for i in rows.tolist()]
    digests = [members.digests[i] for i in rows.tolist()]
    gathered.add([ResponseBatch(responses, labels, groups, digests, names)])
    return solve(gathered, SolveSettings(rule, model.prior), model.origin, words=model.words)


def _curve(model: Model, members: Members, each: float) -> Iterator[Point]:
    """For every size the accuracy of refits on draws, tested on the images beside them."""
    rng, size = np.random.default_rng(0), 2
    own = [np.flatnonzero(members.labels == name) for name in np.unique(members.labels)]
    while size <= each / 2 and size * len(own) <= MOST_IMAGES:
        right, drawn, tested = list[float](), list[float](), 0
        for _ in range(DRAWS):
            train = np.concatenate([rng.permutation(rows)[: min(size, max(len(rows) - 1, 1))] for rows in own])
            test = np.setdiff1d(np.arange(len(members)), train)
            groups = set(members.groups[train].tolist()) - {""}
            test = test[[name not in groups for name in members.groups[test].tolist()]]
            part = refit(model, members, train)
            test = test[np.isin(members.labels[test], part.statistics.classes)]
            if len(test):
                truth = class_codes(members.labels[test].tolist(), part.mapping.classes)
                right.append(float((part.mapping(members.responses[test]).argmax(axis=1) == truth).mean()))
                drawn.append(len(train) / len(own))
                tested = max(tested, len(test))  # all draws are of the same images, so these count once
        if right:
            yield _point(float(np.mean(drawn)), measured(float(np.mean(right)), tested))
        size *= 2


def _point(images: float, share: Share) -> Point:
    return Point(images, share.value, share.low, share.high)


def _needs(model: Model, logs: NDArray[np.float64], truth: NDArray[np.intp]) -> list[Need]:
    """Classes by the share of right answers, which for a class of few images is drawn to that of all."""
    classes, answers = model.statistics.classes, logs.argmax(axis=1)
    right, overall = answers == truth, float((answers == truth).mean())
    found = []
    for code in np.unique(truth):
        mine = truth == code
        wrong = np.bincount(answers[mine & ~right], minlength=len(classes))
        mean = (float(right[mine].sum()) + 2 * overall) / (float(mine.sum()) + 2)
        sure = float(np.exp(logs[mine, code]).mean())
        taken = classes[int(wrong.argmax())] if wrong.any() else None
        need = Need(classes[code], int(model.statistics.counts[code]), float(right[mine].mean()), sure, taken)
        found.append((mean, sure, need))
    return [need for _, _, need in sorted(found, key=lambda one: one[:2])]


def _readings(model: Model) -> list[Alone]:
    parts = [part for part in model.choice.parts if part.right is not None]
    found = [Alone(part.name, float(part.right or 0.0), part.weight) for part in parts]
    return sorted(found, key=lambda one: -one.accuracy)
