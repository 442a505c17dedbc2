"""A classifier of the studio, and how it is solved: at once with a choice held, or with everything chosen anew."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.discriminant.calibration import margins
from yoro.discriminant.evidence import Choice
from yoro.discriminant.fixed_choice import held
from yoro.errors import InputError
from yoro.mappings.batches import class_codes
from yoro.model.answers import Answers, left_out_answers, log_answers
from yoro.model.gathered import Gathered
from yoro.model.metrics import Evaluation, Tally
from yoro.model.model import Model, Verb
from yoro.model.open_model import OpenModel
from yoro.model.pipeline import Pipeline
from yoro.model.settings import SolveSettings
from yoro.model.solve import solve
from yoro.studio.base_model import Base
from yoro.studio.training_data import Content, Rows, gathered_of
from yoro.studio.workspace import Work
from yoro.trust.explanations import Sums
from yoro.trust.label_issues import far_out, near_duplicates
from yoro.trust.nearest_neighbours import FittedImages
from yoro.trust.out_of_distribution import Strangeness, strangeness_of


@dataclass(frozen=True)
class Guess:
    """What the classifier says of a photo, without it if it was fitted: the best class, and that of its label."""

    answer: str
    probability: float
    margin: float  # by how much the best other class is more probable than the label, as a logarithm


class Judgement:
    """What is strange to a classifier, and which photos are nearly the same; it comes later, of many after seconds."""

    def __init__(self) -> None:
        self.measure: Strangeness | None = None  # none where there are too few photos to tell
        self.outliers: tuple[str, ...] = ()  # digests, the strangest first
        self.twins: tuple[str, ...] = ()  # near duplicates beside each other, the nearest first
        self.made = threading.Event()

    def make(self, classifier: OpenModel) -> None:
        """Find it."""
        model, members = classifier.model, classifier.model.members()
        if members is not None:
            digests = [content.hex() for content in members.digests]
            with suppress(InputError):  # too few photos to tell
                self.measure, strange, rows = strangeness_of(model, members)
                self.outliers = tuple(digests[rows[i]] for i in far_out(strange))
            pairs = near_duplicates(members.responses, members.digests, model.statistics.layout)
            self.twins = tuple(dict.fromkeys(digests[i] for _, *pair in pairs for i in pair))
        self.made.set()


@dataclass(frozen=True)
class Task:
    """What is to be learned, beside the model that it began with, and the step that it is of."""

    content: Content
    base: Base | None
    revision: int
    whole: bool  # whether all photos were read

    def settings(self) -> tuple[SolveSettings, Choice | None]:
        """How it is solved: as the model was; and the model's choice, where that cannot be made anew."""
        return (SolveSettings(), None) if self.base is None else self.base.settings()

    def verb(self) -> Verb:
        """What the history says of it."""
        if self.base is None:
            return Verb("studio", len(self.content))
        model = self.base.model
        return Verb("studio", len(self.content), tuple(model.history), integers=model.integers)


@dataclass(frozen=True)
class Learned:
    """A classifier, and the step that it was solved after."""

    revision: int
    content: Content
    classifier: OpenModel
    evaluation: Evaluation | None
    guesses: dict[str, Guess]  # by digest; of photos with a label, each left out
    seconds: float
    provisional: bool = False  # whether the choice is one made before
    judgement: Judgement = field(default_factory=Judgement)

    @cached_property
    def fitted(self) -> FittedImages:
        """The photos to compare with."""
        return FittedImages(self.classifier.model)

    @cached_property
    def sums(self) -> Sums:
        """What takes an answer apart."""
        return Sums(self.classifier)

    def answers(self, names: Sequence[str], responses: NDArray[np.floating]) -> Answers:
        """What it says of responses (n, width)."""
        return Answers(names, log_answers(self.classifier.model, responses), responses=responses)


def gather_task(task: Task, rows: Rows, pipeline: Pipeline) -> Gathered:
    """The sums of what is to be learned."""
    gathered = gathered_of(task.content, task.base, rows, pipeline.layout, task.settings()[0])
    if int((gathered.statistics.counts > 0).sum()) < 2:
        raise InputError("A classifier needs photos of at least two classes.")
    return gathered


def learn(task: Task, gathered: Gathered, pipeline: Pipeline) -> Learned:
    """The classifier that a fit of the same gives."""
    started, (settings, keep) = time.perf_counter(), task.settings()
    model = solve(gathered, settings, pipeline.origin(), keep=keep, verb=task.verb())
    return _measured(Learned(task.revision, task.content, OpenModel(model, pipeline=pipeline), None, {}, 0.0), started)


def hold(task: Task, gathered: Gathered, choice: Choice, pipeline: Pipeline) -> Learned | None:
    """The classifier of a choice made before, in a fraction of the time; None where it cannot be held."""
    started, settings = time.perf_counter(), task.settings()[0]
    if gathered.reservoir is None or not len(gathered.reservoir):
        return None
    found = held(gathered.statistics, gathered.reservoir.members(), choice, settings.prior)
    if found is None:
        return None
    mapping, left_out = found
    model = Model(
        gathered.statistics, mapping, choice, gathered.ledger, gathered.reservoir, settings.prior, settings.protocol,
        origin=pipeline.origin(),
    )  # fmt: skip
    model.found_left_out = left_out
    classifier = OpenModel(model, pipeline=pipeline)
    learned = Learned(task.revision, task.content, classifier, None, {}, 0.0, provisional=True)
    return learned if left_out is None else _measured(learned, started)


def _measured(learned: Learned, started: float) -> Learned:
    """With what leave-one-out says, and the time that it all took."""
    model = learned.classifier.model
    answers, evaluation, guesses = left_out_answers(model), None, dict[str, Guess]()
    if answers is not None:
        tally = Tally(model.statistics.classes)
        tally.update(answers.log_probabilities, answers.labels or [])
        evaluation, guesses = tally.result(), _guesses(answers, model.statistics.classes)
    return replace(learned, evaluation=evaluation, guesses=guesses, seconds=time.perf_counter() - started)


def _guesses(answers: Answers, classes: tuple[str, ...]) -> dict[str, Guess]:
    """By digest, which is the first word of a left-out answer's name."""
    found = {}
    margin, _ = margins(answers.log_probabilities, class_codes(answers.labels or [], classes))
    for name, logs, over in zip(answers.names, answers.log_probabilities, margin.tolist(), strict=True):
        best = int(logs.argmax())
        found[name.partition(" ")[0]] = Guess(classes[best], float(np.exp(logs[best])), over)
    return found


def examples_of(work: Work, learned: Learned) -> list[Example]:
    """What was fitted, as a report takes it; of images that the model brought there is no picture here."""
    digests = [content.hex() for content in learned.classifier.model.ledger.digests()]
    with work.lock:
        photos = [(digest, work.state.photos.get(digest)) for digest in digests]
    return [Example(work.photo(digest), None, photo.name if photo else digest) for digest, photo in photos]
