"""A model directory that changes while it is served: taken up whole, or reported and left."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path

from yoro.errors import one_line
from yoro.model.store import OWN
from yoro.serve.served_model import Served, open_served

PERIOD = 1.0  # seconds between two looks

Seen = tuple[tuple[str, int, int, int], ...]


class Current:
    """The state of the model that answers now; another takes its place in one step."""

    def __init__(self, path: Path, source: str | None = None, device: str = "auto") -> None:
        self.path = path
        self.served: Served
        self.error: str | None = None  # why what lies in the directory is not the one that answers
        self.tell: Callable[[str], None] = lambda _: None
        self.changed: Callable[[bool], None] = lambda _: None
        self._source, self._device = source, device
        self._seen = self._look()
        self.served = open_served(path, source, device)

    def take_up(self) -> None:
        """Read the directory if it has changed since; a model that cannot be used leaves the one before in place."""
        seen = self._look()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.put(open_served(self.path, self._source, self._device, before=self.served))
        except Exception as error:  # a source is anybody's code
            self.error = one_line(error)
            self.changed(False)
            self.tell(f"The changed model is not taken up, and the one before stays: {self.error}")

    def put(self, served: Served) -> None:
        """Have another model answer from now on."""
        self.served, self.error = served, None
        self.changed(True)
        self.tell(f"Model {served.version} answers now: {len(served.classes):,} classes.")

    def saved(self, served: Served) -> None:
        """The same for one that was just written to the directory by ourselves."""
        self._seen = self._look()
        self.put(served)

    def reopened(self) -> Served:
        """The model as it lies in the directory now."""
        return open_served(self.path, self._source, self._device, before=self.served)

    def _look(self) -> Seen:
        """Which files the directory holds now, as far as a look from outside tells."""
        try:
            with os.scandir(self.path) as entries:
                found = [(entry.name, entry.stat()) for entry in entries if entry.name in OWN]
        except OSError:
            return ()
        return tuple(sorted((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in found))


async def watch(current: Current, executor: Executor) -> None:
    """Look again and again, beside the event loop."""
    while True:
        await asyncio.sleep(PERIOD)
        await asyncio.get_running_loop().run_in_executor(executor, current.take_up)
