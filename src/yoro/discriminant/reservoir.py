"""A bounded, order-free sample of individual responses, kept for leave-one-out."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray

from yoro import limits
from yoro.errors import InputError
from yoro.mappings.batches import DIGEST, Array

UNBOUNDED = int(np.iinfo(np.uint64).max)
FIRST = 256  # responses that room is made for at once


@dataclass(frozen=True)
class Members:
    """Individual responses (m, width) with labels, group names ("" for none) and weights, (m,) each."""

    responses: NDArray[np.floating]
    labels: NDArray[np.str_]
    groups: NDArray[np.str_]
    weights: Array
    digests: tuple[bytes, ...] = ()  # of the contents, where they are known

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.intp]) -> Members:
        """Some of them."""
        digests = tuple(self.digests[i] for i in rows.tolist()) if self.digests else ()
        return Members(self.responses[rows], self.labels[rows], self.groups[rows], self.weights[rows], digests)


class Reservoir:
    """The responses whose seeded content digest is smallest, at most `capacity` of them.

    What is kept depends on the contents alone: not on order, batching, restarts or machines.
    It is all entries whose key lies under a threshold, so that two reservoirs merge into the
    one of the union. Entries of one group share a key: a group is kept whole or not at all.
    """

    def __init__(self, capacity: int, seed: int = 0) -> None:
        self.capacity = capacity
        self.seed = seed
        self.threshold = UNBOUNDED
        self._size = 0
        self._responses: NDArray[np.floating] = np.empty((0, 0), dtype=np.float32)
        self._keys = np.empty(0, dtype=np.uint64)
        self._digests = np.empty((0, DIGEST), dtype=np.uint8)
        self._weights = np.empty(0)
        self._labels: list[str] = []
        self._groups: list[str] = []

    def __len__(self) -> int:
        return self._size

    def __getstate__(self) -> dict[str, object]:
        """What is in use, without the room set aside."""
        arrays, facts = self.to_arrays()
        return {"arrays": {key: value.copy() for key, value in arrays.items()}, "facts": facts}

    def __setstate__(self, state: dict[str, object]) -> None:
        arrays = cast("dict[str, NDArray[np.generic]]", state["arrays"])
        facts = cast("dict[str, object]", state["facts"])
        self.__dict__ |= Reservoir.from_arrays(arrays, facts, arrays["responses"].shape[1]).__dict__

    def add(
        self,
        responses: NDArray[np.floating],
        labels: Sequence[str],
        digests: Sequence[bytes],
        *,
        groups: Sequence[str] | None = None,
        weights: NDArray[np.floating] | None = None,
    ) -> None:
        """Offer a batch; what has a large key is passed over."""
        names = list(groups) if groups is not None else [""] * len(labels)
        keys = np.array([self._key(g, d) for g, d in zip(names, digests, strict=True)], dtype=np.uint64)
        offered = np.flatnonzero(keys < self.threshold)
        offered = self._lower_threshold(keys, offered)
        self._keep(self._keys[: self._size] < self.threshold)
        self._make_room(responses, len(offered))
        new = slice(self._size, self._size + len(offered))
        self._responses[new], self._keys[new] = responses[offered], keys[offered]
        self._weights[new] = 1.0 if weights is None else weights[offered]
        content = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, DIGEST)
        self._digests[new] = content[offered]
        self._labels += [str(labels[i]) for i in offered.tolist()]
        self._groups += [names[i] for i in offered.tolist()]
        self._size += len(offered)

    def remove(self, digests: Sequence[bytes], labels: Sequence[str]) -> None:
        """Take entries back out, once for each time they are named; others are ignored."""
        gone = Counter(zip(digests, (str(label) for label in labels), strict=True))
        keep = np.ones(self._size, dtype=bool)
        heads = self._digests[: self._size].view(np.uint64)[:, 0]
        wanted = np.frombuffer(b"".join(digests), dtype=np.uint64).reshape(-1, DIGEST // 8)[:, 0]
        for i in np.flatnonzero(np.isin(heads, wanted)).tolist():  # those that may be meant
            entry = (self._digests[i].tobytes(), self._labels[i])
            if gone[entry] > 0:
                gone[entry] -= 1
                keep[i] = False
        self._keep(keep)

    def copy(self) -> Reservoir:
        result = Reservoir(self.capacity, self.seed)
        result._make_room(self._responses[:0], self._size)
        result._labels, result._groups = self._labels.copy(), self._groups.copy()
        for name in ("_responses", "_keys", "_digests", "_weights"):
            getattr(result, name)[: self._size] = getattr(self, name)[: self._size]
        result.threshold, result._size = self.threshold, self._size
        return result

    def merge(self, other: Reservoir) -> Reservoir:
        """The reservoir of the union of what two have seen."""
        if other.seed != self.seed:
            raise InputError(f"Reservoirs drawn with seeds {self.seed} and {other.seed} do not merge into one.")
        result = Reservoir(min(self.capacity, other.capacity), self.seed)
        result.threshold = min(self.threshold, other.threshold)
        for part in (self, other):
            result._add_of(part)
        return result

    def take(self, columns: slice) -> Reservoir:
        """The same entries with some of the coordinates."""
        result = Reservoir(self.capacity, self.seed)
        result.threshold = self.threshold
        result._add_of(self, columns)
        return result

    def rename(self, names: dict[str, str]) -> None:
        self._labels = [names.get(label, label) for label in self._labels]

    @property
    def digests(self) -> set[bytes]:
        """The contents that are kept."""
        return {row.tobytes() for row in self._digests[: self._size]}

    @property
    def labels(self) -> set[str]:
        """The labels of what is kept."""
        return set(self._labels)

    @property
    def nbytes(self) -> int:
        """Bytes of the responses that are kept."""
        return self._responses[: self._size].nbytes

    def members(self) -> Members:
        """What is kept, in the order of the keys, so that equal contents come in equal order."""
        n = self._size
        order = np.lexsort((*self._digests[:n].T[::-1], self._keys[:n]))
        return Members(
            self._responses[order],
            np.array([self._labels[i] for i in order], dtype=np.str_),
            np.array([self._groups[i] for i in order], dtype=np.str_),
            self._weights[order],
            tuple(self._digests[i].tobytes() for i in order),
        )

    def to_arrays(self) -> tuple[dict[str, NDArray[np.generic]], dict[str, object]]:
        """Arrays and JSON-able facts that `from_arrays` takes back."""
        n = self._size
        names, codes = np.unique(np.array(self._labels[:n], dtype=np.str_), return_inverse=True)
        groups, members = np.unique(np.array(self._groups[:n], dtype=np.str_), return_inverse=True)
        arrays: dict[str, NDArray[np.generic]] = {
            "responses": self._responses[:n], "labels": codes.astype(np.int32), "groups": members.astype(np.int32),
            "weights": self._weights[:n], "digests": self._digests[:n],
        }  # fmt: skip
        facts: dict[str, object] = {
            "classes": names.tolist(), "group_names": groups.tolist(), "capacity": self.capacity,
            "seed": self.seed, "threshold": str(self.threshold),
        }  # fmt: skip
        return arrays, facts

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.generic]], facts: dict[str, object], width: int) -> Self:
        """A reservoir from `to_arrays`; the input is checked, not trusted."""
        try:
            names, groups = [np.array(facts[key], dtype=np.str_) for key in ("classes", "group_names")]
            capacity, seed, threshold = (int(str(facts[key])) for key in ("capacity", "seed", "threshold"))
            responses, labels, members = arrays["responses"], arrays["labels"], arrays["groups"]
            weights, digests = arrays["weights"], arrays["digests"]
            n = len(labels)
            sound = (
                0 < capacity <= limits.RESERVOIR_CAPACITY and abs(seed) <= limits.SEED
                and n <= capacity and 0 <= threshold <= UNBOUNDED and names.ndim == groups.ndim == labels.ndim == 1
                and all(codes.astype(np.int64).min(initial=0) == 0 for codes in (labels, members))
                and (responses.shape == (n, width) or n == 0)
                and responses.dtype in (np.float16, np.float32, np.float64)
                and labels.dtype == members.dtype == np.int32 and members.shape == weights.shape == (n,)
                and weights.dtype == np.float64 and digests.shape == (n, DIGEST) and digests.dtype == np.uint8
                and bool(np.isfinite(responses).all()) and bool(np.isfinite(weights).all())
            )  # fmt: skip
            label_names, group_names = names[labels].tolist(), groups[members].tolist()
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise InputError(f"The reservoir is damaged ({error}).") from error
        if not sound:
            raise InputError("The reservoir is damaged: its arrays do not fit together.")
        result = cls(capacity, seed)
        if n:
            result.add(
                responses.astype(responses.dtype, copy=False), label_names, [row.tobytes() for row in digests],
                groups=group_names, weights=weights.astype(np.float64),
            )  # fmt: skip
        result.threshold = threshold
        return result

    def _key(self, group: str, digest: bytes) -> int:
        content = b"group:" + group.encode("utf-8", "backslashreplace") if group else bytes(digest)
        key = self.seed.to_bytes(8, "little", signed=True)
        return int.from_bytes(hashlib.blake2b(content, digest_size=8, key=key).digest(), "little")

    def _add_of(self, other: Reservoir, columns: slice = slice(None)) -> None:
        """Offer all that another one keeps."""
        n = other._size
        if n:
            self.add(
                other._responses[:n, columns], other._labels[:n], [row.tobytes() for row in other._digests[:n]],
                groups=other._groups[:n], weights=other._weights[:n],
            )  # fmt: skip

    def _make_room(self, responses: NDArray[np.floating], more: int) -> None:
        """Room for so many more, in the widest type seen: twice as much as before, never over the capacity."""
        dtype = np.promote_types(self._responses.dtype, responses.dtype)
        have, width = len(self._keys), responses.shape[1]
        needed = self._size + more
        room = have if needed <= have else min(self.capacity, max(needed, 2 * have, FIRST))
        if room > have or self._responses.shape[1] != width or self._responses.dtype != dtype:
            old = self._responses[: self._size]
            self._responses = np.empty((room, width), dtype=dtype)
            if self._size:
                self._responses[: self._size] = old
        if room > have:
            for name in ("_keys", "_digests", "_weights"):
                array = getattr(self, name)
                grown = np.empty((room, *array.shape[1:]), dtype=array.dtype)
                grown[: self._size] = array[: self._size]
                setattr(self, name, grown)

    def _lower_threshold(self, keys: NDArray[np.uint64], offered: NDArray[np.intp]) -> NDArray[np.intp]:
        """Keep the smallest keys that fit; a group cut by the limit goes as a whole."""
        everything = np.concatenate([self._keys[: self._size], keys[offered]])
        if len(everything) > self.capacity:
            self.threshold = int(np.partition(everything, self.capacity)[self.capacity])
            offered = offered[keys[offered] < self.threshold]
        return offered

    def _keep(self, keep: NDArray[np.bool_]) -> None:
        """Drop the others; the last entries take their places, so that only what is dropped costs time."""
        n = int(keep.sum())
        free, last = np.flatnonzero(~keep[:n]), n + np.flatnonzero(keep[n:])
        for array in (self._responses, self._keys, self._digests, self._weights):
            array[free] = array[last]
        for names in (self._labels, self._groups):
            for i, j in zip(free.tolist(), last.tolist(), strict=True):
                names[i] = names[j]
            del names[n:]
        self._size = n
