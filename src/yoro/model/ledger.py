"""Which contents were fitted under which label: digests, so that only these can be forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from yoro.errors import InputError, StatisticsError
from yoro.mappings.batches import DIGEST

Rows = NDArray[np.intp]
Entry = tuple[bytes, str]  # content digest and label
FIRST = 1024  # entries that room is made for at the start


class Ledger:
    """Twenty bytes for each image that was added: its content digest and its label.

    Entries are found by the first half of their digest, all at once; only those found are looked at one by one.
    """

    def __init__(self) -> None:
        self._size = 0
        self._digests = np.empty((FIRST, DIGEST), dtype=np.uint8)
        self._codes = np.empty(FIRST, dtype=np.int32)  # index of the label among the names
        self._names: dict[str, int] = {}  # in the order in which they were first added

    def __len__(self) -> int:
        return self._size

    def add(self, digests: Sequence[bytes], labels: Sequence[str]) -> None:
        """Note that these contents were added under these labels."""
        codes = [self._names.setdefault(str(label), len(self._names)) for label in labels]
        content = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(len(codes), DIGEST)
        self._append(content, np.array(codes, dtype=np.int32))

    def check(self, digests: Sequence[bytes], labels: Sequence[str], names: Sequence[str]) -> None:
        """Raise unless every one of these was added, as often as it is named, under its label."""
        have = Counter(self._entries(self._rows_of(digests)))
        missing = []
        for digest, label, name in zip(digests, labels, names, strict=True):
            have[digest, str(label)] -= 1
            if have[digest, str(label)] < 0:
                missing.append((digest, str(label), name))
        if missing:
            digest, label, name = missing[0]
            others = [known for _, known in self._entries(self._rows_of([digest])) if known != label]
            hint = f"it was added as {others[0]!r}" if others else "its content was never added"
            raise StatisticsError(
                f"{len(missing)} of {len(names)} cannot be removed; the first is {name} of class {label!r}: {hint}. "
                "Only what was added can be removed."
            )

    def remove(self, digests: Sequence[bytes], labels: Sequence[str]) -> None:
        """Strike these out, once each; `check` has seen them before."""
        gone = Counter((digest, str(label)) for digest, label in zip(digests, labels, strict=True))
        keep = np.ones(self._size, dtype=bool)
        rows = self._rows_of(digests)
        for row, entry in zip(rows.tolist(), self._entries(rows), strict=True):
            if gone[entry] > 0:
                gone[entry] -= 1
                keep[row] = False
        content, codes, names = self._digests[: self._size][keep], self._codes[: self._size][keep], list(self._names)
        used = {int(code): names[code] for code in dict.fromkeys(codes.tolist())}
        self._size, self._names = 0, {}
        self._extend(content, codes, used)

    def merge(self, other: Ledger) -> Ledger:
        """The entries of both, this one first."""
        result = Ledger()
        for part in (self, other):
            names = dict(enumerate(part._names))
            result._extend(part._digests[: part._size], part._codes[: part._size], names)
        return result

    def copy(self) -> Ledger:
        return self.merge(Ledger())

    def rename(self, names: Mapping[str, str]) -> None:
        """Give classes other names."""
        codes, renamed = self._codes[: self._size].copy(), {i: names.get(n, n) for i, n in enumerate(self._names)}
        content, self._size, self._names = self._digests[: self._size].copy(), 0, {}
        self._extend(content, codes, renamed)

    def holds(self, digests: Sequence[bytes]) -> list[bool]:
        """Whether each content was added, under any label."""
        known = set(self.digests(self._rows_of(digests)))
        return [digest in known for digest in digests]

    def found(self, digests: Sequence[bytes]) -> list[Entry]:
        """Every entry with one of these contents."""
        return list(self._entries(self._rows_of(digests)))

    def contains(self, entries: Sequence[Entry]) -> list[bool]:
        """Whether each content was added under its label."""
        known = set(self.found([digest for digest, _ in entries]))
        return [entry in known for entry in entries]

    def counts(self) -> dict[str, int]:
        """How many entries each label has."""
        counts = np.bincount(self._codes[: self._size], minlength=len(self._names))
        return dict(zip(self._names, counts.tolist(), strict=True))

    def repeated(self) -> list[tuple[int, bytes, str]]:
        """Row, content and label of everything whose content was added more than once."""
        heads = self._heads()
        _, inverse, counts = np.unique(heads, return_inverse=True, return_counts=True)
        rows = np.flatnonzero(counts[inverse] > 1) if len(heads) else np.empty(0, dtype=np.intp)
        return [(int(row), *entry) for row, entry in zip(rows, self._entries(rows), strict=True)]

    def entries(self, start: int = 0) -> list[Entry]:
        """Content and label of everything that was added, in order, from entry `start` on."""
        return list(self._entries(range(start, self._size)))

    def digests(self, rows: Iterable[int] | None = None) -> list[bytes]:
        """The contents of some rows, or of all, in order."""
        chosen = self._digests[: self._size] if rows is None else self._digests[np.fromiter(rows, dtype=np.intp)]
        return [row.tobytes() for row in chosen]

    def to_arrays(self) -> tuple[dict[str, NDArray[np.generic]], list[str]]:
        """Arrays and label names that `from_arrays` takes back."""
        digests, codes = self._digests[: self._size].copy(), self._codes[: self._size].copy()
        return {"digests": digests, "digest_labels": codes}, list(self._names)

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.generic]], names: Sequence[object]) -> Self:
        """A ledger from `to_arrays`, checked as untrusted input."""
        digests, codes = arrays.get("digests"), arrays.get("digest_labels")
        if digests is None or codes is None:
            raise InputError("The image hashes are missing.")
        sound = digests.dtype == np.uint8 and digests.ndim == 2 and digests.shape[1:] == (DIGEST,)
        sound = sound and codes.dtype == np.int32 and codes.shape == digests.shape[:1]
        if not sound or (len(codes) and (codes.min() < 0 or codes.max() >= len(names))):
            raise InputError("The image hashes are damaged.")
        result = cls()
        result._extend(digests.astype(np.uint8), codes.astype(np.int32), {i: str(n) for i, n in enumerate(names)})
        return result

    def _extend(self, content: NDArray[np.uint8], codes: NDArray[np.int32], names: Mapping[int, str]) -> None:
        """Add entries whose codes are keys of `names`; two keys may have one name."""
        table = np.zeros(max(names, default=-1) + 1, dtype=np.int32)
        for code, name in names.items():
            table[code] = self._names.setdefault(name, len(self._names))
        self._append(content, table[codes] if len(codes) else codes)

    def _append(self, content: NDArray[np.uint8], codes: NDArray[np.int32]) -> None:
        stop = self._size + len(codes)
        if stop > len(self._codes):
            more = max(stop, 2 * len(self._codes)) - len(self._codes)
            self._digests = np.pad(self._digests, ((0, more), (0, 0)))
            self._codes = np.pad(self._codes, (0, more))
        self._digests[self._size : stop], self._codes[self._size : stop] = content, codes
        self._size = stop

    def _heads(self) -> NDArray[np.uint64]:
        """The first half of every digest as one number."""
        heads: NDArray[np.uint64] = self._digests[: self._size].view(np.uint64)[:, 0]
        return heads

    def _rows_of(self, digests: Sequence[bytes]) -> Rows:
        """The rows, ascending, whose digests begin as one of these does; equal digests are among them."""
        wanted = np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, DIGEST // 8)[:, 0]
        return np.flatnonzero(np.isin(self._heads(), wanted))

    def _entries(self, rows: Iterable[int]) -> Iterator[Entry]:
        """Entries of some rows."""
        names = list(self._names)
        for row in rows:
            yield self._digests[row].tobytes(), names[self._codes[row]]


@dataclass(frozen=True)
class Duplicate:
    """Two examples with the same content; `label` and `other_label` differ where the labels contradict."""

    name: str
    label: str
    other_name: str
    other_label: str

    def __str__(self) -> str:
        if self.label == self.other_label:
            return f"'{self.name}' and '{self.other_name}' are the same image, twice in class '{self.label}'."
        return (
            f"'{self.name}' and '{self.other_name}' are the same image, "
            f"once labelled '{self.label}' and once '{self.other_label}'."
        )


@dataclass
class Duplicates:
    """What was found so far; `add` is called once an image, in any order of batches.

    An image is compared with the first of each label that has its content, so that three copies make two entries.
    Memory: one entry for each distinct content.
    """

    conflicts: list[Duplicate] = field(default_factory=list)  # same content, different labels
    repeats: list[Duplicate] = field(default_factory=list)  # same content, same label
    _first: dict[bytes, dict[str, str]] = field(default_factory=dict, repr=False)  # digest -> label -> name

    def add(self, digest: bytes, label: str, name: str) -> None:
        """Take in one image: digest of its content, its label, its name."""
        names = self._first.setdefault(digest, {})
        if label in names:
            self.repeats.append(Duplicate(names[label], label, name, label))
            return
        for other, first in names.items():
            self.conflicts.append(Duplicate(first, other, name, label))
        names[label] = name

    def conflicts_told(self, sizes: Mapping[str, int]) -> list[str]:
        """A sentence for each conflict; one for all those of two classes that are mostly the same images.

        `sizes` are the numbers of images by class.
        """
        pairs = Counter((one.label, one.other_label) for one in self.conflicts)
        told = list[str]()
        for (first, second), count in pairs.items():
            smaller = min(sizes[first], sizes[second])
            if count > 2 and 2 * count > smaller:
                told.append(
                    f"The classes {first!r} and {second!r} contain the same images ({count:,} of {smaller:,}), so they "
                    "cannot be told apart. Remove one of them, or take these images out of one."
                )
                pairs[first, second] = 0
        return told + [str(one) for one in self.conflicts if pairs[one.label, one.other_label]]


def find_duplicates(digests: Iterable[bytes], labels: Iterable[str], names: Iterable[str]) -> Duplicates:
    """Contradictions and repeats among images given by digest, label and name, one each, as arrays or iterators.

    >>> str(find_duplicates([b"0", b"0"], ["cat", "dog"], ["a.jpg", "b.jpg"]).conflicts[0])
    "'a.jpg' and 'b.jpg' are the same image, once labelled 'cat' and once 'dog'."
    """
    found = Duplicates()
    for digest, label, name in zip(digests, labels, names, strict=True):
        found.add(digest, label, name)
    return found
