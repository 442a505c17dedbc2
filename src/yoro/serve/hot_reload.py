"""Hot reload of a model directory that changes while it is served, and feedback that changes it from here."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

import numpy as np

from yoro.data.responses import ResponseBatch
from yoro.errors import InputError, one_line
from yoro.files.atomic import locked
from yoro.model.model import Json
from yoro.model.store import OWN
from yoro.serve.served_model import Answered, Served, open_served

PERIOD = 1.0  # seconds between two checks of the directory

FileStamps = tuple[tuple[str, int, int, int], ...]


class Current:
    """The model in use; a hot reload replaces it in one step."""

    def __init__(self, path: Path, source: str | None = None, device: str = "auto") -> None:
        self.path = path
        self.served: Served
        self.error: str | None = None  # why the model in the directory is not the one in use
        self.tell: Callable[[str], None] = lambda _: None
        self.changed: Callable[[bool], None] = lambda _: None
        self._source, self._device = source, device
        self._stamps = self._stat()
        self.served = open_served(path, source, device)

    def reload_if_changed(self) -> None:
        """Load the directory again if its files have changed; if that fails, the model in use stays."""
        stamps = self._stat()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self.put(self.reopened())
        except Exception as error:  # a backbone may be anybody's code
            self.error = one_line(error)
            self.changed(False)
            self.tell(f"Hot reload failed, the previous model stays in use: {self.error}")

    def put(self, served: Served) -> None:
        """Use another model from now on."""
        self.served, self.error = served, None
        self.changed(True)
        self.tell(f"Model {served.version} is now in use: {len(served.classes):,} classes.")

    def saved(self, served: Served) -> None:
        """Use a model that this process has just written to the directory."""
        self._stamps = self._stat()
        self.put(served)

    def reopened(self) -> Served:
        """The model as it is in the directory now."""
        return open_served(self.path, self._source, self._device, before=self.served)

    def _stat(self) -> FileStamps:
        """Name, inode, time and size of the files of the model, which tell whether it has changed."""
        try:
            with os.scandir(self.path) as entries:
                found = [(entry.name, entry.stat()) for entry in entries if entry.name in OWN]
        except OSError:
            return ()
        return tuple(sorted((name, stat.st_ino, stat.st_mtime_ns, stat.st_size) for name, stat in found))


async def hot_reload(current: Current, executor: Executor) -> None:
    """Check the directory every second, outside the event loop."""
    while True:
        await asyncio.sleep(PERIOD)
        await asyncio.get_running_loop().run_in_executor(executor, current.reload_if_changed)


def add_feedback(current: Current, read_by: Served, images: Sequence[tuple[str, str, Answered]], label: str) -> Json:
    """Add images (name, hex digest, answer) under a label; those already in the model under it are not added again.

    The model is read, changed and written under its lock, so that beside other writers nothing is lost.
    """
    with locked(current.path):
        served = current.reopened()
        if served.classifier.pipeline is not read_by.classifier.pipeline:
            raise InputError("The model was just replaced by one with another backbone. Send the images again.")
        classifier = served.classifier
        sent = {bytes.fromhex(digest): (name, answered) for name, digest, answered in images}
        known = classifier.model.gathered.contains([(content, label) for content in sent])
        new = {content: one for (content, one), there in zip(sent.items(), known, strict=True) if not there}
        if new:
            responses, names = np.stack([one.response for _, one in new.values()]), [name for name, _ in new.values()]
            batch = ResponseBatch(responses, [label] * len(new), None, list(new), names)
            classifier.change("feedback", add=batch, passes=1)
            classifier.save(current.path, force=True)
            served = Served(classifier)
            current.saved(served)
    counts = {"added": len(new), "known": len(images) - len(new), "examples": classifier.model.gathered.images}
    return {**counts, "version": served.version}
