"""Folders and what they hold, on a disk or within an archive."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from yoro.data.examples import Picture, shown


class Node(Protocol):
    """A folder or a file."""

    @property
    def name(self) -> str:
        """Its own name."""

    @property
    def shown(self) -> str:
        """Its path from the root on, as people are shown it."""

    @property
    def folder(self) -> bool:
        """Whether it holds others."""

    @property
    def place(self) -> str:
        """Where it really is: two links to one folder have the same."""

    @property
    def picture(self) -> Picture | None:
        """What to read; None for what is no file, such as a pipe."""

    def children(self) -> Sequence[Node]:
        """What a folder holds, sorted by name; an OSError if it cannot be opened."""


@dataclass(frozen=True)
class OnDisk:
    """A folder or a file of the file system."""

    path: Path
    name: str
    shown: str
    folder: bool
    regular: bool = True

    @property
    def place(self) -> str:
        """See `Node`."""
        return os.path.realpath(self.path)

    @property
    def picture(self) -> Picture | None:
        """See `Node`."""
        return self.path if self.regular else None

    def children(self) -> list[OnDisk]:
        """See `Node`."""
        with os.scandir(self.path) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
        before = f"{self.shown}/" if self.shown else ""
        return [
            OnDisk(
                Path(entry.path),
                entry.name,
                before + shown(entry.name),
                _is_dir(entry),
                entry.is_symlink() or entry.is_file(),
            )
            for entry in found
        ]


def on_disk(root: Path) -> OnDisk:
    """A folder as the root of a tree."""
    return OnDisk(root, (root if root.name else root.resolve()).name, "", True)


def _is_dir(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder or leads to one; a link that leads in a circle does not."""
    try:
        return entry.is_dir()
    except OSError:
        return False


@dataclass(eq=False)
class Packed:
    """A folder or a file within an archive."""

    name: str
    shown: str
    picture: Picture | None = None
    inside: dict[str, Packed] = field(default_factory=dict)
    folder: bool = False

    @property
    def place(self) -> str:
        """See `Node`."""
        return self.shown

    def children(self) -> list[Packed]:
        """See `Node`."""
        return [self.inside[name] for name in sorted(self.inside)]

    def within(self, name: str) -> Packed:
        """The child of a name, made if it is not there; what has children is a folder."""
        self.folder = True
        before = f"{self.shown}/" if self.shown else ""
        return self.inside.setdefault(name, Packed(name, before + shown(name)))
