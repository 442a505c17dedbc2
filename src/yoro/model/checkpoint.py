"""A checkpoint of a pass: what was gathered so far, on disk, for a run to resume from."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from yoro.data.examples import Example, Later, Member
from yoro.errors import StoreError
from yoro.files.atomic import drafted_folder, write_file
from yoro.model.gathered import Gathered

NAME = "gathered.stats"
SECONDS_BETWEEN = 5.0  # checkpoints; more if writing one takes long
SHARE_OF_TIME = 0.02  # at most this much of the time goes into checkpoints


class Checkpoint:
    """A folder beside the output that holds what was gathered so far; it fits one run only, by its fingerprint."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        self.folder = folder
        self._fingerprint = fingerprint
        self._done = 0  # examples dealt with before this stream
        self._next = time.monotonic() + SECONDS_BETWEEN
        self._last = -1

    @property
    def used(self) -> bool:
        """Whether this run has been long enough to be kept."""
        return self._last >= 0

    def write_if_due(self, gathered: Gathered, done: int, skipped: list[tuple[str, str]]) -> None:
        """Write if the last one is long enough ago."""
        if time.monotonic() >= self._next:
            self.write(gathered, done, skipped)

    def write(self, gathered: Gathered, done: int, skipped: list[tuple[str, str]]) -> None:
        """Write what was gathered, how many examples of the stream that was, and what was skipped; atomically.

        A full disk must not end a pass that goes well: the pass continues with a warning.
        """
        position = self._done + done
        if position == self._last or not gathered.images:
            return
        started = time.monotonic()
        try:
            whole = replace(gathered, skipped=gathered.skipped + skipped)
            content = whole.to_bytes({"fingerprint": self._fingerprint, "position": position})
            with drafted_folder(self.folder) as draft:
                write_file(draft / NAME, content)
            self._last = position
        except (StoreError, OSError) as error:
            warnings.warn(f"No checkpoint could be written ({error}); continuing without one.", stacklevel=2)
        took = time.monotonic() - started
        self._next = time.monotonic() + max(SECONDS_BETWEEN, took / SHARE_OF_TIME)

    def read(self) -> tuple[Gathered, int] | None:
        """What an earlier run gathered and how many examples it dealt with; None if there is nothing."""
        file = self.folder / NAME
        if not file.is_file():
            return None
        try:
            gathered, facts, _ = Gathered.from_bytes(file.read_bytes(), str(file))
            self._done = int(str(facts["position"]))
        except (KeyError, ValueError, OSError) as error:
            raise StoreError(f"{self.folder} is damaged ({error}). Fit without --resume to start over.") from error
        if facts.get("fingerprint") != self._fingerprint:
            raise StoreError(
                f"{self.folder} belongs to another run: other images, settings or source. "
                "Fit without --resume to start over."
            )
        return gathered, self._done


def fingerprint(examples: Sequence[Example], settings: Mapping[str, object]) -> str:
    """Digest of everything that the outcome of a pass depends on; files by name, size and time."""
    hasher = hashlib.sha256(json.dumps(dict(settings), sort_keys=True, default=str).encode())
    for example in examples:
        stamp: object = None
        with suppress(OSError, ValueError):  # an unreachable file counts by its name only
            if isinstance(example.image, Path):
                found = example.image.stat()
                stamp = found.st_size, found.st_mtime_ns
            elif isinstance(example.image, Member):
                stamp = example.image.size, example.image.offset, example.image.checksum
            elif isinstance(example.image, Later):
                stamp = example.image.stamp
        hasher.update(json.dumps([example.name, example.label, example.group, stamp]).encode())
    return hasher.hexdigest()
