"""Asking an endpoint about many images at once, each answer written down before it counts."""

from __future__ import annotations

import asyncio
import random
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as LateError
from contextlib import suppress
from dataclasses import dataclass, field

import httpx

from yoro.errors import AnswerError, SourceError, counted
from yoro.sources.endpoint.answer_parsing import excerpt, scrubbed, vector_in
from yoro.sources.endpoint.config import EndpointConfig
from yoro.sources.endpoint.connection import Answer, exchanged, make_clients, request_fields
from yoro.sources.endpoint.journal import Event, Journal
from yoro.sources.endpoint.retry import asked_to_wait, passing, pause
from yoro.sources.endpoint.template import Encoded
from yoro.sources.endpoint.writing import Writer
from yoro.sources.protocol import Responses

GRACE = 3.0  # seconds that answers on their way may take after Ctrl-C
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)  # nothing left this machine
BROKEN = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)


@dataclass(frozen=True)
class Question:
    """An image to be asked about: its key, its place in the batch, and how it is encoded when its turn comes."""

    key: bytes
    row: int
    encode: Callable[[], Encoded]


@dataclass
class Spent:
    """What a run has used of its budget of requests; None is no budget."""

    budget: int | None = None
    calls: int = 0

    def one_more(self) -> bool:
        """Take one, if there is one left."""
        if self.budget is not None and self.calls >= self.budget:
            return False
        self.calls += 1
        return True


@dataclass
class _Batch:
    """Questions that are asked together: what was answered, and what ended it early."""

    halt: asyncio.Event = field(default_factory=asyncio.Event)
    answers: dict[bytes, Responses] = field(default_factory=dict)
    error: BaseException | None = None

    def stop(self, error: BaseException | None) -> None:
        """Begin nothing new; what is on its way may still come."""
        self.error = self.error or error
        self.halt.set()


class _FailedError(Exception):
    """An attempt that may be made again, after a while."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


class Asker:
    """A connection to an endpoint, with an event loop in a thread of its own, a rate, a budget and a journal."""

    def __init__(self, config: EndpointConfig, journal: Journal, spent: Spent) -> None:
        self.config, self.spent = config, spent
        self.request = b""  # which kind of request its calls are, once the source knows
        self.width: int | None = None  # that an answer must have, once it is known
        headers = {name: header.value(name) for name, header in config.headers.items()}
        hidden = [(headers[name], header.text) for name, header in config.headers.items() if header.env]
        self._secrets = [part for value, before in hidden for part in (value, value.removeprefix(before))]
        clients = make_clients(config, headers)
        self._free: asyncio.LifoQueue[httpx.AsyncClient] = asyncio.LifoQueue()
        for client in clients:
            self._free.put_nowait(client)
        self._writer, self._batch, self._draw = Writer(journal), _Batch(), random.Random()
        self._next = 0.0  # when the next request may begin, by the loop's clock
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="yoro-endpoint", daemon=True)
        thread.start()
        weakref.finalize(self, _end, self._loop, thread, clients)

    def ask(self, questions: Iterable[Question]) -> dict[bytes, Responses]:
        """Answers by key. If one cannot be had, those on their way are written down, and then it is an error."""
        work = asyncio.run_coroutine_threadsafe(self._ask_all(list(questions)), self._loop)
        try:
            return work.result()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(self._batch.stop, None)
            with suppress(Exception):  # too late, or what would have ended it anyway
                work.result(GRACE)
            work.cancel()
            raise

    def describe(self, url: str) -> Answer:
        """What a GET of an address gives; it is tried again as every request is, and is no call."""
        return asyncio.run_coroutine_threadsafe(self._described(url), self._loop).result()

    def scrub(self, text: str) -> str:
        """A text without credentials."""
        return scrubbed(text, self._secrets)

    async def _ask_all(self, questions: list[Question]) -> dict[bytes, Responses]:
        batch = self._batch = _Batch()
        tasks = [asyncio.create_task(self._ask_one(question, batch)) for question in questions]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        if batch.error is not None:
            raise batch.error
        return batch.answers

    async def _ask_one(self, question: Question, batch: _Batch) -> None:
        """Ask until there is an answer or no hope; whatever goes wrong ends the batch."""
        try:
            for attempt in range(self.config.retries + 1):
                client = await self._free.get()
                try:
                    if not await self._turn(batch):
                        return
                    batch.answers[question.key] = await self._attempt(question, client)
                    return
                except _FailedError as failed:
                    last = failed
                finally:
                    self._free.put_nowait(client)
                if attempt < self.config.retries:
                    await self._rest(pause(attempt, self._draw), last, batch)
                if batch.halt.is_set():
                    return
            batch.stop(SourceError(f"{self.config.shown} {last}, {counted(self.config.retries + 1, 'time')} in a row."))
        except AnswerError as error:
            batch.stop(AnswerError(f"{self.config.shown}: {self.scrub(str(error))}.", question.row))
        except Exception as error:
            batch.stop(error)

    async def _turn(self, batch: _Batch) -> bool:
        """Wait for the rate; whether there is something left of the budget, and nobody has stopped us."""
        loop = asyncio.get_running_loop()
        while not batch.halt.is_set() and (wait := self._next - loop.time()) > 0:
            await _sleep(wait, batch.halt)
        if batch.halt.is_set():
            return False
        if not self.spent.one_more():
            batch.stop(SourceError(f"The budget of {counted(self.spent.budget or 0, 'call')} is spent."))
            return False
        if self.config.rate is not None:
            self._next = max(self._next, loop.time()) + 1.0 / self.config.rate
        return True

    async def _rest(self, wait: float, failed: _FailedError, batch: _Batch) -> None:
        """Wait before the next attempt; a server that asks for longer is obeyed, within bounds."""
        if failed.wait is not None and failed.wait > self.config.longest_wait:
            asked = f"asks us to wait {failed.wait:,.0f} s, more than the {self.config.longest_wait:g} of longest_wait"
            batch.stop(SourceError(f"{self.config.shown} {failed} and {asked}."))
            return
        if failed.wait is not None:  # for all requests: the next would be told the same
            self._next = max(self._next, asyncio.get_running_loop().time() + failed.wait)
        await _sleep(wait, batch.halt)

    async def _attempt(self, question: Question, client: httpx.AsyncClient) -> Responses:
        """One request, written down before and after."""
        key = question.key
        sent = request_fields(self.config, key, await asyncio.to_thread(question.encode))
        await self._writer.write(self.request, Event(key))
        try:
            vector = self._vector(await self._exchange(client, self.config.method, self.config.address, sent))
        except UNSENT as error:
            await self._writer.write(self.request, Event(key, failed=True))
            raise _FailedError(f"cannot be reached ({self._why(error)})") from None
        except BROKEN as error:  # nobody knows whether it was answered
            raise _FailedError(f"gave no answer ({self._why(error)})") from None
        except (_FailedError, SourceError):  # it was answered, but with no vector
            await self._writer.write(self.request, Event(key, failed=True))
            raise
        except httpx.HTTPError as error:
            await self._writer.write(self.request, Event(key, failed=True))
            raise SourceError(f"{self.config.shown} cannot be asked: {self._why(error)}.") from None
        await self._writer.write(self.request, Event(key, vector=vector))
        return vector

    def _exchange(
        self, client: httpx.AsyncClient, method: str, url: str, sent: Mapping[str, object]
    ) -> Coroutine[object, object, Answer]:
        return exchanged(client, method, url, self.config.timeout, sent)

    def _vector(self, answer: Answer) -> Responses:
        """The vector of an answer; an error if it holds none, and one of its own if it may another time."""
        if passing(answer.status):
            said = excerpt(answer.content, self._secrets)
            raise _FailedError(f"answered {answer.status}: {said}", asked_to_wait(answer.headers))
        self._refuse(answer)
        vector = vector_in(answer.content, self.config.place, self.width)
        self.width = len(vector)
        return vector

    def _refuse(self, answer: Answer) -> None:
        """An error for every status that is no success and does not pass."""
        if 300 <= answer.status < 400:
            to = self.scrub(answer.headers.get("location", "nowhere")).partition("?")[0][:200]
            raise SourceError(
                f"{self.config.shown} redirects to {to!r} ({answer.status}), which is not followed: what is sent is "
                "for the host that you named. If you trust the other one, name it as the url."
            )
        if not 200 <= answer.status < 300:
            raise SourceError(
                f"{self.config.shown} answered {answer.status}: {excerpt(answer.content, self._secrets)}."
            )

    async def _described(self, url: str) -> Answer:
        client = await self._free.get()
        try:
            for attempt in range(self.config.retries + 1):
                try:
                    answer = await self._exchange(client, "GET", url, {})
                    if not passing(answer.status):
                        return answer
                    failed, wait = f"answered {answer.status}", asked_to_wait(answer.headers) or 0.0
                except BROKEN as error:
                    failed, wait = f"cannot be reached ({self._why(error)})", 0.0
                except httpx.HTTPError as error:
                    raise SourceError(f"{self.config.shown} cannot be asked: {self._why(error)}.") from None
                if attempt < self.config.retries:
                    await asyncio.sleep(min(self.config.longest_wait, max(wait, pause(attempt, self._draw))))
        finally:
            self._free.put_nowait(client)
        raise SourceError(f"{self.config.shown} {failed}, {counted(self.config.retries + 1, 'time')} in a row.")

    def _why(self, error: Exception) -> str:
        return self.scrub(" ".join(str(error).split())[:200]) or type(error).__name__


async def _sleep(seconds: float, halt: asyncio.Event) -> None:
    """Sleep, or less if it is all over."""
    with suppress(TimeoutError):
        await asyncio.wait_for(halt.wait(), seconds)


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread, clients: list[httpx.AsyncClient]) -> None:
    """Close the connections, and end the thread."""

    async def close() -> None:
        for client in clients:
            await client.aclose()

    with suppress(LateError, CancelledError, RuntimeError):
        asyncio.run_coroutine_threadsafe(close(), loop).result(GRACE)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(GRACE)
    if not thread.is_alive():
        loop.close()
