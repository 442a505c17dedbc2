"""Advice on a dataset: expected accuracy, what more images would add, and whether another backbone is better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.data.responses import ResponseBatch
from yoro.data.splits import draw_few
from yoro.discriminant.calibration import log_probabilities, margins
from yoro.discriminant.reservoir import Members
from yoro.errors import InputError, counted, percent_text
from yoro.files.result_view import Result, Table
from yoro.mappings.batches import class_codes
from yoro.model.answers import left_out_answers
from yoro.model.gathered import Gathered
from yoro.model.model import Model
from yoro.model.one_pass import fit_model
from yoro.model.settings import FitSettings, SolveSettings
from yoro.model.solve import solve
from yoro.trust.learning_curve import CurvePoint, forecast, measured

DRAWS = 6  # of each size
MOST_IMAGES = 1_500  # in a draw: larger ones cost seconds each, and leave-one-out tells of the end of the curve
FEWEST = 4  # images of the median class for a curve, and of each class for a trial
SAMPLE = 240  # images that another backbone is tried on, about
CLEAR = 1.645  # standard errors between right answers that came and those that went: one chance in twenty


@dataclass(frozen=True)
class Need:
    """A class that needs images: how many it has, its recall, and the class it is most often mistaken for."""

    name: str
    images: int
    recall: float
    probability: float  # of the right class, on average
    mistaken_for: str | None


@dataclass(frozen=True)
class LayerAccuracy:
    """A layer by itself: its leave-one-out accuracy, and its ensemble weight."""

    name: str
    accuracy: float
    weight: float


@dataclass(frozen=True, repr=False)
class Advice(Result):
    """Figures by exact leave-one-out, or of refits on some of the images, tested on the others."""

    images: int
    classes: int
    each: float  # images of the median class
    now: CurvePoint  # the leave-one-out accuracy
    curve: tuple[CurvePoint, ...]  # refits on fewer
    forecast: tuple[CurvePoint, ...]  # to expect on new images: as it is, with twice, and with four times as many
    needs: tuple[Need, ...]  # the neediest class first
    readings: tuple[LayerAccuracy, ...] = ()  # the best first
    seconds: float = 0.0  # that the pass took
    notes: tuple[str, ...] = ()

    def headline(self) -> str:
        what = f"{counted(self.images, 'image')} of {counted(self.classes, 'class')}"
        expected = [f"{_percent(point)} with {point.images:g} per class" for point in self.forecast]
        told = f"leave-one-out accuracy {_percent(self.now)}; expected on new images: {', '.join(expected)}."
        weakest = [f"Add images of {n.name} first ({n.images:,}; recall {n.recall:.0%})." for n in self.needs[:1]]
        return " ".join([f"{what}, {told}", *weakest, *self.notes])

    def tables(self) -> list[Table]:
        """The learning curve, then the classes by need."""
        kinds = {"refits on fewer": self.curve, "leave-one-out": (self.now,), "forecast": self.forecast}
        points = [{"what": kind, **vars(point)} for kind, points in kinds.items() for point in points]
        needs = Table([vars(need) for need in self.needs], "Which classes need images", ("recall", "probability"))
        layers = Table([vars(layer) for layer in self.readings], "Each layer alone", ("accuracy", "weight"))
        return [Table(points, bars=("accuracy", "low", "high")), needs, layers]

    def to_json(self) -> dict[str, object]:
        return asdict(self)


def _percent(point: CurvePoint) -> str:
    low, high = (percent_text(bound, 0, "") for bound in (point.low, point.high))
    return f"{percent_text(point.accuracy, 0, ' %')} ({low} to {high})"


def advise(model: Model) -> Advice:
    """Advice from a model and its stored responses; no image is read again."""
    found = model.left_out()
    if found is None or model.reservoir is None:
        remedy = "fit at least two images per class, and keep the responses (without --no-reservoir)"
        raise InputError(f"No leave-one-out answers, so no advice: {remedy}.")
    logs = log_probabilities(found.scored.scores, model.choice.temperature)
    right, members = -margins(logs, found.scored.truth)[0], model.reservoir.members()
    counts = model.statistics.counts[model.statistics.counts > 0]
    each, notes = float(np.median(counts)), list[str]()
    curve = list(_curve(model, members, each))
    if not curve:
        notes.append(f"No learning curve: the median class has {each:g} images; at least {FEWEST} are needed.")
    return Advice(
        int(model.statistics.total), len(counts), each, measured(each, float((right > 0).mean()), len(right)),
        tuple(curve), tuple(forecast(each, right, len(counts))), tuple(_needs(model, logs, found.scored.truth)),
        tuple(_readings(model)), fit_cost(model)[0], tuple(notes),
    )  # fmt: skip


def fit_cost(model: Model) -> tuple[float, float]:
    """Seconds and images of the last fit, as far as the history has them."""
    event = next((entry for entry in reversed(model.history) if entry.get("verb") == "fit"), {})
    return float(str(event.get("seconds", 0.0))), float(str(event.get("images", 1)))


def refit(model: Model, members: Members, rows: NDArray[np.intp]) -> Model:
    """The model of some of the stored responses, its shrinkage selected as the model's was."""
    rule = "loo" if model.choice.asked == "validation" else model.choice.asked
    gathered = Gathered.empty(max(len(rows), 1), 0, model.statistics.layout)
    responses, labels = members.responses[rows], members.labels[rows].tolist()
    groups, names = members.groups[rows].tolist(), [f"row {i}" for i in rows.tolist()]
    digests = [members.digests[i] for i in rows.tolist()]
    gathered.add([ResponseBatch(responses, labels, groups, digests, names)])
    return solve(gathered, SolveSettings(rule, model.prior), model.origin, words=model.words)


def _curve(model: Model, members: Members, each: float) -> Iterator[CurvePoint]:
    """For every size the accuracy of refits on random draws, tested on the other images."""
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
            yield measured(float(np.mean(drawn)), float(np.mean(right)), tested)
        size *= 2


def _needs(model: Model, logs: NDArray[np.float64], truth: NDArray[np.intp]) -> list[Need]:
    """Classes by recall, the worst first; with few images the recall is pulled towards the overall accuracy."""
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


def _readings(model: Model) -> list[LayerAccuracy]:
    parts = [part for part in model.choice.parts if part.right is not None]
    found = [LayerAccuracy(part.name, float(part.right or 0.0), part.weight) for part in parts]
    return sorted(found, key=lambda one: -one.accuracy)


@dataclass(frozen=True)
class BackboneTrial:
    """Leave-one-out accuracy of two backbones on the same images, and seconds per image."""

    source: str
    images: int
    accuracy: float
    present: float
    gained: int  # images that it alone has right
    lost: int  # images that the present source alone has right
    seconds: float
    present_seconds: float

    @property
    def verdict(self) -> str:
        if abs(self.gained - self.lost) <= CLEAR * (self.gained + self.lost) ** 0.5:
            return "no clear difference"
        return "better" if self.gained > self.lost else "worse"

    def to_json(self) -> dict[str, object]:
        return {**vars(self), "verdict": self.verdict}


def try_source(model: Model, examples: Sequence[Example], source: str, settings: FitSettings) -> BackboneTrial:
    """Fit another backbone on a sample of the images that a model was fitted on, and compare the two."""
    if model.reservoir is None:
        raise InputError("This model stores no responses to compare with. Fit again without --no-reservoir.")
    classes = len({example.label for example in examples})
    sample = draw_few(list(examples), max(FEWEST, SAMPLE // classes), 0)
    other = fit_model(sample, None, replace(settings, pipeline=replace(settings.pipeline, source=source))).model
    members, wanted = model.reservoir.members(), set(other.ledger.digests())
    rows = np.flatnonzero([digest in wanted for digest in members.digests])
    theirs, mine = _right(other), _right(refit(model, members, rows))
    both = sorted(theirs.keys() & mine.keys())
    if not both:
        raise InputError("No leave-one-out answers on the sample; give at least two images per class.")
    one, two = (np.array([right[name] for name in both]) for right in (theirs, mine))
    return BackboneTrial(
        source, len(both), float(one.mean()), float(two.mean()), int((one & ~two).sum()), int((two & ~one).sum()),
        *(seconds / max(images, 1.0) for seconds, images in map(fit_cost, (other, model))),
    )  # fmt: skip


def _right(model: Model) -> dict[str, bool]:
    """Whether each leave-one-out answer is right, by the image's digest and label."""
    answers, classes = left_out_answers(model), model.statistics.classes
    if answers is None or answers.labels is None:
        return {}
    best = answers.log_probabilities.argmax(axis=1)
    return {name: classes[i] == label for name, i, label in zip(answers.names, best, answers.labels, strict=True)}
