"""The same content twice: under two labels, or twice in a class."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


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

    def add(self, digest: str, label: str, name: str) -> None:
        """Take in one image: hex digest of its content, its label, its name."""
        names = self._first.setdefault(bytes.fromhex(digest), {})
        if label in names:
            self.repeats.append(Duplicate(names[label], label, name, label))
            return
        for other, first in names.items():
            self.conflicts.append(Duplicate(first, other, name, label))
        names[label] = name


def find_duplicates(digests: Iterable[str], labels: Iterable[str], names: Iterable[str]) -> Duplicates:
    """Contradictions and repeats among images given by digest, label and name, one each, as arrays or iterators.

    >>> str(find_duplicates(["00", "00"], ["cat", "dog"], ["a.jpg", "b.jpg"]).conflicts[0])
    "'a.jpg' and 'b.jpg' are the same image, once labelled 'cat' and once 'dog'."
    """
    found = Duplicates()
    for digest, label, name in zip(digests, labels, names, strict=True):
        found.add(digest, label, name)
    return found
