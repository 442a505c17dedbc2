"""The results in docs/results are those of a plan, and the page shows what they say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from yoro.research.bench.results import name_of

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def script() -> dict[str, object]:
    """What `python benchmarks/reachable.py` would run."""
    return runpy.run_path(str(ROOT / "benchmarks" / "reachable.py"))


def test_every_published_cell_is_one_of_its_plan_under_its_own_name(script):
    found = [*script["finished"]("house-numbers"), *script["finished"]("reachable")]
    names = {f"{name_of(result.cell, result.depends)}.json" for _, result in found}
    assert len(names) == len(found)
    assert names == {path.name for path in (script["PUBLISHED"] / "cells").iterdir()}


def test_the_page_is_what_the_published_cells_say(script):
    page = script["PAGE"].read_text()
    assert "| `yoro-fp` | 200 a class | 66.0 |" in page
    assert script["written"](page) == page
    assert script["written"](page.replace("| 66.0 |", "| 77.0 |")) == page
