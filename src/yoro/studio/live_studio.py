"""The studio while it runs: a workspace, the learner beside it, and the pages that wait for news."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import ParamSpec, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response

from yoro.errors import InputError
from yoro.http.errors import RefusedError
from yoro.http.priority import lower_priority
from yoro.http.uploads import Upload, read_uploads
from yoro.model.pipeline import Pipeline
from yoro.studio.background_learner import Learner
from yoro.studio.edits import Edit
from yoro.studio.incoming_photos import Goal, add_uploads
from yoro.studio.phone import Phone
from yoro.studio.solving import Learned
from yoro.studio.state import State
from yoro.studio.tray import Tray
from yoro.studio.workspace import Workspace

LONG_POLL = 20.0  # seconds that a page waits for news
SETTLING = 120.0  # seconds that a download waits for the photos to be learned
MOST_FILES = 64  # per request
API = "/studio/api"
P = ParamSpec("P")
T = TypeVar("T")


class Studio:
    """A workspace, the learner beside it, and the pages that watch both."""

    def __init__(self, work: Workspace, pipeline: Pipeline) -> None:
        self.work = work
        self.version = 0  # of what a page shows; it grows with every step and everything learned
        self.learner = Learner(work, pipeline, self._changed)
        self.tray = Tray(work, self.learner)
        self.adding = ThreadPoolExecutor(1, "yoro-adding", lower_priority)
        self.answering = ThreadPoolExecutor(2, "yoro-answering", lower_priority)
        self.phone: Phone | None = None
        self.beside: AbstractAsyncContextManager[None] = nullcontext()  # what runs as long as the studio does
        self._shutting_down = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._news = asyncio.Event()  # a new one for every version

    def step(self, make: Callable[[State], Edit]) -> Response:
        """Take a step, and tell everybody."""
        with self.work.lock:
            self.work.do(make(self.work.state))
        return self.stepped(revision=self.work.state.revision)

    def stepped(self, **answer: object) -> Response:
        """Tell everybody that something was edited; the response is `answer`."""
        self._announce()
        self.learner.wake()
        return JSONResponse(answer)

    def shut_down(self) -> None:
        """Let no request wait any longer."""
        self._shutting_down = True
        self._changed()

    async def news(self, after: int) -> int:
        """The version, as soon as it differs from the one that a page has, or after a while (long poll)."""
        await self._wait_until(lambda: self.version != after, LONG_POLL)
        return self.version

    async def settled(self) -> Learned:
        """The classifier of the photos as they are now."""
        if not await self._wait_until(lambda: self.learner.settled == self.work.state.revision, SETTLING):
            raise RefusedError(503, "The photos are still being processed; try again soon.", {"retry-after": "5"})
        if self.learner.learned is None:
            raise InputError(self.learner.said or "There is no classifier yet.")
        return self.learner.learned

    @asynccontextmanager
    async def running(self, _: FastAPI) -> AsyncIterator[None]:
        """Learn in the background until shutdown."""
        self._loop = asyncio.get_running_loop()
        self.learner.start()
        async with self.beside:
            yield
        for pool in (self.adding, self.answering):
            pool.shutdown()
        self.learner.close()

    @staticmethod
    def run(pool: ThreadPoolExecutor, do: Callable[P, T], *args: P.args, **options: P.kwargs) -> Awaitable[T]:
        """Do something outside the event loop."""
        return asyncio.get_running_loop().run_in_executor(pool, partial(do, *args, **options))

    async def add_photos(self, request: Request, goal: Goal) -> Response:
        """Add the photos of a request to a class, or to the classes that their folders name."""
        geometry = self.learner.pipeline.geometry
        try:
            adding = partial(add_uploads, self.work, geometry=geometry, goal=goal)
            added = await self.receive(request, self.adding, adding)
            return JSONResponse(added.to_json())
        finally:
            self.stepped()

    async def receive(
        self, request: Request, pool: ThreadPoolExecutor, do: Callable[[list[Upload]], T], most: int = MOST_FILES
    ) -> T:
        """Do something with the files of a request, outside the event loop."""
        body, kind = await request.body(), request.headers.get("content-type", "")
        return await self.run(pool, lambda: do(read_uploads(body, kind, most)))

    async def _wait_until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait for news until something holds; whether it does in the end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not done() and not self._shutting_down:
                    await self._news.wait()
        return done()

    def _changed(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._announce)

    def _announce(self) -> None:
        self.version += 1
        self._news.set()
        self._news = asyncio.Event()
