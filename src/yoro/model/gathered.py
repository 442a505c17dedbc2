"""What a pass over labelled data collects, and how it changes: add, remove, rename, merge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, cast

import numpy as np

from yoro.data.responses import ResponseBatch
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.readings import Layout
from yoro.discriminant.reservoir import Reservoir
from yoro.errors import InputError, StoreError, WidthError
from yoro.files.reading import refuse_damaged
from yoro.files.tensors import Arrays, Metadata, content_digest, pack_tensors, parse_tensors
from yoro.model.ledger import Entry, Ledger

KIND = "yoro-shard"
FORMAT = 1
PARTS = ("statistics", "ledger", "reservoir", "pile")
DIGEST = "digest"  # of all the rest of a file


@dataclass
class Gathered:
    """Statistics, ledger and reservoir of the same responses; they change together, and only here.

    Every change is exact: what was added, removed, renamed and merged is what a pass over the resulting data gathers.
    """

    statistics: JointStatistics = field(default_factory=JointStatistics)
    ledger: Ledger = field(default_factory=Ledger)
    reservoir: Reservoir | None = None
    skipped: list[tuple[str, str]] = field(default_factory=list)  # what the pass could not read, and why
    noting: bool = True  # whether contents go into the ledger; sums alone can be wanted
    pile: Reservoir | None = None  # unlabelled responses: as many as a reservoir keeps, under the label ""

    @classmethod
    def empty(cls, capacity: int, seed: int, layout: Layout | None = None, *, noting: bool = True) -> Self:
        """Nothing gathered yet, with a reservoir of this capacity; none if the capacity is 0."""
        return cls(JointStatistics(layout), reservoir=Reservoir(capacity, seed) if capacity else None, noting=noting)

    @property
    def images(self) -> int:
        return round(self.statistics.total)

    @property
    def whole(self) -> bool:
        """Whether the response of every example is kept, so that everything can be computed again."""
        return self.reservoir is not None and len(self.reservoir) == len(self.ledger)

    def contains(self, entries: Sequence[Entry]) -> list[bool]:
        """Whether each content was added under its label."""
        return self.ledger.contains(entries)

    def check(self) -> None:
        """Raise if statistics, ledger and reservoir contradict each other, as they do in a file that was changed."""
        counts = dict(zip(self.statistics.classes, np.rint(self.statistics.counts).tolist(), strict=True))
        if self.pile is not None and self.pile.labels - {""}:
            raise InputError("its unlabelled responses have labels.")
        if len(self.ledger):
            listed = self.ledger.counts()
            if any(listed.get(name, 0) != count for name, count in counts.items()) or not set(listed) <= set(counts):
                raise InputError("its statistics and its list of contents disagree.")
        if self.reservoir is None or not len(self.reservoir):
            return
        members = self.reservoir.members()
        kept = Counter(zip(members.digests, members.labels.tolist(), strict=True))
        if any(counts.get(label, 0) < 1 for _, label in kept):
            raise InputError("it keeps responses of classes that it does not know.")
        if len(self.ledger):
            found = Counter(self.ledger.found(members.digests))
            if any(found[entry] < count for entry, count in kept.items()):
                raise InputError("it keeps responses that are not in its list of contents.")

    def add(self, batches: Sequence[ResponseBatch], *, threads: bool = False) -> None:
        """Add batches as one: a product over many rows costs little more than over a few.

        `threads` are worth their while where BLAS has a single one.
        """
        if not batches:
            return
        responses = np.concatenate([batch.responses for batch in batches])
        labels = [label for batch in batches for label in batch.labels or []]
        digests = [digest for batch in batches for digest in batch.digests]
        groups = [group for batch in batches for group in batch.groups or [""] * len(batch)]
        self.statistics.update(responses, labels, threads=threads)
        if self.noting:
            self.ledger.add(digests, labels)
        if self.reservoir is not None:
            self.reservoir.add(responses, labels, digests, groups=groups)

    def add_unlabelled(self, batches: Iterable[ResponseBatch], capacity: int, seed: int) -> int:
        """Add unlabelled responses, as many as there is room for; returns how many were offered.

        A content that is labelled, or in the pile already, is passed over.
        """
        pile = Reservoir(capacity, seed) if self.pile is None else self.pile
        seen, offered = pile.digests, 0
        for batch in batches:
            width = batch.responses.shape[1]
            if self.statistics.width not in (0, width):  # 0: none are labelled
                raise WidthError(f"Unlabelled responses have width {width}, labelled ones {self.statistics.width}.")
            labelled = self.ledger.holds(batch.digests)
            first = {digest: i for i, digest in reversed(list(enumerate(batch.digests)))}
            mine = batch.take(sorted(i for digest, i in first.items() if digest not in seen and not labelled[i]))
            seen.update(mine.digests)
            offered += len(mine)
            if len(mine):
                pile.add(mine.responses, [""] * len(mine), mine.digests)
        self.pile = pile if len(pile) else None
        return offered

    def remove_unlabelled(self, digests: Sequence[bytes]) -> list[Entry]:
        """Take unlabelled responses back out by their contents; returns those that were there."""
        there = set() if self.pile is None else self.pile.digests
        gone = [digest for digest in dict.fromkeys(digests) if digest in there]
        if self.pile is not None and gone:
            self.pile.remove(gone, [""] * len(gone))
            self.pile = self.pile if len(self.pile) else None
        return [(digest, "") for digest in gone]

    def remove(self, batches: Iterable[ResponseBatch]) -> list[Entry]:
        """Take responses back out, and return their contents and labels; what was never added is an error.

        The batches are traversed once. Where every response is kept, the statistics are summed anew, so that what was
        removed leaves no rounding behind.
        """
        gone = JointStatistics(self.statistics.layout if self.statistics.width else None)
        digests, labels, names = list[bytes](), list[str](), list[str]()
        for batch in batches:
            gone.update(batch.responses, batch.labels or [])
            digests += batch.digests
            labels += batch.labels or []
            names += batch.names
        if not names:
            return []
        self.ledger.check(digests, labels, names)
        self.ledger.remove(digests, labels)
        if self.reservoir is not None:
            self.reservoir.remove(digests, labels)
        self.statistics = self._summed() or self.statistics - gone
        return list(zip(digests, labels, strict=True))

    def rename(self, names: Mapping[str, str]) -> None:
        """Give classes new names; several classes given one name are joined."""
        self.statistics = self.statistics.rename(dict(names))
        self.ledger.rename(names)
        if self.reservoir is not None:
            self.reservoir.rename(dict(names))

    def merge(self, other: Gathered) -> Gathered:
        """The sum of both, this one first; it stores only what both store."""
        statistics = self.statistics + other.statistics  # first: it refuses responses of another width
        noting, reservoir = self.noting and other.noting, None
        if self.reservoir is not None and other.reservoir is not None:
            reservoir = self.reservoir.merge(other.reservoir)
        ledger = self.ledger.merge(other.ledger) if noting else Ledger()
        piles = [one.pile for one in (self, other) if one.pile is not None]
        pile = None if not piles else piles[0].copy() if len(piles) == 1 else piles[0].merge(piles[1])
        skipped = [*self.skipped, *other.skipped]
        return Gathered(statistics, ledger, reservoir, skipped, noting, pile)

    def copy(self) -> Gathered:
        kept = None if self.reservoir is None else self.reservoir.copy()
        pile = None if self.pile is None else self.pile.copy()
        return Gathered(self.statistics.copy(), self.ledger.copy(), kept, list(self.skipped), self.noting, pile)

    def only_sums(self) -> Gathered:
        """The sums alone: no individual response, no digest of a content, no name of a file."""
        return Gathered(self.statistics.folded(), noting=False)

    def to_bytes(self, facts: Metadata, arrays: Arrays | None = None) -> bytes:
        """The content of a file that `from_bytes` reads, with whatever else its maker wants to keep in it."""
        ledger, names = self.ledger.to_arrays()
        kept, table = self.reservoir.to_arrays() if self.reservoir is not None else ({}, None)
        heap, heap_table = self.pile.to_arrays() if self.pile is not None else ({}, None)
        mine = dict(zip(PARTS, (self.statistics.to_arrays(), ledger, kept, heap), strict=True))
        packed = {f"{part}.{key}": array for part, group in mine.items() for key, array in group.items()}
        gathered: Metadata = {
            "classes": list(self.statistics.classes), "names": names, "images": self.images, "skipped": self.skipped,
            "noting": self.noting, **({} if table is None else {"reservoir": table}),
            **({} if heap_table is None else {"pile": heap_table}),
        }  # fmt: skip
        own: Metadata = {
            "kind": KIND, "format": FORMAT, "gathered": gathered, "readings": self.statistics.layout.config(),
        }  # fmt: skip
        held, said = packed | (arrays or {}), own | facts
        return pack_tensors(held, said | {DIGEST: content_digest(held, said)})

    @classmethod
    def from_bytes(cls, content: bytes, name: str) -> tuple[Self, Metadata, Arrays]:
        """What `to_bytes` wrote, with all facts and the other arrays, checked as untrusted input.

        `name` is shown in errors.
        """
        arrays, facts = parse_tensors(content, KIND, name)
        written = facts.pop(DIGEST, None)  # earlier versions wrote none
        if written is not None and written != content_digest(arrays, facts):
            raise StoreError(f"{name} is damaged: its content is not what was written.")
        if facts.get("format") != FORMAT:
            raise StoreError(f"{name} has format {facts.get('format')!r}; this version of yoro reads {FORMAT}.")
        parts: dict[str, Arrays] = {part: {} for part in PARTS}
        for key in list(arrays):
            part, _, rest = key.partition(".")
            if part in parts:
                parts[part][rest] = arrays.pop(key)
        with refuse_damaged(name):
            gathered = cls._of(parts, cast(Metadata, facts["gathered"]), Layout.from_config(facts["readings"]))
            return gathered, facts, arrays

    @classmethod
    def _of(cls, parts: dict[str, Arrays], facts: Metadata, layout: Layout) -> Self:
        statistics = JointStatistics.from_arrays(parts["statistics"], cast("list[object]", facts["classes"]), layout)
        ledger = Ledger.from_arrays(parts["ledger"], cast("list[object]", facts["names"]))
        reservoir = None
        if "reservoir" in facts:
            reservoir = Reservoir.from_arrays(parts["reservoir"], cast(Metadata, facts["reservoir"]), statistics.width)
        pile = None
        if "pile" in facts:
            pile = Reservoir.from_arrays(parts["pile"], cast(Metadata, facts["pile"]), statistics.width)
        named = cast("list[tuple[object, object]]", facts["skipped"])
        if not isinstance(facts["noting"], bool):
            raise InputError("it does not say whether it lists its contents.")
        skipped = [(str(name), str(reason)) for name, reason in named]
        gathered = cls(statistics, ledger, reservoir, skipped, facts["noting"], pile)
        gathered.check()
        return gathered

    def _summed(self) -> JointStatistics | None:
        """Statistics recomputed from the responses kept, in the order of the ledger; None unless all are kept."""
        if self.reservoir is None or not self.whole or not len(self.ledger):
            return None
        members, places = self.reservoir.members(), dict[Entry, list[int]]()
        for row, entry in enumerate(zip(members.digests, members.labels.tolist(), strict=True)):
            places.setdefault(entry, []).append(row)
        order = [places[entry].pop() for entry in self.ledger.entries()]  # as a fit of these would have met them
        result = JointStatistics(self.statistics.layout)
        result.update(members.responses[order], members.labels[order].tolist())
        return result
