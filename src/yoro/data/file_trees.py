"""Trees of folders and image files: on a disk, within an archive or at a URL."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from yoro.data.examples import Picture, shown


@dataclass(eq=False)
class Node:
    """A folder or a file of a tree that is held in memory, as that of an archive is."""

    name: str
    shown: str  # the path from the root on, as people are shown it
    folder: bool = False
    picture: Picture | None = None  # what to read; None for what is not a file, such as a pipe
    inside: dict[str, Node] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where it really is: two links to one folder have the same place."""
        return self.shown

    def children(self) -> Sequence[Node]:
        """What a folder holds, sorted by name; an OSError if it cannot be opened."""
        return [self.inside[name] for name in sorted(self.inside)]

    def within(self, name: str) -> Node:
        """The child of a name, created if it is not there; what has children is a folder."""
        self.folder = True
        return self.inside.setdefault(name, Node(name, self.below(name)))

    def below(self, name: str) -> str:
        """The shown path of a child."""
        return f"{self.shown}/{shown(name)}" if self.shown else shown(name)


@dataclass(eq=False)
class DiskNode(Node):
    """A folder or a file on a disk; a folder is listed when its children are asked for."""

    path: Path = Path()

    @property
    def place(self) -> str:
        return os.path.realpath(self.path)

    def children(self) -> list[Node]:
        with os.scandir(self.path) as entries:
            return [self._child(entry) for entry in sorted(entries, key=lambda entry: entry.name)]

    def _child(self, entry: os.DirEntry[str]) -> Node:
        path = Path(entry.path)
        picture = path if entry.is_symlink() or entry.is_file() else None
        return DiskNode(entry.name, self.below(entry.name), _is_dir(entry), picture, path=path)


def on_disk(root: Path) -> Node:
    """A folder as the root of a tree."""
    return DiskNode((root if root.name else root.resolve()).name, "", folder=True, path=root)


def _is_dir(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder or a link to one; a link that leads in a circle is not."""
    try:
        return entry.is_dir()
    except OSError:
        return False
