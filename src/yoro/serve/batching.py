"""Concurrent requests to one forward pass: what comes while a pass runs is the next one."""

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
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from yoro.http.priority import stand_back
from yoro.http.refusals import busy

SHARE = 0.2  # of the newest pass in the rate that waiting clients are told by
LONGEST = 60  # seconds that a client is told to wait at most

Row = TypeVar("Row")
Made = TypeVar("Made", covariant=True)


class Answering(Protocol[Made]):
    """What answers a batch of images: one thing each."""

    def rows(self, images: NDArray[np.uint8]) -> Sequence[Made]:
        """One thing each, in their order."""


@dataclass(frozen=True)
class _Job(Generic[Row]):
    """One image on its way."""

    by: Answering[Row]
    image: NDArray[np.uint8]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Row]


class Batcher(Generic[Row]):
    """A queue of images with an end, and one thread that answers as many of them at a time as there are.

    Nothing waits for a batch to fill: a lone image is answered at once, and under load batches grow by themselves.
    """

    def __init__(self, most_waiting: int, batch: int, tell: Callable[[int, float], None] = lambda *_: None) -> None:
        self.waiting = 0  # images that have room, whether they are decoded yet or not
        self._most, self._batch, self._tell = most_waiting, batch, tell
        self._rate = 0.0  # images a second
        self._jobs: deque[_Job[Row]] = deque()
        self._more = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="yoro-batches", daemon=True)
        self._thread.start()

    @contextmanager
    def room(self, count: int) -> Iterator[None]:
        """Room for so many images until their answers are there; a RefusedError if there is none."""
        if self.waiting + count > self._most:
            raise busy(f"{self.waiting} images are waiting and there is room for {self._most}", self._patience())
        self.waiting += count
        try:
            yield
        finally:
            self.waiting -= count

    async def answer(self, by: Answering[Row], image: NDArray[np.uint8]) -> Row:
        """What `by` answers to an image, together with others."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Row] = loop.create_future()
        job = _Job(by, image, loop, future)
        with self._more:
            self._jobs.append(job)
            self._more.notify()
        return await future

    def close(self) -> None:
        """Answer what is there, and end."""
        with self._more:
            self._closed = True
            self._more.notify()
        self._thread.join()

    def _patience(self) -> int:
        """Seconds until there should be room."""
        return min(LONGEST, max(1, math.ceil(self.waiting / self._rate))) if self._rate else 1

    def _work(self) -> None:
        stand_back()
        while jobs := self._take():
            started = time.perf_counter()
            try:
                rows: Sequence[Row] = jobs[0].by.rows(np.stack([job.image for job in jobs]))
                outcome: Callable[[], None] = partial(_settle, jobs, rows)
            except Exception as error:  # a source is anybody's code
                outcome = partial(_fail, jobs, error)
            seconds = time.perf_counter() - started
            self._rate += (SHARE if self._rate else 1.0) * (len(jobs) / max(seconds, 1e-9) - self._rate)
            self._tell(len(jobs), seconds)
            with suppress(RuntimeError):  # the loop has ended: nobody waits for the answers
                jobs[0].loop.call_soon_threadsafe(outcome)

    def _take(self) -> list[_Job[Row]]:
        """The next batch: jobs for one model, those that nobody waits for any more left out; none at the end."""
        jobs: list[_Job[Row]] = []
        with self._more:
            while not jobs and self._more.wait_for(lambda: self._jobs or self._closed) and self._jobs:
                while self._jobs and len(jobs) < self._batch and (not jobs or self._jobs[0].by is jobs[0].by):
                    job = self._jobs.popleft()
                    jobs += [] if job.future.cancelled() else [job]
        return jobs


def _settle(jobs: Sequence[_Job[Row]], rows: Sequence[Row]) -> None:
    for job, row in zip(jobs, rows, strict=True):
        if not job.future.done():
            job.future.set_result(row)


def _fail(jobs: Sequence[_Job[Row]], error: Exception) -> None:
    for job in jobs:
        if not job.future.done():
            job.future.set_exception(error)
