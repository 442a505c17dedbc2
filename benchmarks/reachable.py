"""Writes the tables of docs/reachable.md from the cells in docs/results: python benchmarks/reachable.py.

After a run of the two plans with `--results docs/results` the page says what the cells say.
"""

from __future__ import annotations

from pathlib import Path

from yoro.research.bench.plan import read_plan
from yoro.research.bench.results import CellResult, PlanEntry, Results, entries
from yoro.research.bench.tables.plan_tables import bench_tables
from yoro.research.bench.tables.summary import mean
from yoro.research.bench.tables.table_writers import DASH, MINUS, markdown

ROOT = Path(__file__).parent.parent
PAGE, PUBLISHED = ROOT / "docs" / "reachable.md", ROOT / "docs" / "results"
REFINED = ("yoro-fp", "yoro-refine")
Finished = list[tuple[PlanEntry, CellResult]]


def finished(plan: str) -> Finished:
    """The published results of a plan."""
    listed, said = entries(read_plan(ROOT / "configs" / f"{plan}.toml"), Results(PUBLISHED))
    assert not said, said  # none is damaged, of another edition, or from another copy of the data
    return [(entry, entry.result) for entry in listed if entry.result]


def tables() -> str:
    """The accuracies of `reachable.toml` as `yoro bench table` prints them."""
    plan = read_plan(ROOT / "configs" / "reachable.toml")
    made = [table for table in bench_tables(plan, entries(plan, Results(PUBLISHED))[0]) if table.name == "datasets"]
    return markdown(made).partition("### ")[2].partition("\n- ")[0].strip().join(("## ", "")).replace("### ", "## ")


def refinements() -> str:
    """How often epoch 0 was kept, and what the other runs did to the accuracy on the test images."""
    lines = ["| refined | runs | epoch 0 kept | else better | equal | worse | gain, points |", "| --- " * 7 + "|"]
    for name in ("reachable", "house-numbers"):
        found = finished(name)
        before = {(e.setting, e.dataset, e.seed): r.accuracy for e, r in found if e.method == "yoro"}
        title = {setting.name: setting.title for setting in read_plan(ROOT / "configs" / f"{name}.toml").settings}
        runs: dict[tuple[str, str], Finished] = {}
        for entry, result in found:
            if entry.method in REFINED:
                runs.setdefault((entry.setting, entry.method), []).append((entry, result))
        for (setting, method), mine in runs.items():
            moved = [(r.depth, r.accuracy - before[e.setting, e.dataset, e.seed]) for e, r in mine]
            others = [gain for depth, gain in moved if depth]
            signs = [sum(map(test, others)) for test in (lambda g: g > 0, lambda g: g == 0, lambda g: g < 0)]
            counts = " | ".join(map(str, (len(moved), len(moved) - len(others), *signs)))
            what = f"{'house numbers, ' * (name == 'house-numbers')}{title[setting]}, `{method}`"
            gain = f"{100 * mean([gain for _, gain in moved]):+.1f}".replace("-", MINUS)
            lines.append(f"| {what} | {counts} | {gain} |")
    return "\n".join(lines)


def house_numbers() -> str:
    """The accuracies of `house-numbers.toml`."""
    images = {"lite0-watermark": "200 a class", "whole": "all"}
    lines = ["| method | training images | test accuracy, % |", "| --- " * 3 + "|"]
    lines += [f"| `{e.method}` | {images[e.setting]} | {100 * r.accuracy:.1f} |" for e, r in finished("house-numbers")]
    return "\n".join(lines)


def curves() -> str:
    """Loss and validation accuracy of the two refinements, epoch by epoch."""
    by_method = {e.method: r.epochs for e, r in finished("house-numbers") if e.method in REFINED}
    lines = [
        f"| epoch | {' | '.join(f'loss, `{name}` | validation accuracy, %' for name in by_method)} |",
        "| --- " * (1 + 2 * len(by_method)) + "|",
    ]
    for epoch in range(max(map(len, by_method.values()))):
        cells = []
        for records in by_method.values():
            record = records[epoch] if epoch < len(records) else None
            cells.append(DASH if record is None or record.loss is None else f"{record.loss:.2f}")
            cells.append(DASH if record is None else f"{100 * record.accuracy:.1f}")
        lines.append(f"| {epoch} | {' | '.join(cells)} |")
    return "\n".join(lines)


def written(page: str) -> str:
    """The page with what stands between its marks made anew."""
    for make in (tables, refinements, house_numbers, curves):
        before, mark, rest = page.partition(f"<!-- {make.__name__} -->\n")
        after = rest.partition("<!-- end -->")[2]
        if not mark or not after:
            raise SystemExit(f"The page has no part '{make.__name__}'.")
        page = f"{before}{mark}\n{make()}\n\n<!-- end -->{after}"
    return page


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
