"""One pass over a stream: statistics, reservoir and ledger, with checkpoints to go on from after a kill."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from yoro.data.duplicates import Duplicates, find_duplicates
from yoro.data.examples import Example
from yoro.data.responses import ResponseBatch
from yoro.data.streams import ResponseStream
from yoro.discriminant.reservoir import Reservoir
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import StoreError, YoroError
from yoro.files.atomic import drafted_folder, write_file
from yoro.files.tensors import read_tensors, write_tensors
from yoro.model.ledger import Ledger

KIND = "yoro-checkpoint"
TOGETHER = 256  # responses that go into the statistics at once; a kill costs at most their forward passes
SECONDS_BETWEEN = 5.0  # checkpoints; more if writing one takes long
SHARE_OF_TIME = 0.02  # at most this much of the time goes into checkpoints


@dataclass
class Gathered:
    """What one or more passes leave behind."""

    statistics: ResponseStatistics
    ledger: Ledger
    reservoir: Reservoir | None
    images: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)  # what could not be read, and why

    def absorb(
        self,
        stream: ResponseStream,
        *,
        progress: bool = False,
        checkpoint: Checkpoint | None = None,
        names: list[str] | None = None,
    ) -> None:
        """Add a stream; the names of what was added are appended to `names`."""
        done, skipped = 0, 0  # examples dealt with and passed over, as far as they are in the statistics
        waiting: list[ResponseBatch] = []
        whole = True  # whether what was waiting went in completely
        try:
            for batch in shown(stream, "fitting", progress):
                waiting.append(batch)
                if names is not None:
                    names.extend(batch.names)
                if sum(len(part.names) for part in waiting) >= TOGETHER:
                    whole = False
                    self._add(waiting)
                    waiting, done, skipped, whole = [], stream.position, len(stream.skipped), True
                    if checkpoint is not None:
                        checkpoint.write_if_due(self, done, stream.skipped[:skipped])
        except BaseException:
            if checkpoint is not None and whole:  # Ctrl-C, a source that vanished: keep what was paid for
                checkpoint.write(self, done, stream.skipped[:skipped])
            raise
        self._add(waiting)
        if checkpoint is not None and checkpoint.used:
            checkpoint.write(self, stream.position, stream.skipped)  # what follows takes time too
        self.skipped += stream.skipped

    def _add(self, batches: list[ResponseBatch]) -> None:
        """Add batches as one: a product over many rows costs little more than over a few."""
        if not batches:
            return
        responses = np.concatenate([batch.responses for batch in batches])
        labels = [label for batch in batches for label in batch.labels or []]
        digests = [digest for batch in batches for digest in batch.digests]
        groups = [group for batch in batches for group in batch.groups or [""] * len(batch.names)]
        self.statistics.update(responses, labels)
        self.ledger.add(digests, labels)
        if self.reservoir is not None:
            self.reservoir.add(responses, labels, digests, groups=groups)
        self.images += len(labels)


class Checkpoint:
    """A folder beside the output that holds what was gathered so far; it fits one run only, by its fingerprint."""

    def __init__(self, folder: Path, fingerprint: str, done: int = 0) -> None:
        self.folder = folder
        self._fingerprint = fingerprint
        self._done = done  # examples dealt with before this stream
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

        A disk that is full must not end a pass that goes well: it goes on, and says so.
        """
        position = self._done + done
        if gathered.reservoir is None or position == self._last or not gathered.images:
            return
        started = time.monotonic()
        try:
            self._write(gathered, gathered.reservoir, position, gathered.skipped + skipped)
            self._last = position
        except (StoreError, OSError) as error:
            warnings.warn(f"No checkpoint could be written ({error}); the pass goes on without.", stacklevel=2)
        took = time.monotonic() - started
        self._next = time.monotonic() + max(SECONDS_BETWEEN, took / SHARE_OF_TIME)

    def _write(self, gathered: Gathered, reservoir: Reservoir, position: int, skipped: list[tuple[str, str]]) -> None:
        ledger_arrays, names = gathered.ledger.to_arrays()
        facts: dict[str, object] = {"kind": KIND, "classes": list(gathered.statistics.classes), "names": names}
        arrays, kept = reservoir.to_arrays()
        state = {
            "fingerprint": self._fingerprint,
            "position": position,
            "images": gathered.images,
            "skipped": skipped,
        }
        with drafted_folder(self.folder) as draft:
            write_tensors(draft / "statistics.safetensors", gathered.statistics.to_arrays() | ledger_arrays, facts)
            write_tensors(draft / "reservoir.safetensors", arrays, {"kind": KIND} | kept)
            write_file(draft / "state.json", json.dumps(state).encode())

    def read(self) -> tuple[Gathered, int] | None:
        """What an earlier run gathered and how many examples it dealt with; None if there is nothing."""
        if not (self.folder / "state.json").is_file():
            return None
        try:
            state = json.loads((self.folder / "state.json").read_bytes())
            if state["fingerprint"] != self._fingerprint:
                raise StoreError(
                    f"{self.folder} belongs to another run: other images, settings or source. "
                    "Fit without --resume to start anew."
                )
            arrays, facts = read_tensors(self.folder / "statistics.safetensors", KIND)
            statistics = ResponseStatistics.from_arrays(arrays, cast("list[object]", facts["classes"]))
            ledger = Ledger.from_arrays(arrays, cast("list[object]", facts["names"]))
            kept = read_tensors(self.folder / "reservoir.safetensors", KIND)
            reservoir = Reservoir.from_arrays(*kept, statistics.width)
            skipped = [(str(name), str(reason)) for name, reason in state["skipped"]]
            self._done = int(state["position"])
        except (KeyError, ValueError, TypeError, OSError) as error:
            if isinstance(error, YoroError):
                raise
            raise StoreError(f"{self.folder} is damaged ({error}). Fit without --resume to start anew.") from error
        return Gathered(statistics, ledger, reservoir, int(state["images"]), skipped), self._done


def fingerprint(examples: Sequence[Example], settings: dict[str, object]) -> str:
    """Digest of everything that the outcome of a pass depends on; files by name, size and time."""
    hasher = hashlib.sha256(json.dumps(settings, sort_keys=True, default=str).encode())
    for example in examples:
        stamp: object = None
        if isinstance(example.image, Path) and example.image.exists():
            found = example.image.stat()
            stamp = found.st_size, found.st_mtime_ns
        hasher.update(json.dumps([example.name, example.label, example.group, stamp]).encode())
    return hasher.hexdigest()


def duplicates_in(ledger: Ledger, names: Sequence[str]) -> Duplicates:
    """Contents that were added twice; `names` are those of the ledger's entries, in order."""
    digests: NDArray[np.generic] = ledger.to_arrays()[0]["digests"]
    repeated = np.zeros(len(digests), dtype=bool)
    if len(digests):
        _, inverse, counts = np.unique(digests, axis=0, return_inverse=True, return_counts=True)
        repeated = counts[inverse.reshape(-1)] > 1
    chosen = [(entry, name) for entry, name, again in zip(ledger.entries(), names, repeated, strict=True) if again]
    return find_duplicates(
        (digest.hex() for (digest, _), _ in chosen), (label for (_, label), _ in chosen), (name for _, name in chosen)
    )


def shown(stream: ResponseStream, what: str, progress: bool) -> Iterator[ResponseBatch]:
    """The stream with a bar on stderr: rate and time left; it stays silent in logs."""
    with tqdm(total=stream.total, desc=what, unit="img", disable=None if progress else True, leave=False) as bar:
        for batch in stream:
            yield batch
            bar.update(len(batch.names))
