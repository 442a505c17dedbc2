"""Requests that come again: a client that lost an answer asks with the same key, and gets it without new work."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from hashlib import blake2b

from yoro.http.refusals import RefusedError
from yoro.limits import MB

KEY = "idempotency-key"  # the header
LONGEST_KEY = 255  # characters
MOST = 4096  # answers that are remembered
MOST_BYTES = 64 * MB  # of them together
SECONDS = 3600.0  # that an answer is remembered


@dataclass(frozen=True)
class _Kept:
    """A request by its content, and its answer or what will be one."""

    content: bytes
    answer: asyncio.Task[str]
    until: float


class Repeated:
    """The answers of the last hour by their keys, within bounds; failures are not remembered."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._bytes = 0
        self._sizes: dict[str, int] = {}

    async def answer(self, key: str, body: bytes, make: Callable[[], Awaitable[str]]) -> tuple[str, bool]:
        """The answer to a request, and whether it was there before; without a key it is made anew."""
        if not key:
            return await make(), False
        if len(key) > LONGEST_KEY:
            raise RefusedError(422, f"The idempotency key has {len(key)} characters; at most {LONGEST_KEY} are taken.")
        content = blake2b(body).digest()
        self._forget()
        known = self._kept.get(key)
        if known is None:
            known = _Kept(content, asyncio.ensure_future(_made(make)), time.monotonic() + SECONDS)
            self._kept[key] = known
            known.answer.add_done_callback(lambda task: self._settle(key, task))
            return await asyncio.shield(known.answer), False
        if known.content != content:
            raise RefusedError(422, "The idempotency key came before with another body; a key stands for one request.")
        return await asyncio.shield(known.answer), True

    def _settle(self, key: str, task: asyncio.Task[str]) -> None:
        """Count what is remembered; what failed may be tried again."""
        if task.cancelled() or task.exception() is not None:
            self._kept.pop(key, None)
            return
        self._sizes[key] = len(task.result())
        self._bytes += self._sizes[key]
        self._forget()

    def _forget(self) -> None:
        """Let go of what is too old or too much, the oldest first."""
        while self._kept:
            key, oldest = next(iter(self._kept.items()))
            full = len(self._kept) > MOST or self._bytes > MOST_BYTES
            if not oldest.answer.done() or not (full or oldest.until < time.monotonic()):
                return
            del self._kept[key]
            self._bytes -= self._sizes.pop(key, 0)


async def _made(make: Callable[[], Awaitable[str]]) -> str:
    return await make()
