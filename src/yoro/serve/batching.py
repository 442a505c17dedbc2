"""Dynamic batching: images of concurrent requests share a forward pass. The queue is bounded (backpressure)."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from yoro.errors import ImageError
from yoro.http.errors import busy
from yoro.http.priority import lower_priority
from yoro.serve.served_model import Answered, ServedPipeline

SMOOTHING = 0.2  # weight of the newest pass in the moving average of the rate
PASSES = 2  # batches that are answered at once
LONGEST_RETRY = 60  # seconds, of a Retry-After

Row = Answered | ImageError


@dataclass(frozen=True)
class _QueuedImage:
    """One image in the queue."""

    by: ServedPipeline
    image: NDArray[np.uint8]
    future: asyncio.Future[Row]


class Batcher:
    """A bounded queue of images, and threads that answer as many at a time as are waiting.

    Nothing waits for a batch to fill: a single image is answered at once, and under load batches grow by themselves.
    With a model that may be asked twice at once, one batch keeps the cores busy while another begins or ends.
    """

    def __init__(self, most_waiting: int, batch: int, tell: Callable[[int, float], None] = lambda *_: None) -> None:
        self.waiting = 0  # images of all requests, decoded or not
        self._most, self._batch, self._tell = most_waiting, batch, tell
        self._rate, self._ended = 0.0, 0.0  # images a second; when the last batch was answered
        self._jobs: deque[_QueuedImage] = deque()
        self._more = threading.Condition()
        self._running, self._closed = 0, False
        self._threads = [threading.Thread(target=self._work, name="yoro-batches", daemon=True) for _ in range(PASSES)]
        for thread in self._threads:
            thread.start()

    @contextmanager
    def room(self, count: int) -> Iterator[None]:
        """Reserve room in the queue until the answers are there; a RefusedError if it is full."""
        if self.waiting + count > self._most:
            raise busy(f"The queue is full ({self.waiting} of {self._most} images)", self._retry_after())
        self.waiting += count
        try:
            yield
        finally:
            self.waiting -= count

    async def answer(self, by: ServedPipeline, image: NDArray[np.uint8]) -> Row:
        """What `by` answers to an image, in a batch with others."""
        future: asyncio.Future[Row] = asyncio.get_running_loop().create_future()
        with self._more:
            self._jobs.append(_QueuedImage(by, image, future))
            self._more.notify()
        return await future

    def close(self) -> None:
        """Answer what is in the queue, and stop."""
        with self._more:
            self._closed = True
            self._more.notify_all()
        for thread in self._threads:
            thread.join()

    def _retry_after(self) -> int:
        """Seconds until there should be room, by the rate so far."""
        return min(LONGEST_RETRY, max(1, math.ceil(self.waiting / self._rate))) if self._rate else 1

    def _work(self) -> None:
        lower_priority()
        while jobs := self._take():
            started = time.perf_counter()
            try:
                rows: Sequence[Row] = jobs[0].by.rows(np.stack([job.image for job in jobs]))
                outcome: Callable[[], None] = partial(_settle, jobs, rows)
            except Exception as error:  # a backbone may be anybody's code
                outcome = partial(_fail, jobs, error)
            self._note(len(jobs), started)
            with suppress(RuntimeError):  # the loop has stopped: nobody waits for the answers
                jobs[0].future.get_loop().call_soon_threadsafe(outcome)

    def _note(self, count: int, started: float) -> None:
        """Count a batch that was answered, and let what waits for it begin."""
        now = time.perf_counter()
        with self._more:
            self._running -= 1
            seconds = max(now - max(started, self._ended), 1e-9)  # another batch may have ended in between
            self._rate += (SMOOTHING if self._rate else 1.0) * (count / seconds - self._rate)
            self._ended = now
            self._more.notify_all()
        self._tell(count, now - started)

    def _may_begin(self) -> bool:
        if not self._jobs:
            return self._closed
        return not self._running or self._jobs[0].by.concurrent

    def _take(self) -> list[_QueuedImage]:
        """The next batch: images for one model, without those whose clients have gone; empty when closed."""
        jobs: list[_QueuedImage] = []
        with self._more:
            while not jobs and self._more.wait_for(self._may_begin) and self._jobs:
                while self._jobs and len(jobs) < self._batch and (not jobs or self._jobs[0].by is jobs[0].by):
                    job = self._jobs.popleft()
                    jobs += [] if job.future.cancelled() else [job]
            self._running += bool(jobs)
        return jobs


def _settle(jobs: Sequence[_QueuedImage], rows: Sequence[Row]) -> None:
    for job, row in zip(jobs, rows, strict=True):
        if not job.future.done():
            job.future.set_result(row)


def _fail(jobs: Sequence[_QueuedImage], error: Exception) -> None:
    for job in jobs:
        if not job.future.done():
            job.future.set_exception(error)
