"""Idempotency keys: a client that lost a response retries with the same key, and gets it without new work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from hashlib import blake2b

from yoro.http.errors import RefusedError
from yoro.limits import MB

HEADER = "idempotency-key"
LONGEST_KEY = 255  # characters
MOST_KEPT = 4096  # responses
MOST_BYTES = 64 * MB  # of all responses that are kept
SECONDS = 3600.0  # that a response is kept


@dataclass(frozen=True)
class _Kept:
    """A request by the digest of its body, and its response, which may still be in the making."""

    body: bytes
    answer: asyncio.Task[str]
    until: float


class IdempotentResponses:
    """The responses of the last hour by idempotency key, within bounds; failures are not kept."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._bytes = 0
        self._sizes: dict[str, int] = {}

    async def answer(self, key: str, body: bytes, make: Callable[[], Coroutine[None, None, str]]) -> tuple[str, bool]:
        """The response to a request, and whether it is a replay; without a key it is always computed."""
        if not key:
            return await make(), False
        if len(key) > LONGEST_KEY:
            raise RefusedError(422, f"The idempotency key has {len(key)} characters; the limit is {LONGEST_KEY}.")
        digest = blake2b(body).digest()
        self._evict()
        known = self._kept.get(key)
        if known is None:
            known = _Kept(digest, asyncio.create_task(make()), time.monotonic() + SECONDS)
            self._kept[key] = known
            known.answer.add_done_callback(lambda task: self._settle(key, task))
            return await asyncio.shield(known.answer), False
        if known.body != digest:
            raise RefusedError(422, "This idempotency key was used with another body; use a new key for a new request.")
        return await asyncio.shield(known.answer), True

    def _settle(self, key: str, task: asyncio.Task[str]) -> None:
        """Count the bytes of what is kept; a failed request may be retried."""
        if task.cancelled() or task.exception() is not None:
            self._kept.pop(key, None)
            return
        self._sizes[key] = len(task.result())
        self._bytes += self._sizes[key]
        self._evict()

    def _evict(self) -> None:
        """Evict what is too old or too much, the oldest first."""
        while self._kept:
            key, oldest = next(iter(self._kept.items()))
            full = len(self._kept) > MOST_KEPT or self._bytes > MOST_BYTES
            if not oldest.answer.done() or not (full or oldest.until < time.monotonic()):
                return
            del self._kept[key]
            self._bytes -= self._sizes.pop(key, 0)
