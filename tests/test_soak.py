"""Long runs, short: the programs of `make soak` do what they say, and what they measure holds."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from child import finish

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def table(*words: object) -> list[list[str]]:
    """The rows that a benchmark prints, without its titles."""
    done = finish(*words, cwd=BENCHMARKS)
    assert done.returncode == 0, (done.stdout, done.stderr)
    rows = [line.split() for line in done.stdout.rpartition("\n\n")[2].strip().splitlines()[2:]]
    assert rows
    return rows


@pytest.mark.long
def test_a_soak_of_service_and_changes_ends_without_errors_and_draws_its_curves(tmp_path):
    words = ["soak.py", "--seconds", 60, "--requests", 60, "--changes", 30, "--out", tmp_path / "soak.png"]
    service, changes = table(*words)
    assert (service[0], changes[0]) == ("service", "changes")
    assert int(service[1]) >= 60
    assert int(changes[1]) == 30
    assert service[-2:] == ["0", "errors"]
    assert float(changes[6]) < 1e-9
    with Image.open(tmp_path / "soak.png") as picture:
        assert picture.size == (1100, 660)


def flat(rows: list[list[str]], first: int) -> None:
    """Memory without the ledger grows by less than 5 % from a row on, where the reservoir is full."""
    memory = [float(row[2]) - float(row[3]) for row in rows]
    assert max(memory[first:]) < 1.05 * memory[first]


@pytest.mark.long
def test_memory_stays_flat_as_images_grow():
    rows = table("million.py", "--most", 30_000, "--width", 32, "--reservoir", 500)
    assert [row[0] for row in rows] == ["1,024", "10,240", "30,000"]
    assert {row[4] for row in rows} == {"500"}
    assert float(rows[-1][3]) == pytest.approx(20 * 30_000 / 2**20, abs=0.06)
    flat(rows, 1)


@pytest.mark.long
def test_memory_stays_flat_up_to_a_million_images():
    rows = table("million.py", "--width", 64)
    assert rows[-1][0] == "1,000,000"
    flat(rows, 1)
