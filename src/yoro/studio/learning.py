"""Learning beside the page: photos are read in the background, and the classifier is solved after every step."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from yoro.data.decoding import decode
from yoro.data.examples import Example
from yoro.data.responses import ResponseBatch
from yoro.discriminant.calibration import log_probabilities, margins
from yoro.errors import ImageError, InputError, YoroError, one_line
from yoro.mappings.batches import class_codes
from yoro.model.classifier import Answers, Classifier
from yoro.model.gathered import Gathered
from yoro.model.left_out import left_out_answers
from yoro.model.metrics import Evaluation, Tally
from yoro.model.model import Verb
from yoro.model.pipeline import Pipeline
from yoro.model.settings import SolveSettings
from yoro.model.solve import solve
from yoro.serve.priority import stand_back
from yoro.studio.state import UNSORTED
from yoro.studio.work import Work
from yoro.trust.explanations import Sums
from yoro.trust.nearest import Fitted
from yoro.trust.unknown import Strangeness, strangeness

TOGETHER = 8  # photos of one forward pass
BETWEEN = 3.0  # seconds after which a long import is solved for on its way
REMEMBERED = 3  # classifiers, for undoing
PATIENCE = 0.05  # seconds that more steps may follow before it is solved

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Guess:
    """What the classifier says of a photo, without it if it was fitted: the best class, and that of its label."""

    answer: str
    probability: float
    margin: float  # by how much the best other class is more probable than the label, as a logarithm


class Judgement:
    """What is strange to a classifier; of many photos it takes seconds to find, so it comes later."""

    def __init__(self) -> None:
        self.measure: Strangeness | None = None  # none where there are too few photos to tell
        self.made = threading.Event()

    def make(self, classifier: Classifier) -> None:
        """Find it."""
        try:
            self.measure = strangeness(classifier.model)
        except InputError:
            self.measure = None
        self.made.set()


@dataclass(frozen=True)
class Learned:
    """A classifier, and the step that it was solved after."""

    revision: int
    classifier: Classifier
    evaluation: Evaluation | None
    guesses: dict[str, Guess]  # by digest; of photos with a label, each left out
    digests: tuple[str, ...]  # of the photos fitted, in the order of the ledger
    seconds: float
    judgement: Judgement = field(default_factory=Judgement)

    @cached_property
    def fitted(self) -> Fitted:
        """The photos to compare with."""
        return Fitted(self.classifier.model)

    @cached_property
    def sums(self) -> Sums:
        """What takes an answer apart."""
        return Sums(self.classifier)

    def answers(self, names: Sequence[str], responses: NDArray[np.floating]) -> Answers:
        """What it says of responses (n, width)."""
        model = self.classifier.model
        logs = log_probabilities(model.mapping(responses), model.choice.temperature)
        return Answers(list(names), logs, None, responses=responses)


class Learner:
    """A thread that reads photos and solves; `changed` is called whenever there is something to show."""

    def __init__(self, work: Work, pipeline: Pipeline, changed: Callable[[], None]) -> None:
        self._work, self.pipeline, self._changed = work, pipeline, changed
        self.source = hashlib.sha256(json.dumps(pipeline.describe(), sort_keys=True, default=str).encode()).hexdigest()
        self._responses = work.responses(self.source, sum(reading.width for reading in pipeline.layout.readings))
        self.learned: Learned | None = None
        self.broken: dict[str, str] = {}  # photos that cannot be read, and why
        self.said = ""  # why there is no classifier
        self.settled = -1  # the step that all of the above is of
        self.curve: list[tuple[int, float, float, float]] = []  # photos, accuracy and its bounds, as it grew
        self._last: list[tuple[dict[str, str], Learned]] = []
        self._wake, self._end, self._asking = threading.Event(), threading.Event(), threading.Lock()
        self._judges = ThreadPoolExecutor(1, "yoro-judging", stand_back)  # so that no step waits for it
        self._thread = threading.Thread(target=self._run, name="yoro-learning", daemon=True)

    def start(self) -> None:
        """Begin, with what is there."""
        self._wake.set()
        self._thread.start()

    def wake(self) -> None:
        """There was a step."""
        self._wake.set()

    def close(self) -> None:
        """End after the forward pass that runs."""
        self._end.set()
        self._wake.set()
        self._thread.join()
        self._judges.shutdown(cancel_futures=True)

    def respond(self, images: NDArray[np.uint8]) -> NDArray[np.floating]:
        """Responses to decoded images, one forward pass at a time."""
        with self._asking:
            return self.pipeline.respond(images)

    def response(self, digest: str) -> NDArray[np.float32] | None:
        """That of a photo, if it was read."""
        return self._responses.get(digest)

    def read(self) -> tuple[int, int]:
        """How many of the photos were read, and how many there are."""
        with self._work.lock:
            photos = list(self._work.state.photos)
        return sum(digest in self._responses or digest in self.broken for digest in photos), len(photos)

    def _run(self) -> None:
        stand_back()
        while True:
            self._wake.wait()
            if self._end.wait(PATIENCE):
                return
            self._wake.clear()
            try:
                self._catch_up()
                self._judges.submit(self._judge)
            except Exception as error:  # a source is anybody's code; the page says what happened
                self.said = f"Learning failed: {one_line(error)}"
                self.settled = self._work.state.revision
            self._changed()

    def _catch_up(self) -> None:
        last = time.monotonic()
        while not self._end.is_set():
            with self._work.lock:
                photos = self._work.state.photos
                waiting = [d for d in photos if d not in self._responses and d not in self.broken]
                names = {digest: photos[digest].name for digest in waiting[:TOGETHER]}
            if not waiting:
                self._solve()
                return
            self._read(names)
            self._changed()
            if time.monotonic() - last > BETWEEN + 2 * (self.learned.seconds if self.learned else 0):
                self._solve(whole=False)
                last = time.monotonic()

    def _judge(self) -> None:
        """Find what is strange to the newest classifier."""
        learned = self.learned
        if learned is not None and not learned.judgement.made.is_set():
            learned.judgement.make(learned.classifier)
            self._changed()

    def _read(self, names: dict[str, str]) -> None:
        images = {}
        for digest, name in names.items():
            try:
                images[digest] = decode(self._work.photo(digest), self.pipeline.geometry, name=name)
            except ImageError as error:
                self.broken[digest] = one_line(error)
        if not images:
            return
        found = dict(zip(images, self.respond(np.stack(list(images.values()))), strict=True))
        for digest in [digest for digest, row in found.items() if not np.isfinite(row).all()]:
            self.broken[digest] = "The network's response to this photo holds NaN or infinity."
            del found[digest]
        self._work.keep_responses(self.source, found)
        self._responses |= {digest: np.asarray(row, dtype=np.float32) for digest, row in found.items()}

    def _solve(self, *, whole: bool = True) -> None:
        with self._work.lock:
            state, revision = self._work.state, self._work.state.revision
            labels = {
                digest: state.classes[photo.belongs]
                for digest, photo in sorted(state.photos.items())  # so that the same photos are the same model
                if photo.belongs != UNSORTED and digest in self._responses
            }
        if not (self.learned and self.learned.revision == revision and self.learned.digests == tuple(labels)):
            try:
                self.learned, self.said = self._remembered(labels, revision), ""
            except YoroError as error:
                self.learned, self.said = None, one_line(error)
            evaluation = self.learned.evaluation if self.learned else None
            if evaluation is not None:
                self.curve = [*self.curve, (evaluation.n, evaluation.accuracy, *evaluation.interval)][-200:]
        if whole:
            self.settled = revision
        self._changed()

    def _remembered(self, labels: dict[str, str], revision: int) -> Learned:
        """The classifier of labelled photos; of the last few it is remembered, so that a step is undone at once."""
        known = next((one for before, one in self._last if before == labels), None)
        found = self._learned(labels, revision) if known is None else replace(known, revision=revision)
        self._last = [(labels, found), *((before, one) for before, one in self._last if before != labels)][:REMEMBERED]
        return found

    def _learned(self, labels: dict[str, str], revision: int) -> Learned:
        started, settings = time.perf_counter(), SolveSettings()
        if len(set(labels.values())) < 2:
            raise InputError("A classifier needs photos of at least two classes.")
        gathered = Gathered.empty(settings.reservoir, settings.seed, self.pipeline.layout)
        rows, names = np.stack([self._responses[digest] for digest in labels]), list(labels.values())
        contents = [bytes.fromhex(digest) for digest in labels]
        gathered.add([ResponseBatch(rows, names, [""] * len(names), contents, list(labels))])
        model = solve(gathered, settings, self.pipeline.origin(), verb=Verb("studio", len(names)))
        answers, evaluation, guesses = left_out_answers(model), None, dict[str, Guess]()
        if answers is not None:
            tally = Tally(model.statistics.classes)
            tally.update(answers.log_probabilities, answers.labels or [])
            evaluation, guesses = tally.result(), _guesses(answers, model.statistics.classes)
        classifier = Classifier(model, pipeline=self.pipeline)
        return Learned(revision, classifier, evaluation, guesses, tuple(labels), time.perf_counter() - started)


def _guesses(answers: Answers, classes: tuple[str, ...]) -> dict[str, Guess]:
    """By digest, which is the first word of a left-out answer's name."""
    found = {}
    margin, _ = margins(answers.log_probabilities, class_codes(answers.labels or [], classes))
    for name, logs, over in zip(answers.names, answers.log_probabilities, margin.tolist(), strict=True):
        best = int(logs.argmax())
        found[name.partition(" ")[0]] = Guess(classes[best], float(np.exp(logs[best])), over)
    return found


def examples_of(work: Work, learned: Learned) -> list[Example]:
    """The photos fitted, as a report takes them."""
    with work.lock:
        photos = {digest: work.state.photos.get(digest) for digest in learned.digests}
    return [Example(work.photo(d), None, photo.name if photo else d) for d, photo in photos.items()]
