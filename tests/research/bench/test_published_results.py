"""The results in docs/results are those of a plan, and the page shows what they say."""

from __future__ import annotations

from pathlib import Path

from yoro.research.bench.plan import read_plan
from yoro.research.bench.results import CellResult, PlanEntry, Results, entries, name_of
from yoro.research.bench.tables.table_writers import DASH

ROOT = Path(__file__).parents[3]
PUBLISHED = ROOT / "docs" / "results"
IMAGES = {"lite0-watermark": "200 a class", "whole": "all"}


def published() -> list[tuple[PlanEntry, CellResult]]:
    listed, said = entries(read_plan(ROOT / "configs" / "house-numbers.toml"), Results(PUBLISHED))
    assert not said  # none is damaged, of another edition, or from another copy of the data
    return [(entry, entry.result) for entry in listed if entry.result]


def test_every_published_cell_is_one_of_its_plan_under_its_own_name():
    names = {f"{name_of(found.cell, found.depends)}.json" for _, found in published()}
    assert names
    assert names == {path.name for path in (PUBLISHED / "cells").iterdir()}


def test_the_page_has_the_accuracies_and_curves_of_the_published_cells():
    page = (ROOT / "docs" / "reachable.md").read_text()
    for entry, found in published():
        assert f"| `{entry.method}` | {IMAGES[entry.setting]} | {100 * found.accuracy:.1f} |" in page
        for epoch in found.epochs:
            loss = DASH if epoch.loss is None else f"{epoch.loss:.2f}"
            assert f"| {epoch.epoch} | {loss} | {100 * epoch.accuracy:.1f} |" in page
