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
from typing import TypeVar

import httpx

from yoro import limits
from yoro.environment import __version__
from yoro.errors import AnswerError, SourceError, counted
from yoro.sources.contract import Responses
from yoro.sources.endpoint.answers import excerpt, scrubbed, vector_in
from yoro.sources.endpoint.config import EndpointConfig
from yoro.sources.endpoint.journal import Event, Journal
from yoro.sources.endpoint.retry import asked_to_wait, passing, pause
from yoro.sources.endpoint.template import Encoded, filled

GRACE = 3.0  # seconds that answers on their way may take after Ctrl-C
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)  # nothing left this machine
BROKEN = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)
T = TypeVar("T")


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

    halt: asyncio.Event
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

    def __init__(self, config: EndpointConfig, journal: Journal, request: bytes, spent: Spent) -> None:
        self.config, self.journal, self.request, self.spent = config, journal, request, spent
        self.width: int | None = None  # that an answer must have, once it is known
        own = {name: header.value(name) for name, header in config.headers.items()}
        self._secrets = [own[name] for name, header in config.headers.items() if header.env]
        self._secrets += [own[name][len(header.text) :] for name, header in config.headers.items() if header.env]
        self._headers = {
            "user-agent": f"yoro/{__version__}",
            "accept": "application/json",
            "accept-encoding": "identity",
        }
        self._headers |= own
        self._draw = random.Random()
        self._loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self._loop.run_forever, name="yoro-endpoint", daemon=True)
        thread.start()
        weakref.finalize(self, _end, self._loop, thread, self._run(self._connected()))

    def ask(self, questions: Iterable[Question]) -> dict[bytes, Responses]:
        """Answers by key. If one cannot be had, those on their way are written down, and then it is an error."""
        work = asyncio.run_coroutine_threadsafe(self._ask_all(list(questions)), self._loop)
        try:
            return work.result()
        except KeyboardInterrupt:
            self._loop.call_soon_threadsafe(self._batch.stop, None)
            with suppress(LateError, CancelledError, SourceError):
                work.result(GRACE)
            work.cancel()
            raise

    def describe(self, url: str) -> tuple[int, bytes]:
        """What a GET of an address gives; it is tried again as every request is, and is no call."""
        return self._run(self._described(url))

    def scrub(self, text: str) -> str:
        """A text without credentials."""
        return scrubbed(text, self._secrets)

    def _run(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _connected(self) -> list[httpx.AsyncClient]:
        """A client a connection: one pool of many would look through all of them for each request.

        They follow no redirect, and ask no environment for proxies or passwords.
        """
        self._free: asyncio.LifoQueue[httpx.AsyncClient] = asyncio.LifoQueue()
        self._batch = _Batch(asyncio.Event())
        self._next = 0.0  # when the next request may begin, by the loop's clock
        self._pending: list[tuple[Event, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        trusted = httpx.create_ssl_context(trust_env=False)
        clients = [
            httpx.AsyncClient(
                timeout=self.config.timeout, verify=trusted, trust_env=False, follow_redirects=False,
                headers=self._headers, limits=httpx.Limits(max_connections=1),
            )
            for _ in range(self.config.concurrency)
        ]  # fmt: skip
        for client in clients:
            self._free.put_nowait(client)
        return clients

    async def _ask_all(self, questions: list[Question]) -> dict[bytes, Responses]:
        batch = self._batch = _Batch(asyncio.Event())
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
        sent = await asyncio.to_thread(self._fields, question)
        await self._write(Event(key))
        try:
            answer = await self._exchange(client, self.config.method, self.config.address, sent)
            vector = self._vector(*answer)
        except UNSENT as error:
            await self._write(Event(key, failed=True))
            raise _FailedError(f"cannot be reached ({self._why(error)})") from None
        except BROKEN as error:  # nobody knows whether it was answered
            raise _FailedError(f"gave no answer ({self._why(error)})") from None
        except (_FailedError, SourceError):  # it was answered, but with no vector
            await self._write(Event(key, failed=True))
            raise
        except httpx.HTTPError as error:
            await self._write(Event(key, failed=True))
            raise SourceError(f"{self.config.shown} cannot be asked: {self._why(error)}.") from None
        await self._write(Event(key, vector=vector))
        return vector

    def _fields(self, question: Question) -> dict[str, object]:
        """What httpx is given: headers and a body."""
        image, config = question.encode(), self.config
        named = {"idempotency-key": question.key.hex()}
        if config.body is not None:
            return {"json": filled(config.body, image.values), "headers": named}
        if config.form is not None:
            ending = image.media_type.partition("/")[2]
            return {"files": {config.form: (f"image.{ending}", image.content, image.media_type)}, "headers": named}
        return {"content": image.content, "headers": named | {"content-type": image.media_type}}

    async def _exchange(
        self, client: httpx.AsyncClient, method: str, url: str, sent: dict[str, object]
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Status, headers and body of an answer, none of it longer than it may be; as a whole within the time-out."""
        try:
            async with (
                asyncio.timeout(self.config.timeout),
                client.stream(method, url, **sent) as answer,  # type: ignore[arg-type]
            ):
                content = bytearray()
                if answer.headers.get("content-encoding", "identity") != "identity":
                    raise AnswerError("the answer came compressed, which was not asked for")
                async for part in answer.aiter_raw():
                    content += part
                    if len(content) > limits.ENDPOINT_ANSWER_BYTES:
                        raise AnswerError(f"the answer has more than {limits.ENDPOINT_ANSWER_BYTES:,} bytes")
                return answer.status_code, answer.headers, bytes(content)
        except TimeoutError:
            raise httpx.ReadTimeout(f"nothing whole within {self.config.timeout:g} s") from None

    def _vector(self, status: int, headers: Mapping[str, str], content: bytes) -> Responses:
        if passing(status):
            raise _FailedError(f"answered {status}: {excerpt(content, self._secrets)}", asked_to_wait(headers))
        self._refuse(status, headers, content)
        vector = vector_in(content, self.config.place, self.width)
        self.width = len(vector)
        return vector

    def _refuse(self, status: int, headers: Mapping[str, str], content: bytes) -> None:
        """An error for every status that is no success and does not pass."""
        if 300 <= status < 400:
            to = self.scrub(headers.get("location", "nowhere")).partition("?")[0][:200]
            raise SourceError(
                f"{self.config.shown} redirects to {to!r} ({status}), which is not followed: what is sent is for the "
                "host that you named. If you trust the other one, name it as the url."
            )
        if not 200 <= status < 300:
            raise SourceError(f"{self.config.shown} answered {status}: {excerpt(content, self._secrets)}.")

    async def _described(self, url: str) -> tuple[int, bytes]:
        client = await self._free.get()
        try:
            return await self._got(client, url)
        finally:
            self._free.put_nowait(client)

    async def _got(self, client: httpx.AsyncClient, url: str) -> tuple[int, bytes]:
        for attempt in range(self.config.retries + 1):
            try:
                status, headers, content = await self._exchange(client, "GET", url, {})
                if not passing(status):
                    return status, content
                failed = f"answered {status}"
                wait = asked_to_wait(headers) or 0.0
            except BROKEN as error:
                failed, wait = f"cannot be reached ({self._why(error)})", 0.0
            except httpx.HTTPError as error:
                raise SourceError(f"{self.config.shown} cannot be asked: {self._why(error)}.") from None
            if attempt < self.config.retries:
                await asyncio.sleep(min(self.config.longest_wait, max(wait, pause(attempt, self._draw))))
        raise SourceError(f"{self.config.shown} {failed}, {counted(self.config.retries + 1, 'time')} in a row.")

    async def _write(self, event: Event) -> None:
        """Have an event written down, together with others that come meanwhile; returns when it is on the disk."""
        done = asyncio.get_running_loop().create_future()
        self._pending.append((event, done))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_pending())
        await asyncio.shield(done)

    async def _write_pending(self) -> None:
        while self._pending:
            taken, self._pending = self._pending, []
            try:
                await asyncio.to_thread(self.journal.write, self.request, [event for event, _ in taken])
                failed = None
            except Exception as error:
                failed = error
            for _, done in taken:
                if done.cancelled():
                    continue
                if failed is None:
                    done.set_result(None)
                else:
                    done.set_exception(failed)

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
