"""Events of many requests at once, written to the journal together: each waits until its own is on the disk."""

from __future__ import annotations

import asyncio

from yoro.sources.endpoint.journal import Event, Journal


class Writer:
    """A journal as coroutines write to it; what comes while one write runs is the next one."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._pending: list[tuple[bytes, Event, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def write(self, request: bytes, event: Event) -> None:
        """Have an event written down; also where whoever asked for it has gone by then."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._pending.append((request, event, done))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_pending())
        await asyncio.shield(done)

    async def _write_pending(self) -> None:
        while self._pending:
            request = self._pending[0][0]
            taken = [item for item in self._pending if item[0] == request]
            self._pending = [item for item in self._pending if item[0] != request]
            failed = None
            try:
                await asyncio.to_thread(self._journal.write, request, [event for _, event, _ in taken])
            except Exception as error:
                failed = error
            for _, _, done in taken:
                if failed is not None:
                    done.set_exception(failed)
                    done.exception()  # seen, though nobody may wait for it any more
                elif not done.done():
                    done.set_result(None)
