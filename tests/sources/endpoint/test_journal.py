from __future__ import annotations

import signal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from child import BOUND, start, wait_until
from yoro.errors import StoreError
from yoro.sources.endpoint.journal import CallEvent, Journal, Totals

REQUEST = b"r" * 32


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


WRITER = """
import sys
from pathlib import Path
import numpy as np
from yoro.sources.endpoint.journal import CallEvent, Journal
journal, first = Journal(Path(sys.argv[1])), int(sys.argv[2])
for number in range(first, first + int(sys.argv[3])):
    key = number.to_bytes(32, "big")
    journal.write(b"r" * 32, [CallEvent(key)])
    journal.write(b"r" * 32, [CallEvent(key, vector=np.full(8, number, np.float32))])
    print(number, flush=True)
"""


def test_processes_that_share_a_journal_lose_nothing(tmp_path):
    children = [start("-c", WRITER, tmp_path / "j.sqlite", 100 * i, 40) for i in range(3)]
    assert [child.wait(BOUND) for child in children] == [0, 0, 0]
    journal = Journal(tmp_path / "j.sqlite")
    assert journal.totals(REQUEST) == Totals(answered=120, sent=120, lost=0)
    found = journal.vectors([key(100 * i + n) for i in range(3) for n in range(40)], 8)
    assert all((vector == int.from_bytes(name, "big")).all() for name, vector in found.items())


def test_what_was_written_before_a_kill_is_there(tmp_path):
    said = tmp_path / "said"
    with said.open("w") as sink:
        child = start("-c", WRITER, tmp_path / "j.sqlite", 0, 1_000_000, stdout=sink)
    wait_until(lambda: len(said.read_text().splitlines()) > 30, child)
    child.send_signal(signal.SIGKILL)
    child.wait(BOUND)
    told = [int(line) for line in said.read_text().splitlines() if line]
    journal = Journal(tmp_path / "j.sqlite")
    assert set(journal.vectors([key(number) for number in told])) == {key(number) for number in told}
    assert journal.totals(REQUEST).lost <= 1


EVENTS = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["sent", "failed", "answered", "lost"])), max_size=30)


@given(EVENTS)
def test_totals_are_those_of_counting_by_hand(tmp_path_factory, events):
    """Each attempt is sent, and then fails, is answered, or is never heard of again."""
    path = tmp_path_factory.mktemp("journal") / "j.sqlite"
    journal, by_hand = Journal(path), {"sent": 0, "lost": 0}
    done = set[int]()
    for number, fate in events:
        if number in done:
            continue
        journal.write(REQUEST, [CallEvent(key(number))])
        by_hand["sent"] += 1
        if fate == "answered":
            journal.write(REQUEST, [CallEvent(key(number), vector=np.ones(3, np.float32))])
            done.add(number)
        elif fate == "failed":
            journal.write(REQUEST, [CallEvent(key(number), failed=True)])
        else:
            by_hand["lost"] += 1
    assert journal.totals(REQUEST) == Totals(len(done), **by_hand)
    assert journal.totals(b"another") == Totals(0, 0, 0)
    journal.close()


def test_a_damaged_or_closed_journal_is_an_error_that_says_so(tmp_path):
    (tmp_path / "j.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(StoreError, match=r"cannot be opened \(file is not a database\)"):
        Journal(tmp_path / "j.sqlite")
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be opened"):
        Journal(tmp_path / "file" / "j.sqlite")


def test_a_damaged_answer_is_asked_for_again(tmp_path):
    journal = Journal(tmp_path / "j.sqlite")
    journal.write(
        REQUEST, [CallEvent(key(1), vector=np.ones(4, np.float32)), CallEvent(key(2), vector=np.ones(4, np.float32))]
    )
    for odd in (b"123", b"", np.full(4, np.nan, "<f4").tobytes(), np.ones(5, "<f4").tobytes(), "text"):
        journal._database.execute("UPDATE calls SET vector = ? WHERE key = ?", (odd, key(1)))
        assert set(journal.vectors([key(1), key(2)], 4)) == {key(2)}


def test_looking_makes_no_file(tmp_path):
    assert Journal(tmp_path / "a" / "j.sqlite", create=False).width(REQUEST) is None
    assert not (tmp_path / "a").exists()
