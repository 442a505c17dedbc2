"""The claims of the paper's text, from the cells and from the tables that it prints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from research.bench.bench_cases import filled, plan_of, result, setting
from yoro.research.bench.plan import read_plan
from yoro.research.bench.results import Results, entries
from yoro.research.bench.tables.plan_tables import bench_tables
from yoro.research.bench.tables.table import TableCell

CONFIGS = Path(__file__).parents[4] / "configs"


def claims_of(name: str, folder: Path, variant: str = "published") -> dict[tuple[str, str], TableCell]:
    plan = read_plan(CONFIGS / f"{name}.toml", variant)
    (table,) = (one for one in bench_tables(plan, entries(plan, Results(folder))[0]) if one.name == "claims")
    return {(row.head.group, row.head.title): row.cells[0] for row in table.rows}


def test_the_ranges_of_the_abstract_follow_from_the_papers_tables(tmp_path: Path) -> None:
    found = [*claims_of("padding", tmp_path).items(), *claims_of("watermark", tmp_path).items()]
    for words, low, high in (("the best gradient-free mapping", 18.4, 24.4), ("the learned linear mapping", 6.3, 12.3)):
        gains = [cell.paper[0] for (_, title), cell in found if title == f"YORO over {words}"]
        assert len(gains) == 3
        assert (min(gains), max(gains)) == pytest.approx((low, high), abs=0.051), "averages are printed with a decimal"


def test_the_gains_over_dvp_follow_from_the_papers_tables(tmp_path: Path) -> None:
    found = claims_of("clip-summary", tmp_path)
    gains = [cell.paper[0] for (_, title), cell in found.items() if title == "YORO over DVP"]
    assert gains == pytest.approx([8.4, 8.0, 5.2, 1.5, 5.8], abs=0.11), "the last is 71.4 to 77.2 of the abstract"
    assert found["Few-shot, all 4 settings", "YORO over DVP"].paper == pytest.approx((5.8,))


@pytest.mark.parametrize(
    ("plan", "claim", "gains"),
    [
        ("svhn", "YORO-FP over YORO", [4.7, 12.1, 24.1]),
        ("update-full", "YORO-FP over YORO", [0.6, 2.4, 1.1, 1.3]),
        ("update-clip", "YORO-FP over YORO", [-0.5, -0.1, -0.2, 0.2, -0.2]),
        ("legacy-padding", "YORO over the best gradient-free mapping", [8.0, 13.6]),
        ("external", "YORO over Tip-Adapter", [2.8]),
    ],
)
def test_the_other_gains_of_the_text_follow_from_the_papers_tables(plan, claim, gains, tmp_path: Path) -> None:
    found = claims_of(plan, tmp_path, "protocol")
    assert [cell.paper[0] for (_, title), cell in found.items() if title == claim] == pytest.approx(gains, abs=0.11)


def test_all_seven_refinement_shares_are_rows(tmp_path: Path) -> None:
    found = claims_of("refinement-shares", tmp_path, "protocol")
    shares = [cell.paper for (_, title), cell in found.items() if title == "Runs that keep epoch 0"]
    assert len(shares) == 8, "the seven, and the four CLIP networks together"
    assert sorted(share[0] for share in shares if share) == [54.8, 58.3, 72.7, 78.6], "the text prints four of them"
    assert found["All seven settings", "Settings where most runs keep epoch 0"].paper == (5,)


def test_settings_where_most_runs_keep_epoch_zero_are_counted(tmp_path: Path) -> None:
    plan = replace(read_plan(CONFIGS / "refinement-shares.toml"), show=("claims",))
    later = {"clip-vit-b16": 3, "rnxt101-padding": 20}  # the chosen epoch of every run
    found, _ = filled(plan, tmp_path, lambda entry: result(entry, 70, depth=later.get(entry.setting, 0)))
    (table,) = bench_tables(plan, found)
    last = table.rows[-1]
    assert last.head.title == "Settings where most runs keep epoch 0"
    assert (last.cells[0].values, last.cells[0].paper) == ((5.0,), (5,))


def test_claims_are_computed_from_the_cells(tmp_path: Path) -> None:
    plan = plan_of(
        show=["claims"],
        methods=["yoro", "blm", "flm", "deep"],
        method={},
        settings=[setting("one"), setting("two", datasets=["dtd"])],
    )
    right = {"yoro": 70, "blm": 50, "flm": 55, "deep": 61}
    found, _ = filled(plan, tmp_path, lambda entry: result(entry, right[entry.method], widths=(1000, 7940)))
    (table,) = bench_tables(plan, found)
    first = {row.head.title: row.cells[0] for row in table.rows if row.head.group == "ONE"}
    assert first["YORO over the best gradient-free mapping"].values == pytest.approx((15.0,))
    assert first["YORO over the learned linear mapping"].values == pytest.approx((9.0,))
    held, whole = first["Second moment held"], first["Second moment of the whole response"]
    assert (held.values[0], whole.values[0]) == pytest.approx((7.6, 481.0), abs=0.05)
    assert (held.paper, whole.paper) == ((7.6,), (481.0,))
