"""What passes leave behind: statistics, a sample of responses and a list of contents; kept on disk on the way."""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

from yoro.data.archive_members import Member
from yoro.data.examples import Example, Later
from yoro.data.responses import ResponseBatch
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.readings import Layout
from yoro.discriminant.reservoir import Reservoir
from yoro.errors import InputError, StoreError, YoroError
from yoro.files.atomic import drafted_folder, write_file
from yoro.files.tensors import read_tensors, write_tensors
from yoro.model.ledger import Ledger

Arrays = dict[str, NDArray[np.generic]]
Facts = dict[str, object]


@dataclass
class Gathered:
    """Statistics, ledger and reservoir of the same responses."""

    statistics: JointStatistics = field(default_factory=JointStatistics)
    ledger: Ledger = field(default_factory=Ledger)
    reservoir: Reservoir | None = None
    images: int = 0  # added by passes, those of a resumed run among them
    skipped: list[tuple[str, str]] = field(default_factory=list)  # what could not be read, and why
    noting: bool = True  # whether contents go into the ledger; sums alone can be wanted

    @classmethod
    def empty(cls, capacity: int, seed: int, layout: Layout | None = None, *, noting: bool = True) -> Self:
        """Nothing yet, with room for so many individual responses; none are kept without room."""
        return cls(JointStatistics(layout), reservoir=Reservoir(capacity, seed) if capacity else None, noting=noting)

    def add(self, batches: Sequence[ResponseBatch]) -> None:
        """Add batches as one: a product over many rows costs little more than over a few."""
        if not batches:
            return
        responses = np.concatenate([batch.responses for batch in batches])
        labels = [label for batch in batches for label in batch.labels or []]
        digests = [digest for batch in batches for digest in batch.digests]
        groups = [group for batch in batches for group in batch.groups or [""] * len(batch.names)]
        self.statistics.update(responses, labels)
        if self.noting:
            self.ledger.add(digests, labels)
        if self.reservoir is not None:
            self.reservoir.add(responses, labels, digests, groups=groups)
        self.images += len(labels)

    def merge(self, other: Gathered) -> Gathered:
        """Both together, this one first; what one of them does not keep, the whole cannot."""
        noting, reservoir = self.noting and other.noting, None
        if self.reservoir is not None and other.reservoir is not None:
            reservoir = self.reservoir.merge(other.reservoir)
        return Gathered(
            self.statistics + other.statistics,
            self.ledger.merge(other.ledger) if noting else Ledger(),
            reservoir,
            self.images + other.images,
            [*self.skipped, *other.skipped],
            noting,
        )

    def to_arrays(self) -> tuple[Arrays, Facts]:
        """Arrays and JSON-able facts that `from_arrays` takes back; everything but the layout of the readings."""
        ledger_arrays, names = self.ledger.to_arrays()
        arrays: Arrays = {f"statistics.{key}": array for key, array in self.statistics.to_arrays().items()}
        arrays |= {f"ledger.{key}": array for key, array in ledger_arrays.items()}
        facts: Facts = {
            "classes": list(self.statistics.classes),
            "names": names,
            "images": self.images,
            "skipped": self.skipped,
            "noting": self.noting,
        }
        if self.reservoir is not None:
            kept, facts["reservoir"] = self.reservoir.to_arrays()
            arrays |= {f"reservoir.{key}": array for key, array in kept.items()}
        return arrays, facts

    @classmethod
    def from_arrays(cls, arrays: Arrays, facts: Facts, layout: Layout | None) -> Self:
        """What `to_arrays` gave, checked as if a stranger had written it."""
        parts: dict[str, Arrays] = {"statistics": {}, "ledger": {}, "reservoir": {}}
        for key, array in arrays.items():
            part, _, name = key.partition(".")
            parts[part][name] = array
        statistics = JointStatistics.from_arrays(parts["statistics"], cast("list[object]", facts["classes"]), layout)
        ledger = Ledger.from_arrays(parts["ledger"], cast("list[object]", facts["names"]))
        reservoir = None
        if "reservoir" in facts:
            kept = cast("dict[str, object]", facts["reservoir"])
            reservoir = Reservoir.from_arrays(parts["reservoir"], kept, statistics.width)
        told = cast("list[tuple[str, str]]", facts["skipped"])
        skipped = [(str(name), str(reason)) for name, reason in told]
        images, noting = facts["images"], facts["noting"]
        if isinstance(images, bool) or not isinstance(images, int) or not isinstance(noting, bool):
            raise InputError("What was gathered does not say of how many images.")
        if not 0 <= images < 2**63:
            raise InputError(f"What was gathered of {images!r:.40} images is damaged.")
        return cls(statistics, ledger, reservoir, images, skipped, noting)

    def summed(self) -> JointStatistics | None:
        """Statistics anew from the responses kept, if all are: what was taken out leaves no rounding behind."""
        if self.reservoir is None or not len(self.ledger) == len(self.reservoir) > 0:
            return None
        members, places = self.reservoir.members(), dict[tuple[bytes, str], list[int]]()
        for row, entry in enumerate(zip(members.digests, members.labels.tolist(), strict=True)):
            places.setdefault(entry, []).append(row)
        order = [places[entry].pop() for entry in self.ledger.entries()]  # as a fit of these would have met them
        result = JointStatistics(self.statistics.layout)
        result.update(members.responses[order], members.labels[order].tolist())
        return result


KIND = "yoro-checkpoint"
GATHERED = "gathered.safetensors"
SECONDS_BETWEEN = 5.0  # checkpoints; more if writing one takes long
SHARE_OF_TIME = 0.02  # at most this much of the time goes into checkpoints


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
        if position == self._last or not gathered.images:
            return
        started = time.monotonic()
        try:
            self._write(gathered, position, gathered.skipped + skipped)
            self._last = position
        except (StoreError, OSError) as error:
            warnings.warn(f"No checkpoint could be written ({error}); the pass goes on without.", stacklevel=2)
        took = time.monotonic() - started
        self._next = time.monotonic() + max(SECONDS_BETWEEN, took / SHARE_OF_TIME)

    def _write(self, gathered: Gathered, position: int, skipped: list[tuple[str, str]]) -> None:
        arrays, facts = replace(gathered, skipped=skipped).to_arrays()
        state = {
            "fingerprint": self._fingerprint,
            "position": position,
            "readings": gathered.statistics.layout.config(),
        }
        with drafted_folder(self.folder) as draft:
            write_tensors(draft / GATHERED, arrays, {"kind": KIND} | facts)
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
            arrays, facts = read_tensors(self.folder / GATHERED, KIND)
            gathered = Gathered.from_arrays(arrays, facts, Layout.from_config(state["readings"]))
            self._done = int(state["position"])
        except (KeyError, ValueError, TypeError, OSError) as error:
            if isinstance(error, YoroError):
                raise
            raise StoreError(f"{self.folder} is damaged ({error}). Fit without --resume to start anew.") from error
        return gathered, self._done


def fingerprint(examples: Sequence[Example], settings: Mapping[str, object]) -> str:
    """Digest of everything that the outcome of a pass depends on; files by name, size and time."""
    hasher = hashlib.sha256(json.dumps(dict(settings), sort_keys=True, default=str).encode())
    for example in examples:
        stamp: object = None
        with suppress(OSError, ValueError):  # what cannot be reached is no more than its name
            if isinstance(example.image, Path):
                found = example.image.stat()
                stamp = found.st_size, found.st_mtime_ns
            elif isinstance(example.image, Member):
                stamp = example.image.size, example.image.offset, example.image.checksum
            elif isinstance(example.image, Later):
                stamp = example.image.stamp
        hasher.update(json.dumps([example.name, example.label, example.group, stamp]).encode())
    return hasher.hexdigest()
