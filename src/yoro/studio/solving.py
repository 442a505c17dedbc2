"""The classifier of the studio: solved quickly with the previous choice, or in full with everything chosen anew."""

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
from yoro.discriminant.fixed_choice import solve_fixed_choice
from yoro.discriminant.mixture import Mixture
from yoro.discriminant.rank_one import HeldSolution, ImageChange
from yoro.errors import InputError
from yoro.mappings.batches import class_codes
from yoro.model.answers import Answers, image_answers, left_out_answers, log_answers
from yoro.model.gathered import Gathered
from yoro.model.metrics import Evaluation, Tally
from yoro.model.model import Model, Verb, kept_members, known
from yoro.model.open_model import OpenModel
from yoro.model.pipeline import Pipeline
from yoro.model.question import Question
from yoro.model.settings import SolveSettings
from yoro.model.solve import settings_of, solve
from yoro.studio.base_model import Base
from yoro.studio.training_data import FEW, Content, Rows, gathered_of, grown
from yoro.studio.workspace import Workspace
from yoro.trust.explanations import Sums
from yoro.trust.label_issues import expected_wrong_labels, far_out, near_duplicates
from yoro.trust.nearest_neighbours import FittedImages
from yoro.trust.out_of_distribution import OutOfDistributionScore, left_out_scores

MOST_CHANGES = FEW  # photos by which a classifier is changed instead of solved
MOST_HELD = 2**25  # coordinates of photos that are held for that: 256 MB


@dataclass(frozen=True)
class Guess:
    """The prediction for a photo; leave-one-out if it is a training photo."""

    answer: str
    probability: float
    margin: float  # by how much the best other class is more probable than the label, as a logarithm


class Judgement:
    """The out-of-distribution measure, outliers and near duplicates of a classifier; found later, in seconds."""

    def __init__(self) -> None:
        self.measure: OutOfDistributionScore | None = None  # None if there are too few photos
        self.outliers: tuple[str, ...] = ()  # digests, by out-of-distribution score
        self.twins: tuple[str, ...] = ()  # digests of near duplicates, pair by pair, the nearest first
        self.made = threading.Event()

    def make(self, classifier: OpenModel) -> None:
        """Compute the measure and find outliers and near duplicates."""
        model, members = classifier.model, classifier.model.members()
        if members is not None:
            digests = [content.hex() for content in members.digests]
            with suppress(InputError):  # too few photos to tell
                self.measure, strange, rows = left_out_scores(model, members)
                self.outliers = tuple(digests[rows[i]] for i in far_out(strange))
            pairs = near_duplicates(members.responses, members.digests, model.statistics.layout)
            self.twins = tuple(dict.fromkeys(digests[i] for _, *pair in pairs for i in pair))
        self.made.set()


@dataclass(frozen=True)
class SolveTask:
    """What to learn from, the model to start from, and the step that this belongs to."""

    content: Content
    base: Base | None
    revision: int
    whole: bool  # whether all photos were read
    tests: dict[str, str] = field(default_factory=dict)  # labels of the photos of the test set, by digest

    def settings(self) -> tuple[SolveSettings, Choice | None]:
        """How to solve: as the model was; and the model's choice, if that cannot be made again."""
        base = self.base
        return (SolveSettings(), None) if base is None else settings_of(base.model, base.model.gathered)

    def verb(self) -> Verb:
        if self.base is None:
            return Verb("studio", len(self.content))
        model = self.base.model
        return Verb("studio", len(self.content), tuple(model.history), integers=model.integers)


@dataclass(frozen=True)
class Learned:
    """A classifier, its leave-one-out evaluation, and the step after which it was solved."""

    revision: int
    content: Content
    classifier: OpenModel
    evaluation: Evaluation | None
    guesses: dict[str, Guess]  # by digest; of photos with a label, each left out
    seconds: float
    wrong: int = 0  # labels that are expected to be wrong
    provisional: bool = False  # whether the choice of an earlier step was used
    tested: Evaluation | None = None  # on the test set
    test_guesses: dict[str, Guess] = field(default_factory=dict)
    judgement: Judgement = field(default_factory=Judgement)

    @cached_property
    def fitted(self) -> FittedImages:
        """The training photos, to find the nearest ones."""
        return FittedImages(self.classifier.model)

    @cached_property
    def sums(self) -> Sums:
        return Sums(self.classifier)

    def measured_by(self, other: Learned) -> Learned:
        """The same classifier with the evaluation of another one, of about the same photos."""
        photos, now = other.content.photos, self.content.photos
        guesses = {one: guess for one, guess in other.guesses.items() if now.get(one) == photos.get(one)}
        return replace(self, evaluation=other.evaluation, wrong=other.wrong, guesses=guesses)

    def answers(self, names: Sequence[str], responses: NDArray[np.floating]) -> Answers:
        """What it says of responses (n, width)."""
        return Answers(names, log_answers(self.classifier.model, responses), responses=responses)


def gather_task(task: SolveTask, rows: Rows, pipeline: Pipeline, last: Learned | None = None) -> Gathered:
    """The sums of what is to be learned: few photos are added to those of what was learned last."""
    settings, gathered = task.settings()[0], None
    if last is not None and not last.provisional:
        gathered = grown(task.content, last.content, last.classifier.model.gathered, rows, settings)
    gathered = gathered or gathered_of(task.content, task.base, rows, pipeline.layout, settings)
    if int((gathered.statistics.counts > 0).sum()) < 2:
        raise InputError("A classifier needs photos of at least two classes.")
    return gathered


def learn(
    task: SolveTask, gathered: Gathered, rows: Rows, pipeline: Pipeline, held: Held | None = None
) -> tuple[Learned, Held | None]:
    """The classifier that `yoro fit` gives, and what to change for the next one.

    What was `held` is changed instead of solved anew where it can be; the classifier is the same, to rounding.
    """
    started, (settings, keep) = time.perf_counter(), task.settings()
    holding = _can_be_held(gathered, settings)
    changed = held.evidence(task, gathered, rows, settings) if held is not None and holding else None
    evidence = changed
    if evidence is None:
        evidence = known(gathered.statistics, kept_members(gathered.reservoir), settings.prior, None)
        evidence = evidence.with_turned() if holding else evidence
    model = solve(gathered, settings, pipeline.origin(), evidence=evidence, keep=keep, verb=task.verb())
    learned = Learned(task.revision, task.content, OpenModel(model, pipeline=pipeline), None, {}, 0.0)
    learned = _measured(learned, started)
    if held is not None and changed is not None:
        return learned, replace(held, learned=learned)
    solution = HeldSolution.of(evidence) if holding else None
    return learned, None if solution is None else Held(learned, task.content, solution)


def _can_be_held(gathered: Gathered, settings: SolveSettings) -> bool:
    """Whether a classifier of these sums can later be updated instead of solved anew."""
    kept = gathered.reservoir
    few = kept is not None and 0 < len(kept) * gathered.statistics.width <= MOST_HELD
    return few and settings.shrinkage == "loo" and gathered.pile is None


def hold(task: SolveTask, gathered: Gathered, choice: Choice, pipeline: Pipeline) -> Learned | None:
    """The classifier with an earlier choice, in a fraction of the time; None if that choice cannot be used."""
    started, settings = time.perf_counter(), task.settings()[0]
    if gathered.reservoir is None or not len(gathered.reservoir):
        return None
    found = solve_fixed_choice(gathered.statistics, gathered.reservoir.members(), choice, settings.prior)
    if found is None:
        return None
    mapping, left_out = found
    model = Model(gathered, mapping, choice, settings.prior, settings.protocol, origin=pipeline.origin())
    model.found_left_out = left_out
    classifier = OpenModel(model, pipeline=pipeline)
    learned = Learned(task.revision, task.content, classifier, None, {}, 0.0, provisional=True)
    return learned if left_out is None else _measured(learned, started)


def tested(learned: Learned, tests: dict[str, str], rows: Rows) -> Learned:
    """Add the evaluation on the photos of the test set whose class was learned."""
    classes = learned.classifier.model.statistics.classes
    tests = {digest: label for digest, label in tests.items() if label in classes}
    if not tests:
        return replace(learned, tested=None, test_guesses={})
    answers = learned.answers(list(tests), np.stack([rows[digest] for digest in tests]))
    tally = Tally(classes)
    tally.update(answers.log_probabilities, list(tests.values()))
    guesses = {}
    for answer in image_answers(answers, Question(), learned.classifier.names):
        label, probability = answer.best[0]
        guesses[answer.name] = Guess(str(label), probability, 1.0 if label != tests[answer.name] else -1.0)
    return replace(learned, tested=tally.result(), test_guesses=guesses)


@dataclass(frozen=True)
class Held:
    """The last classifier, and a solution of about the same photos that can be updated by those that differ."""

    learned: Learned
    content: Content  # of the solution
    solution: HeldSolution

    def after(self, task: SolveTask, rows: Rows) -> Learned | None:
        """The classifier of a task by the choice of the last one, without its own evaluation; None if it cannot be."""
        started, changes = time.perf_counter(), self.changes(task.content, rows)
        if not changes:
            return None
        old = self.learned.classifier
        mapping = self.solution.mapping(changes, old.model.choice, old.model.prior)
        if mapping is None:
            return None
        classifier = OpenModel(replace(old.model, mapping=mapping), pipeline=old.pipeline)
        now = replace(
            self.learned, revision=task.revision, content=task.content, classifier=classifier, provisional=True,
            seconds=time.perf_counter() - started,
        )  # fmt: skip
        return now.measured_by(self.learned)

    def worn(self, rows: Rows) -> bool:
        """Whether the solution should be made again: there are other classes, or many photos differ."""
        now = self.learned.content
        changes = self.changes(now, rows)
        same = set(now.photos.values()) == set(self.content.photos.values())
        return not same or changes is None or len(changes) > MOST_CHANGES // 4

    def again(self) -> Held:
        """The same with a solution of the photos that were learned last."""
        model = self.learned.classifier.model
        solution = HeldSolution.of(model.evidence().with_turned())
        return self if solution is None else Held(self.learned, self.learned.content, solution)

    def changes(self, now: Content, rows: Rows) -> list[ImageChange] | None:
        """How photos and labels differ from those of the solution; None if in more than few photos."""
        before = self.content
        if now.model is not None or before.model is not None:
            return None
        gone = sorted(before.photos.items() - now.photos.items())
        come = sorted(now.photos.items() - before.photos.items())
        if len(gone) + len(come) > MOST_CHANGES:
            return None
        return [ImageChange(sign, rows[one], label) for sign, part in ((1, come), (-1, gone)) for one, label in part]

    def evidence(self, task: SolveTask, gathered: Gathered, rows: Rows, settings: SolveSettings) -> Mixture | None:
        """What is known of the photos of a task, without solving anew; None if it must be."""
        changes, members = self.changes(task.content, rows), kept_members(gathered.reservoir)
        if not changes or members is None:
            return None
        return self.solution.after(changes, gathered.statistics, members, settings.prior)


def _measured(learned: Learned, started: float) -> Learned:
    """Add the leave-one-out evaluation, and the time that it all took."""
    model = learned.classifier.model
    answers, classes = left_out_answers(model), model.statistics.classes
    if answers is not None:
        tally, truth = Tally(classes), class_codes(answers.labels or [], classes)
        tally.update(answers.log_probabilities, answers.labels or [])
        wrong = round(expected_wrong_labels(answers.log_probabilities, truth))
        guesses = _guesses(answers, truth, classes)
        learned = replace(learned, evaluation=tally.result(), guesses=guesses, wrong=wrong)
    return replace(learned, seconds=time.perf_counter() - started)


def _guesses(answers: Answers, truth: NDArray[np.intp], classes: tuple[str, ...]) -> dict[str, Guess]:
    """Predictions by digest, which is the first word of the name of a leave-one-out answer."""
    margin, _ = margins(answers.log_probabilities, truth)
    best = answers.log_probabilities.argmax(axis=1)
    shares = np.exp(answers.log_probabilities[np.arange(len(best)), best])
    rows = zip(answers.names, best.tolist(), shares.tolist(), margin.tolist(), strict=True)
    return {name.partition(" ")[0]: Guess(classes[i], share, over) for name, i, share, over in rows}


def examples_of(work: Workspace, learned: Learned) -> list[Example]:
    """The training photos as a report takes them; those in the opened model have no file here."""
    digests = [content.hex() for content in learned.classifier.model.ledger.digests()]
    with work.lock:
        photos = [(digest, work.state.photos.get(digest)) for digest in digests]
    return [Example(work.photo(digest), None, photo.name if photo else digest) for digest, photo in photos]
