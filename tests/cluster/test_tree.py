from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from yoro.cluster.tree import TreeNode, grow, joined, left_over, missing, parent, ready


def digests(count: int) -> list[str]:
    return [joined([str(i)]) for i in range(count)]


@given(st.integers(1, 400), st.randoms())
def test_every_block_counts_once_in_whatever_order_they_finish(count, rng):
    levels = grow(digests(count))
    root, names, sums = levels[-1][0], set(), {}
    for leaf in rng.sample(levels[0], count):
        names.add(leaf.name)
        sums[leaf.name] = [leaf.index]
        above = parent(levels, leaf)
        while above is not None and all(child.name in names for child in above.children):
            sums[above.name] = [i for child in above.children for i in sums.pop(child.name)]
            names -= {child.name for child in above.children}
            names.add(above.name)
            above = parent(levels, above)
    assert sums == {root.name: list(range(count))}


@given(st.integers(1, 400), st.integers(0, 10_000))
def test_what_is_missing_and_what_is_there_make_the_whole(count, seed):
    levels = grow(digests(count))
    root, every = levels[-1][0], [node for level in levels for node in level]
    rng = random.Random(seed)
    names = {node.name for node in every if rng.random() < 0.4}
    kept = names - left_over(root, names)
    covered = sorted(i for node in every if node.name in kept for i in leaves(node))
    assert sorted(covered + missing(root, names)) == list(range(count))
    assert all(child.name in kept for node in ready(levels, kept) for child in node.children)


def leaves(node: TreeNode) -> list[int]:
    return [i for child in node.children for i in leaves(child)] if node.children else [node.index]


def test_shards_of_other_data_count_for_nothing():
    (mine,), (other,) = grow(digests(1)), grow([joined(["else"])])
    assert left_over(mine[0], {other[0].name}) == {other[0].name}
    assert missing(mine[0], {other[0].name}) == [0]
