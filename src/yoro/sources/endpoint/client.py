"""An asynchronous client of an endpoint: many requests at once, with retries, backoff, a rate limit and a call budget.

Every call is written to the journal before it is sent, and its answer before it is used.
"""

from __future__ import annotations

import asyncio
import random
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import CancelledError
from concurrent.futures import TimeoutError as LateError
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TypeVar

import httpx

from yoro.errors import AnswerError, SourceError, counted
from yoro.sources.endpoint.answer_parsing import excerpt, order_in, parsed, scrubbed, vector_at
from yoro.sources.endpoint.config import EndpointConfig
from yoro.sources.endpoint.connection import HttpResponse, make_clients, request_fields, send_request
from yoro.sources.endpoint.journal import CallEvent, Journal, JournalWriter
from yoro.sources.endpoint.template import Encoded
from yoro.sources.protocol import Responses

GRACE = 3.0  # seconds that pending responses may take after Ctrl-C
FIRST_BACKOFF = 0.25  # seconds, the upper bound before the first retry
LONGEST_BACKOFF = 30.0  # seconds
CLAIM_SPARE = 5.0  # seconds beyond the time limit of a request for which its images are claimed
TAKEN_WAIT = 0.1  # seconds until it is looked again whether another process has an answer
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)  # nothing left this machine
BROKEN = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)

Received = TypeVar("Received")


@dataclass(frozen=True)
class ImageRequest:
    """An image to be sent: its key, its row in the batch, and how to encode it when its turn comes."""

    key: bytes
    row: int
    encode: Callable[[], Encoded]


@dataclass
class CallBudget:
    """How many calls were made, and how many may be; None is no limit."""

    budget: int | None = None
    calls: int = 0

    def take(self) -> None:
        if self.budget is not None and self.calls >= self.budget:
            raise SourceError(f"The budget of {counted(self.budget, 'call')} is spent.")
        self.calls += 1


@dataclass
class _RequestBatch:
    """Requests that were started together: their answers, and the error that stopped them."""

    halt: asyncio.Event = field(default_factory=asyncio.Event)
    answers: dict[bytes, Responses] = field(default_factory=dict)
    error: BaseException | None = None

    def stop(self, error: BaseException | None) -> None:
        """Start no more requests; pending ones may still finish."""
        self.error = self.error or error
        self.halt.set()


class _RetryableError(Exception):
    """An attempt that may be repeated; `wait` is the server's Retry-After, `lost` says that it may have been served."""

    def __init__(self, why: str, wait: float | None = None, *, lost: bool = False) -> None:
        super().__init__(why)
        self.wait, self.lost = wait, lost


class _TakenError(Exception):
    """Another process has claimed all images of a request and is waiting for their answers."""


class EndpointClient:
    """Connections to an endpoint, and an event loop for them in a thread of its own."""

    def __init__(self, config: EndpointConfig, journal: Journal, budget: CallBudget) -> None:
        self.config, self.budget = config, budget
        self.request = b""  # digest of the kind of request, set by the source
        self.width: int | None = None  # of an answer, once it is known
        headers = {name: header.value(name) for name, header in config.headers.items()}
        hidden = [(headers[name], header.text) for name, header in config.headers.items() if header.env]
        self._secrets = [part for value, before in hidden for part in (value, value.removeprefix(before))]
        clients = make_clients(config, headers)
        self._free: asyncio.LifoQueue[httpx.AsyncClient] = asyncio.LifoQueue()
        for client in clients:
            self._free.put_nowait(client)
        self._writer, self._batch, self._random = JournalWriter(journal), _RequestBatch(), random.Random()
        self._next = 0.0  # when the next request may start, by the loop's clock
        self._failing = 0  # attempts of all requests that failed since the last that succeeded
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=_run, args=(self._loop,), name="yoro-endpoint", daemon=True)
        thread.start()
        weakref.finalize(self, _end, self._loop, thread, clients)

    def ask(self, requests: Iterable[ImageRequest]) -> dict[bytes, Responses]:
        """Answers by key. Before a failure is raised, pending answers are awaited and written down."""
        work = asyncio.run_coroutine_threadsafe(self._ask_all(list(requests)), self._loop)
        try:
            return work.result()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(self._batch.stop, None)
            with suppress(Exception):  # too late, or what would have ended it anyway
                work.result(GRACE)
            work.cancel()
            raise

    def describe(self, url: str) -> HttpResponse:
        """The response to a GET, retried like any request; it does not count as a call."""
        get = self._retried(lambda client: self._send(client, "GET", url, {}), _RequestBatch())
        response = asyncio.run_coroutine_threadsafe(get, self._loop).result()
        assert response is not None  # nobody stops this batch
        return response

    async def _ask_all(self, requests: list[ImageRequest]) -> dict[bytes, Responses]:
        batch = self._batch = _RequestBatch()
        self._failing = 0
        size = self.config.images
        parts = [requests[start : start + size] for start in range(0, len(requests), size)]
        tasks = [asyncio.create_task(self._ask_some(part, batch)) for part in parts]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        if batch.error is not None:
            raise batch.error
        return batch.answers

    async def _ask_some(self, requests: list[ImageRequest], batch: _RequestBatch) -> None:
        """Ask about the images of one request, with retries; any other failure stops the batch."""
        rest = requests
        try:
            while rest and not batch.halt.is_set():
                await self._retried(partial(self._call, rest, batch), batch)
                rest = [request for request in rest if request.key not in batch.answers]
        except AnswerError as error:
            row = requests[0].row if error.row is None else error.row
            batch.stop(AnswerError(f"{self.config.shown}: {scrubbed(str(error), self._secrets)}.", row))
        except Exception as error:
            batch.stop(error)

    async def _retried(
        self, attempt: Callable[[httpx.AsyncClient], Awaitable[Received]], batch: _RequestBatch
    ) -> Received | None:
        """The result of the first attempt that succeeds; None if the batch is stopped before.

        What fails every request is given up after as many rounds of them as one request has attempts.
        """
        attempts, failed = self.config.retries + 1, 0
        while True:
            client = await self._free.get()
            try:
                result = await attempt(client)
                self._failing = 0
                return result
            except _TakenError:
                last = None
            except _RetryableError as error:
                last, failed = error, failed + 1
                self._failing += 1
            finally:
                self._free.put_nowait(client)
            if last is None:
                await _sleep(TAKEN_WAIT, batch.halt)
            elif failed >= attempts or self._failing >= attempts * self.config.concurrency:
                times = max(failed, self._failing)
                raise SourceError(f"{self.config.shown} {last}, {counted(times, 'time')} in a row.")
            else:
                await self._back_off(failed, last, batch)
            if batch.halt.is_set():
                return None

    async def _may_start(self, batch: _RequestBatch) -> bool:
        """Wait for the rate limit and take a call from the budget; False if the batch is stopped meanwhile."""
        loop = asyncio.get_running_loop()
        while not batch.halt.is_set() and (wait := self._next - loop.time()) > 0:
            await _sleep(wait, batch.halt)
        if batch.halt.is_set():
            return False
        self.budget.take()
        if self.config.rate is not None:
            self._next = max(self._next, loop.time()) + 1.0 / self.config.rate
        return True

    async def _back_off(self, attempts: int, failed: _RetryableError, batch: _RequestBatch) -> None:
        """Wait before the next attempt; a longer Retry-After of the server is obeyed up to `longest_wait`."""
        if failed.wait is not None and failed.wait > self.config.longest_wait:
            asked = f"asks us to wait {failed.wait:,.0f} s, more than the {self.config.longest_wait:g} of longest_wait"
            raise SourceError(f"{self.config.shown} {failed} and {asked}.")
        rounds = self._failing // self.config.concurrency
        together = backoff(rounds - 1, self._random) if rounds else 0.0
        held = max(failed.wait or 0.0, together)  # for all requests
        self._next = max(self._next, asyncio.get_running_loop().time() + held)
        await _sleep(backoff(attempts - 1, self._random), batch.halt)

    async def _call(self, requests: list[ImageRequest], batch: _RequestBatch, client: httpx.AsyncClient) -> None:
        """One call for images that no other process asks about, in the journal before it is sent and once answered."""
        if not await self._may_start(batch):
            return
        mine = await self._claimed(requests, batch)
        if not mine:
            self.budget.calls -= 1  # nothing is sent
            if all(request.key in batch.answers for request in requests):
                return
            raise _TakenError
        images = [await asyncio.to_thread(request.encode) for request in mine]
        fields = request_fields(self.config, [request.key for request in mine], images)
        try:
            response = await self._send(client, self.config.method, self.config.address, fields)
            vectors = self._vectors(response, mine)
        except (_RetryableError, SourceError) as error:
            if not (isinstance(error, _RetryableError) and error.lost):
                await asyncio.gather(
                    *(self._writer.write(self.request, CallEvent(request.key, failed=True)) for request in mine)
                )
            raise
        answers = {request.key: vector for request, vector in zip(mine, vectors, strict=True)}
        await asyncio.gather(
            *(self._writer.write(self.request, CallEvent(key, vector=vector)) for key, vector in answers.items())
        )
        batch.answers |= answers

    async def _claimed(self, requests: list[ImageRequest], batch: _RequestBatch) -> list[ImageRequest]:
        """The images that this process is to send now; answers that another has are taken from the journal."""
        seconds = self.config.timeout + CLAIM_SPARE
        events = [CallEvent(request.key, seconds=seconds) for request in requests]
        outcomes = await asyncio.gather(*(self._writer.write(self.request, event) for event in events))
        for request, outcome in zip(requests, outcomes, strict=True):
            if outcome is not None and outcome.vector is not None:
                batch.answers[request.key] = outcome.vector
        return [request for request, outcome in zip(requests, outcomes, strict=True) if outcome is None]

    async def _send(
        self, client: httpx.AsyncClient, method: str, url: str, fields: Mapping[str, object]
    ) -> HttpResponse:
        """One exchange; a failure that a retry may cure is a `_RetryableError`."""
        try:
            response = await send_request(client, method, url, self.config.timeout, fields)
        except UNSENT as error:
            raise _RetryableError(f"cannot be reached ({self._why(error)})") from None
        except BROKEN as error:
            raise _RetryableError(f"gave no answer ({self._why(error)})", lost=True) from None
        except httpx.HTTPError as error:
            raise SourceError(f"{self.config.shown} could not be called: {self._why(error)}.") from None
        if is_retryable(response.status):
            said = f"answered {response.status}: {excerpt(response.content, self._secrets)}"
            raise _RetryableError(said, retry_after(response.headers))
        return response

    def _vectors(self, response: HttpResponse, requests: list[ImageRequest]) -> list[Responses]:
        """The vectors in a response, one an image; redirects and other statuses than 2xx are errors."""
        if 300 <= response.status < 400:
            to = scrubbed(response.headers.get("location", "nowhere"), self._secrets).partition("?")[0][:200]
            raise SourceError(
                f"{self.config.shown} redirects to {to!r} ({response.status}). Redirects are not followed: what "
                "is sent is for the host you named. If you trust the other one, use it as the url."
            )
        if not 200 <= response.status < 300:
            said = excerpt(response.content, self._secrets)
            raise SourceError(f"{self.config.shown} answered {response.status}: {said}.")
        value, listed, vectors = parsed(response.content), self.config.listed, list[Responses]()
        order = [0] if listed is None else order_in(value, listed, len(requests))
        for number, request in zip(order, requests, strict=True):
            try:
                vectors.append(vector_at(value, self.config.place_of(number), self.width))
            except AnswerError as error:
                raise AnswerError(str(error), request.row) from None
            self.width = len(vectors[-1])
        return vectors

    def _why(self, error: Exception) -> str:
        return scrubbed(" ".join(str(error).split())[:200], self._secrets) or type(error).__name__


async def _sleep(seconds: float, halt: asyncio.Event) -> None:
    """Sleep, at most until the batch is stopped."""
    with suppress(TimeoutError):
        await asyncio.wait_for(halt.wait(), seconds)


def _end(loop: asyncio.AbstractEventLoop, thread: threading.Thread, clients: list[httpx.AsyncClient]) -> None:
    """Close the connections and end the thread."""

    async def close() -> None:
        for client in clients:
            await client.aclose()

    with suppress(LateError, CancelledError, RuntimeError):
        closing = asyncio.run_coroutine_threadsafe(close(), loop)
        if threading.current_thread() is not thread:  # which collects garbage, too, and cannot wait for itself
            closing.result(GRACE)
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(loop.stop)
    if threading.current_thread() is not thread:
        thread.join(GRACE)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Run a loop until it is stopped; whoever stops it may be gone before it ends, so it is closed here."""
    try:
        loop.run_forever()
    finally:
        loop.close()


def is_retryable(status: int) -> bool:
    """Whether the same request may succeed later: timeouts, rate limits and server errors.

    >>> [status for status in (200, 301, 400, 401, 404, 408, 422, 429, 500, 503) if is_retryable(status)]
    [408, 429, 500, 503]
    """
    return status in (408, 429) or 500 <= status < 600


def backoff(attempt: int, generator: random.Random) -> float:
    """Seconds before the next attempt: uniform from zero to a bound that doubles with every attempt ("full jitter").

    So clients that failed together do not come back together.
    """
    return generator.uniform(0.0, min(LONGEST_BACKOFF, FIRST_BACKOFF * 2.0 ** min(attempt, 16)))


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that a server asks us to wait by its Retry-After header; None without one in a known form.

    >>> retry_after({"retry-after": "7"}), retry_after({}), retry_after({"retry-after": "soon"})
    (7.0, None, None)
    """
    given = headers.get("retry-after", "").strip()
    if given.isascii() and given.isdigit() and len(given) < 10:
        return float(given)
    try:
        until = parsedate_to_datetime(given)
    except (ValueError, TypeError, IndexError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return max(0.0, (until - (now or datetime.now(UTC))).total_seconds())
