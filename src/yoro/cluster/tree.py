"""The tree by which the shards of blocks are added up: which of it is there, what can be added, what is left over."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

FAN_IN = 16  # shards that are added at once; a shard is then read and written once more for every 16-fold of blocks


@dataclass(frozen=True)
class TreeNode:
    """A shard by its place in the tree; a leaf is that of a block."""

    level: int
    index: int  # among those of its level, in the order of the blocks
    digest: str
    children: tuple[TreeNode, ...] = field(default=(), repr=False)

    @property
    def name(self) -> str:
        """The name of its file, with its digest, so that a shard of other data is not mistaken for it."""
        return f"{self.level}-{self.index:09d}-{self.digest[:20]}.stats"


def grow(digests: Sequence[str]) -> list[list[TreeNode]]:
    """The levels of the tree over these blocks, leaves first; the last has one node, the root.

    The tree is that of the blocks alone: sums do not depend on which of them was finished first.
    """
    levels = [[TreeNode(0, i, digest) for i, digest in enumerate(digests)]]
    while len(below := levels[-1]) > 1:
        groups = [tuple(below[start : start + FAN_IN]) for start in range(0, len(below), FAN_IN)]
        sums = [joined([node.digest for node in group]) for group in groups]
        levels.append([TreeNode(len(levels), i, sums[i], group) for i, group in enumerate(groups)])
    return levels


def joined(digests: Sequence[str]) -> str:
    """The digest of several, in their order."""
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def missing(root: TreeNode, names: Collection[str]) -> list[int]:
    """Indices of the blocks that no shard covers."""
    return [node.index for node in _uncovered(root, names) if not node.children]


def left_over(root: TreeNode, names: Collection[str]) -> set[str]:
    """Shards that are not needed: another shard covers them, or they are of other data."""
    wanted: set[str] = set()
    stack = [root]
    while stack:
        node = stack.pop()
        if node.name in names:
            wanted.add(node.name)
        else:
            stack += node.children
    return set(names) - wanted


def ready(levels: Sequence[Sequence[TreeNode]], names: Collection[str]) -> list[TreeNode]:
    """Nodes that can be added up now: they are not there, nor one above them, and all their children are."""
    lacking = [node for node in _uncovered(levels[-1][0], names) if node.children]
    return [node for node in lacking if all(child.name in names for child in node.children)]


def parent(levels: Sequence[Sequence[TreeNode]], node: TreeNode) -> TreeNode | None:
    """The node that one is added to; None of the root."""
    return levels[node.level + 1][node.index // FAN_IN] if node.level + 1 < len(levels) else None


def _uncovered(root: TreeNode, names: Collection[str]) -> Iterator[TreeNode]:
    stack = [root]
    while stack:
        node = stack.pop()
        if node.name not in names:
            yield node
            stack += reversed(node.children)
