from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.discriminant.reservoir import Reservoir
from yoro.errors import InputError
from yoro.mappings.batches import row_digests

RESPONSES = np.random.default_rng(0).normal(size=(200, 3)).astype(np.float32)
LABELS = np.array([f"c{i % 4}" for i in range(200)])
DIGESTS = row_digests(RESPONSES)


def filled(rows, capacity=50, groups=None, batch=7, seed=0) -> Reservoir:
    reservoir = Reservoir(capacity, seed)
    rows = list(rows)
    for i in range(0, len(rows), batch):
        part = rows[i : i + batch]
        names = None if groups is None else [groups[j] for j in part]
        reservoir.add(RESPONSES[part], LABELS[part].tolist(), [DIGESTS[j] for j in part], groups=names)
    return reservoir


def same(one: Reservoir, two: Reservoir) -> None:
    a, b = one.members(), two.members()
    np.testing.assert_array_equal(a.responses, b.responses)
    assert a.labels.tolist() == b.labels.tolist()
    assert a.groups.tolist() == b.groups.tolist()


@given(st.permutations(range(200)), st.integers(1, 64))
def test_what_is_kept_depends_on_contents_alone(order, batch):
    reservoir = filled(order, batch=batch)
    assert len(reservoir) == 50
    same(reservoir, filled(range(200)))


@given(st.lists(st.integers(0, 3), min_size=200, max_size=200), st.booleans())
def test_reservoirs_merge_into_that_of_the_union(owners, grouped):
    groups = [f"g{i // 6}" for i in range(200)] if grouped else None
    parts = [filled([i for i in range(200) if owners[i] == o], groups=groups) for o in range(4)]
    merged = parts[0].merge(parts[1]).merge(parts[2].merge(parts[3]))
    same(merged, filled(range(200), groups=groups))


def test_groups_are_kept_whole():
    groups = [f"g{i // 6}" for i in range(200)]
    kept = filled(range(200), groups=groups).members()
    names, counts = np.unique(kept.groups, return_counts=True)
    assert 44 <= len(kept) <= 50
    assert all(count == groups.count(name) for name, count in zip(names, counts, strict=True))


def test_everything_is_kept_while_there_is_room_and_other_seeds_draw_others():
    assert len(filled(range(40))) == 40
    one, two = (set(map(bytes, filled(range(200), seed=s).members().responses)) for s in (0, 1))
    assert one != two


def test_the_draw_is_even_over_classes():
    counts = np.unique(filled(range(200), capacity=100).members().labels, return_counts=True)[1]
    assert counts.min() >= 12


def test_removal_takes_entries_out_and_later_data_cannot_bring_others_back():
    reservoir = filled(range(200))
    gone = list(range(100))
    reservoir.remove([DIGESTS[i] for i in gone], LABELS[gone].tolist())
    kept = {bytes(row) for row in filled(range(200)).members().responses}
    expected = {bytes(RESPONSES[i]) for i in range(100, 200)} & kept
    assert {bytes(row) for row in reservoir.members().responses} == expected


def test_removal_is_once_for_each_time_named():
    reservoir = Reservoir(10)
    for _ in range(3):
        reservoir.add(RESPONSES[:1], ["a"], DIGESTS[:1])
    reservoir.remove(DIGESTS[:1], ["b"])
    assert len(reservoir) == 3
    reservoir.remove(DIGESTS[:1], ["a"])
    assert len(reservoir) == 2


def test_arrays_come_and_go_and_damage_is_noticed():
    reservoir = filled(range(200), groups=[f"g{i // 6}" for i in range(200)])
    arrays, facts = reservoir.to_arrays()
    back = Reservoir.from_arrays(arrays, facts, 3)
    same(back, reservoir)
    assert back.threshold == reservoir.threshold
    with pytest.raises(InputError, match="damaged"):
        Reservoir.from_arrays(arrays, facts, 4)
    with pytest.raises(InputError, match="damaged"):
        Reservoir.from_arrays(arrays | {"labels": arrays["labels"] + 100}, facts, 3)


def test_pickling_leaves_the_empty_room_behind():
    reservoir = Reservoir(8192)
    reservoir.add(RESPONSES[:5], LABELS[:5].tolist(), DIGESTS[:5])
    content = pickle.dumps(reservoir)
    assert len(content) < 5000
    same(pickle.loads(content), reservoir)


def test_digests_see_numbers_not_types():
    assert row_digests(RESPONSES) == row_digests(np.asfortranarray(RESPONSES.astype(np.float64)))
    assert len(set(DIGESTS)) == 200
