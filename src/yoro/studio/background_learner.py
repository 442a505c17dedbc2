"""Learning beside the page: photos are read in the background, and the classifier is solved after every step."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from yoro.data.decoding import decode
from yoro.errors import ImageError, YoroError, one_line
from yoro.http.priority import stand_back
from yoro.model.gathered import Gathered
from yoro.model.pipeline import Pipeline
from yoro.studio.solving import Judgement, Learned, Task, gather_task, hold, learn
from yoro.studio.training_data import content_of
from yoro.studio.workspace import Work

TOGETHER = 8  # photos of one forward pass
BETWEEN = 3.0  # seconds after which a long import is solved for on its way
REMEMBERED = 3  # classifiers, for undoing
PATIENCE = 0.05  # seconds that more steps may follow before it is solved
BRIEF = 0.15  # seconds of choosing that are not worth an answer before


class Learner:
    """Threads that read photos and solve; `changed` is called whenever there is something to show.

    After a step the classifier is solved at once with the last choice of shrinkages and weights held. Meanwhile another
    thread chooses anew, and what it finds takes the place of the first: then the step is settled.
    """

    def __init__(self, work: Work, pipeline: Pipeline, changed: Callable[[], None]) -> None:
        self._work, self.pipeline, self._changed = work, pipeline, changed
        self.source = hashlib.sha256(json.dumps(pipeline.describe(), sort_keys=True, default=str).encode()).hexdigest()
        self._responses = work.responses(self.source, pipeline.layout.width)
        self._brought = ""  # the key of the model whose responses are among these
        self.learned: Learned | None = None
        self.broken: dict[str, str] = {}  # photos that cannot be read, and why
        self.said = ""  # why there is no classifier
        self.settled = -1  # the step that all of the above is of
        self.curve: list[tuple[int, float, float, float]] = []  # photos, accuracy and its bounds, as it grew
        self._last: list[Learned] = []
        self._task: Task | None = None  # the newest
        self._wake, self._end, self._asking = threading.Event(), threading.Event(), threading.Lock()
        self._telling = threading.Lock()
        self._chooser = ThreadPoolExecutor(1, "yoro-choosing", stand_back)
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
        for part in (self._chooser, self._judges):
            part.shutdown(cancel_futures=True)

    def respond(self, images: NDArray[np.uint8]) -> NDArray[np.floating]:
        """Responses to decoded images, one forward pass at a time."""
        with self._asking:
            return self.pipeline.respond(images)

    def response(self, digest: str) -> NDArray[np.floating] | None:
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
            self._guarded(self._catch_up)

    def _guarded(self, do: Callable[[], None]) -> None:
        """Do it; what fails is said on the page."""
        try:
            do()
        except Exception as error:  # a source is anybody's code
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
                names = {digest: photos[digest].name for digest in waiting[:TOGETHER]}
            if not waiting:
                self._solve()
                return
            self._read(names)
            self._changed()
            if time.monotonic() - last > BETWEEN + 2 * (self.learned.seconds if self.learned else 0):
                self._solve(whole=False)
                last = time.monotonic()

    def _bring(self) -> None:
        """Take up the responses that the model keeps which the work begins with."""
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
        """Solve for the state as it is; `whole` if all of its photos are read."""
        with self._work.lock:
            base, revision = self._work.base, self._work.state.revision
            content = content_of(self._work.state, base, self._responses)
        task = self._task = Task(content, base, revision, whole)
        known = next((one for one in self._last if one.content == content), None)
        if known is not None:
            self._tell(task, replace(known, revision=revision))
            return
        try:
            gathered = gather_task(task, self._responses, self.pipeline)
            model = self.learned.classifier.model if self.learned else base.model if base else None
            quick = None if model is None or self._brief() else hold(task, gathered, model.choice, self.pipeline)
        except YoroError as error:
            self._tell(task, None, one_line(error))
            return
        if quick is None:
            self._choose(task, gathered)
            return
        exact = self._last[0].judgement if self._last else Judgement()
        self._tell(task, replace(quick, judgement=exact))
        if whole:
            self._chooser.submit(self._guarded, partial(self._choose, task, gathered))

    def _brief(self) -> bool:
        """Whether choosing took so little the last time that nobody waits for it."""
        return bool(self._last) and self._last[0].seconds < BRIEF

    def _choose(self, task: Task, gathered: Gathered) -> None:
        """Choose anew, if nothing has happened since."""
        if task is not self._task or self._end.is_set():
            return
        try:
            found, said = learn(task, gathered, self.pipeline), ""
        except YoroError as error:
            found, said = None, one_line(error)
        if task is self._task:
            self._tell(task, found, said)

    def _tell(self, task: Task, learned: Learned | None, said: str = "") -> None:
        """Show what was learned."""
        with self._telling:
            going_on = self.learned is not None and self.learned.provisional
            self.learned, self.said = learned, said
            exact = learned is None or not learned.provisional
            if learned is not None and exact:
                others = [one for one in self._last if one.content != learned.content]
                self._last = [learned, *others][:REMEMBERED]
            evaluation = learned.evaluation if learned is not None else None
            if evaluation is not None:
                point = (evaluation.n, evaluation.accuracy, *evaluation.interval)
                self.curve = [*self.curve[: len(self.curve) - going_on], point][-200:]
            if task.whole and exact:
                self.settled = task.revision
        self._changed()
        if exact:
            self._judges.submit(self._judge)

    def _judge(self) -> None:
        """Find what is strange to the newest classifier, and what looks wrong among its photos."""
        learned = self.learned
        if learned is not None and not learned.judgement.made.is_set():
            learned.judgement.make(learned.classifier)
            self._changed()
