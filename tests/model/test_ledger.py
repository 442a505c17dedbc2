from __future__ import annotations

import hashlib
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yoro.errors import InputError, StatisticsError
from yoro.model.ledger import Ledger

ENTRIES = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["cat", "dog", "owl"])), max_size=30)


def content(number: int) -> bytes:
    """Contents 0 and 1 begin with the same eight bytes: found together, told apart by the rest."""
    digest = hashlib.blake2b(str(max(number, 1)).encode(), digest_size=16).digest()
    return digest[:8] + b"another!" if number == 0 else digest


def ledger_of(entries) -> Ledger:
    ledger = Ledger()
    ledger.add([content(number) for number, _ in entries], [label for _, label in entries])
    return ledger


def pairs(entries):
    return [(content(number), label) for number, label in entries]


@given(ENTRIES, ENTRIES)
def test_it_is_a_list_of_entries_under_every_change(one, two):
    first, second = ledger_of(one), ledger_of(two)
    assert first.entries() == pairs(one)
    both = first.merge(second)
    assert both.entries() == pairs(one) + pairs(two)
    assert both.entries(start=len(one)) == pairs(two)
    assert first.contains(second.entries()) == [entry in one for entry in two]
    both.remove([content(number) for number, _ in two], [label for _, label in two])
    assert Counter(both.entries()) == Counter(pairs(one))
    first.rename({"cat": "dog"})
    assert first.entries() == [(digest, "dog" if label == "cat" else label) for digest, label in pairs(one)]
    again = Ledger.from_arrays(*first.to_arrays())
    assert again.entries() == first.entries()
    assert again.holds([content(i) for i in range(8)]) == [any(n == i for n, _ in one) for i in range(8)]


@given(ENTRIES)
def test_contents_that_are_there_twice_are_found(entries):
    counts = Counter(number for number, _ in entries)
    found = {row for row, _, _ in ledger_of(entries).repeated() if counts[entries[row][0]] > 1}
    assert found == {row for row, (number, _) in enumerate(entries) if counts[number] > 1}


def test_only_what_was_added_can_be_removed():
    ledger = ledger_of([(1, "cat"), (2, "dog")])
    with pytest.raises(StatisticsError, match=r"1 of 1 cannot be removed; the first is a\.jpg of class 'dog'"):
        ledger.check([content(1)], ["dog"], ["a.jpg"])
    with pytest.raises(StatisticsError, match="never added"):
        ledger.check([content(5)], ["dog"], ["b.jpg"])
    with pytest.raises(StatisticsError, match="1 of 2"):
        ledger.check([content(1)] * 2, ["cat"] * 2, ["a.jpg", "a.jpg"])


def test_a_copy_is_independent():
    ledger = ledger_of([(1, "cat")] * 2000)
    copy = ledger.copy()
    copy.remove([content(1)], ["cat"])
    assert (len(ledger), len(copy)) == (2000, 1999)


@pytest.mark.parametrize("damage", ["missing", "code", "shape", "type"])
def test_a_damaged_list_of_contents_is_refused(damage):
    arrays, names = ledger_of([(1, "cat")]).to_arrays()
    changed = {
        "missing": {"digests": arrays["digests"]},
        "code": {**arrays, "digest_labels": np.array([7], dtype=np.int32)},
        "shape": {**arrays, "digests": arrays["digests"][:, :8]},
        "type": {**arrays, "digest_labels": np.array([0], dtype=np.int64)},
    }[damage]
    with pytest.raises(InputError, match="image hashes"):
        Ledger.from_arrays(changed, names)


def test_no_change_looks_at_every_entry_one_by_one(monkeypatch):
    rng = np.random.default_rng(0)
    digests = [rng.bytes(16) for _ in range(20_000)]
    ledger = Ledger()
    ledger.add(digests, ["a"] * len(digests))
    looked = []
    entries = Ledger._entries
    monkeypatch.setattr(Ledger, "_entries", lambda self, rows: entries(self, [looked.append(r) or r for r in rows]))
    ledger.check(digests[3:4], ["a"], ["x"])
    ledger.remove(digests[3:4], ["a"])
    assert len(looked) <= 4
