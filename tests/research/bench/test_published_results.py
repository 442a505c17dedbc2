"""The results in docs/results are those of a plan, and the page shows what they say."""

from __future__ import annotations

from pathlib import Path

import command_line
from yoro.research.bench.plan import read_plan
from yoro.research.bench.results import CellResult, PlanEntry, Results, entries, name_of
from yoro.research.bench.tables.table_writers import DASH

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "docs" / "results"
IMAGES = {"lite0-watermark": "200 a class", "whole": "all"}


def published(plan: str) -> list[tuple[PlanEntry, CellResult]]:
    listed, said = entries(read_plan(ROOT / "configs" / f"{plan}.toml"), Results(PUBLISHED))
    assert not said  # none is damaged, of another edition, or from another copy of the data
    return [(entry, entry.result) for entry in listed if entry.result]


def test_every_published_cell_is_one_of_its_plan_under_its_own_name():
    found = [*published("house-numbers"), *published("reachable")]
    names = {f"{name_of(result.cell, result.depends)}.json" for _, result in found}
    assert len(names) == len(found)
    assert names == {path.name for path in (PUBLISHED / "cells").iterdir()}


def test_the_page_has_the_accuracies_and_curves_of_house_numbers():
    page = (ROOT / "docs" / "reachable.md").read_text()
    for entry, found in published("house-numbers"):
        assert f"| `{entry.method}` | {IMAGES[entry.setting]} | {100 * found.accuracy:.1f} |" in page
        for epoch in found.epochs:
            loss = DASH if epoch.loss is None else f"{epoch.loss:.2f}"
            assert f"| {epoch.epoch} | {loss} | {100 * epoch.accuracy:.1f} |" in page


def test_the_page_has_the_tables_of_the_published_cells():
    page = (ROOT / "docs" / "reachable.md").read_text()
    printed = command_line.run("bench", "table", ROOT / "configs" / "reachable.toml", "--results", PUBLISHED).stdout
    rows = [line for line in printed.partition("## Gain over")[0].splitlines() if line.startswith("|")]
    assert len(rows) > 20
    for row in rows:
        assert row in page
