"""Which contents were fitted under which label: digests, so that only these can be forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from yoro.errors import InputError, StatisticsError
from yoro.mappings.batches import DIGEST


class Ledger:
    """Twenty bytes for each image that was added: its content digest and its label."""

    def __init__(self) -> None:
        self._digests = bytearray()
        self._codes: list[int] = []
        self._names: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._codes)

    def add(self, digests: Sequence[bytes], labels: Sequence[str]) -> None:
        """Note that these contents were added under these labels."""
        for digest, label in zip(digests, labels, strict=True):
            self._digests += digest
            self._codes.append(self._names.setdefault(str(label), len(self._names)))

    def check(self, digests: Sequence[bytes], labels: Sequence[str], names: Sequence[str]) -> None:
        """Raise unless every one of these was added, as often as it is named, under its label."""
        have = Counter(self.entries())
        missing = []
        for digest, label, name in zip(digests, labels, names, strict=True):
            have[digest, str(label)] -= 1
            if have[digest, str(label)] < 0:
                missing.append((digest, str(label), name))
        if missing:
            digest, label, name = missing[0]
            other = next((known for content, known in self.entries() if content == digest and known != label), None)
            hint = f"it was added as {other!r}" if other else "its content was never added"
            raise StatisticsError(
                f"{len(missing)} of {len(names)} cannot be removed; the first is {name} of class {label!r}: {hint}. "
                "Only what was added can be removed."
            )

    def remove(self, digests: Sequence[bytes], labels: Sequence[str]) -> None:
        """Strike these out, once each; `check` has seen them before."""
        gone = Counter((digest, str(label)) for digest, label in zip(digests, labels, strict=True))
        kept = Ledger()
        for digest, label in self.entries():
            if gone[digest, label] > 0:
                gone[digest, label] -= 1
            else:
                kept.add([digest], [label])
        self._digests, self._codes, self._names = kept._digests, kept._codes, kept._names

    def merge(self, other: Ledger) -> Ledger:
        """Both together."""
        result = Ledger()
        for part in (self, other):
            for digest, label in part.entries():
                result.add([digest], [label])
        return result

    def rename(self, names: dict[str, str]) -> None:
        """Give classes other names."""
        renamed = Ledger()
        for digest, label in self.entries():
            renamed.add([digest], [names.get(label, label)])
        self._codes, self._names = renamed._codes, renamed._names

    def contents(self) -> set[bytes]:
        """The digests of everything that was added."""
        return {digest for digest, _ in self.entries()}

    def entries(self) -> Iterable[tuple[bytes, str]]:
        """(digest, label) of everything that was added, in order."""
        labels = list(self._names)
        for i, code in enumerate(self._codes):
            yield bytes(self._digests[DIGEST * i : DIGEST * (i + 1)]), labels[code]

    def to_arrays(self) -> tuple[dict[str, NDArray[np.generic]], list[str]]:
        """Arrays and label names that `from_arrays` takes back."""
        digests = np.frombuffer(bytes(self._digests), dtype=np.uint8).reshape(-1, DIGEST)
        return {"digests": digests, "digest_labels": np.array(self._codes, dtype=np.int32)}, list(self._names)

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.generic]], names: Sequence[object]) -> Self:
        """A ledger from `to_arrays`, checked as if a stranger had written it."""
        digests, codes = arrays.get("digests"), arrays.get("digest_labels")
        if digests is None or codes is None:
            raise InputError("The list of fitted contents is missing.")
        sound = digests.dtype == np.uint8 and digests.ndim == 2 and digests.shape[1:] == (DIGEST,)
        sound = sound and codes.dtype == np.int32 and codes.shape == digests.shape[:1]
        if not sound or (len(codes) and (codes.min() < 0 or codes.max() >= len(names))):
            raise InputError("The list of fitted contents is damaged.")
        result = cls()
        result._digests = bytearray(digests.tobytes())
        result._codes = codes.tolist()
        result._names = {str(name): i for i, name in enumerate(names)}
        return result
