"""Learning in the background: photos go through the network, and the classifier is solved after every step."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from yoro.errors import ImageError, InputError, YoroError, one_line
from yoro.http.priority import lower_priority, single_threaded_blas
from yoro.model.gathered import Gathered
from yoro.model.metrics import Evaluation
from yoro.model.pipeline import Pipeline
from yoro.studio.solving import Held, Judgement, Learned, SolveTask, gather_task, hold, learn, tested
from yoro.studio.training_data import content_of, test_labels
from yoro.studio.workspace import Workspace

BATCH_SIZE = 8  # photos of one forward pass
BETWEEN = 3.0  # seconds between two preliminary classifiers during a long import
REMEMBERED = 3  # classifiers, for undoing
DEBOUNCE = 0.05  # seconds that more steps may follow before it is solved
BRIEF = 0.15  # seconds: a choice that takes no longer needs no provisional answer before it
MOST_POINTS = 200  # of the curve


class Learner:
    """Threads that read photos and solve; `changed` is called from them whenever there is something to show.

    After a step the classifier is first solved with the previous shrinkages and weights, which is quick: a provisional
    result. Another thread then chooses them anew, and its result replaces the first: then the step is settled.
    """

    def __init__(self, work: Workspace, pipeline: Pipeline, changed: Callable[[], None]) -> None:
        self._work, self.pipeline, self._changed = work, pipeline, changed
        self.source = hashlib.sha256(json.dumps(pipeline.describe(), sort_keys=True, default=str).encode()).hexdigest()
        self._responses = work.responses(self.source, pipeline.layout.width)
        self._brought = ""  # the key of the model whose responses are included
        self.learned: Learned | None = None
        self.broken: dict[str, str] = {}  # photos that cannot be read, and why
        self.said = ""  # why there is no classifier
        self.settled = -1  # the step that all of the above belongs to
        self.curve: list[tuple[int, float, float, float]] = []  # photos, accuracy and its bounds, one for each step
        self._last: list[Learned] = []
        self._held: Held | None = None  # what was settled last, ready to be changed
        self._shown: Evaluation | None = None  # the last that went into the curve
        self._task: SolveTask | None = None  # the newest
        self._plotted: SolveTask | None = None  # that of the last point of the curve
        self._wake, self._end = threading.Event(), threading.Event()
        self.network = threading.Lock()  # one forward pass at a time
        self._showing = threading.Lock()  # of the newest task, what is shown of it, and the curve
        self._chooser = ThreadPoolExecutor(1, "yoro-choosing", lower_priority)
        self._judges = ThreadPoolExecutor(1, "yoro-judging", lower_priority)  # so that no step waits for them
        self._thread = threading.Thread(target=self._run, name="yoro-learning", daemon=True)

    def start(self) -> None:
        """Start the threads, with the photos that are there."""
        self._wake.set()
        self._thread.start()

    def wake(self) -> None:
        self._wake.set()

    def close(self) -> None:
        """Stop after the current forward pass."""
        self._end.set()
        self._wake.set()
        self._thread.join()
        for part in (self._chooser, self._judges):
            part.shutdown(cancel_futures=True)

    def classifier(self) -> Learned:
        """What was learned last."""
        if self.learned is None:
            raise InputError(self.said or "There is no classifier yet; add photos of at least two classes.")
        return self.learned

    def respond(self, images: NDArray[np.uint8]) -> NDArray[np.floating]:
        """Responses to decoded images, one forward pass at a time."""
        with self.network:
            return self.pipeline.respond(images)

    def response(self, digest: str) -> NDArray[np.floating] | None:
        return self._responses.get(digest)

    def read(self) -> tuple[int, int]:
        """How many of the photos were read, and how many there are."""
        with self._work.lock:
            photos = list(self._work.state.photos)
        return sum(digest in self._responses or digest in self.broken for digest in photos), len(photos)

    def _run(self) -> None:
        import scipy.linalg  # noqa: F401  # so that its threads are limited too

        single_threaded_blas()
        lower_priority()
        while True:
            self._wake.wait()
            if self._end.wait(DEBOUNCE):
                return
            self._wake.clear()
            try:
                self._catch_up()
            except Exception as error:  # a backbone may be anybody's code
                self.said = f"Learning failed: {one_line(error)}"
                self.settled = self._work.state.revision
            self._changed()

    def _catch_up(self) -> None:
        last = time.monotonic()
        while not self._end.is_set():
            with self._work.lock:
                self._bring()
                photos = self._work.state.photos
                waiting = [d for d in photos if d not in self._responses and d not in self.broken]
                names = {digest: photos[digest].name for digest in waiting[:BATCH_SIZE]}
            if not waiting:
                self._solve()
                return
            self._read(names)
            self._changed()
            if time.monotonic() - last > BETWEEN + 2 * (self.learned.seconds if self.learned else 0):
                self._solve(whole=False)
                last = time.monotonic()

    def _bring(self) -> None:
        """Include the responses that are kept in the model that the work starts from."""
        base = self._work.base
        if base is None or base.key == self._brought:
            return
        members, self._brought = base.model.members(), base.key
        if members is not None:
            digests = [content.hex() for content in members.digests]
            self._responses = dict(zip(digests, members.responses, strict=True)) | self._responses

    def _read(self, names: dict[str, str]) -> None:
        images = {}
        for digest, name in names.items():
            try:
                images[digest] = self._work.pixels(digest, self.pipeline.geometry, name)
            except ImageError as error:
                self.broken[digest] = one_line(error)
        if not images:
            return
        found = dict(zip(images, self.respond(np.stack(list(images.values()))), strict=True))
        for digest in [digest for digest, row in found.items() if not np.isfinite(row).all()]:
            self.broken[digest] = "The network's response to this photo contains NaN or infinity."
            del found[digest]
        self._work.keep_responses(self.source, found)
        self._responses |= {digest: np.asarray(row, dtype=np.float32) for digest, row in found.items()}

    def _solve(self, *, whole: bool = True) -> None:
        """Solve for the state as it is; `whole` if all of its photos are read."""
        with self._work.lock:
            base, revision = self._work.base, self._work.state.revision
            content = content_of(self._work.state, base, self._responses)
            tests = test_labels(self._work.state, self._responses)
        if revision == self.settled:
            return
        task = SolveTask(content, base, revision, whole, tests)
        with self._showing:
            self._task = task
        known = next((one for one in self._last if one.content == content), None)
        if known is not None:
            self._show(task, replace(known, revision=revision))
            return
        changed = None if self._held is None or self._brief() else self._held.after(task, self._responses)
        if changed is not None:
            self._show(task, changed)
            if whole:
                self._chooser.submit(self._choose, task)
            return
        try:
            gathered = gather_task(task, self._responses, self.pipeline)
            model = self.learned.classifier.model if self.learned else base.model if base else None
            quick = None if model is None or self._brief() else hold(task, gathered, model.choice, self.pipeline)
        except YoroError as error:
            self._show(task, None, one_line(error))
            return
        if quick is None:
            self._choose(task, gathered)
            return
        exact = self._last[0].judgement if self._last else Judgement()
        self._show(task, replace(quick, judgement=exact))
        if whole:
            self._chooser.submit(self._choose, task, gathered)

    def _brief(self) -> bool:
        """Whether choosing was so quick last time that no provisional answer is needed."""
        return bool(self._last) and self._last[0].seconds < BRIEF

    def _choose(self, task: SolveTask, gathered: Gathered | None = None) -> None:
        """Choose shrinkages and weights anew, unless there was another step."""
        if task is not self._task or self._end.is_set():
            return
        try:
            last = self._held.learned if self._held is not None else None
            gathered = gathered or gather_task(task, self._responses, self.pipeline, last)
            learned, held = learn(task, gathered, self._responses, self.pipeline, self._held)
            if held is not None and (held.content != task.content or learned.seconds >= BRIEF):
                self._held = held
            self._show(task, learned)
            if self._held is not None and self._held.worn(self._responses):
                self._chooser.submit(self._hold_again)
        except YoroError as error:
            self._show(task, None, one_line(error))
        except Exception as error:  # a bug must not leave the page waiting
            self._show(task, None, f"Learning failed: {one_line(error)}")

    def _hold_again(self) -> None:
        """Solve what was learned last anew, so that what is changed stays small, unless there was another step."""
        held = self._held
        if held is not None and self.settled == self._work.state.revision and not self._end.is_set():
            self._held = held.again()

    def _show(self, task: SolveTask, learned: Learned | None, said: str = "") -> None:
        """Show what was learned, unless there is a newer task: its result must not be replaced by an older one."""
        exact = learned is None or not learned.provisional
        if learned is not None:
            learned = tested(learned, task.tests, self._responses)
        with self._showing:
            if learned is not None and exact:
                others = [one for one in self._last if one.content != learned.content]
                self._last = [learned, *others][:REMEMBERED]
            if task is not self._task:
                if learned is not None and self.learned is not None and self.learned.provisional:
                    self.learned = self.learned.measured_by(learned)
                return
            self.learned, self.said = learned, said
            if learned is not None and learned.evaluation is not None and learned.evaluation is not self._shown:
                self._shown = learned.evaluation
                self._plot(task, learned.evaluation)
            if task.whole and exact:
                self.settled = task.revision
        self._changed()
        if exact:
            self._judges.submit(self._judge)

    def _plot(self, task: SolveTask, evaluation: Evaluation) -> None:
        """Add a point to the curve, or replace the last one if its step never settled or had the same photos."""
        last = self._plotted
        again = last is not None and (last.revision > self.settled or last.content == task.content)
        point = (evaluation.n, evaluation.accuracy, *evaluation.interval)
        self.curve = [*(self.curve[:-1] if again else self.curve), point][-MOST_POINTS:]
        self._plotted = task

    def _judge(self) -> None:
        """Find outliers and near duplicates among the photos of the newest classifier."""
        learned = self.learned
        if learned is not None and not learned.judgement.made.is_set():
            learned.judgement.make(learned.classifier)
            self._changed()
