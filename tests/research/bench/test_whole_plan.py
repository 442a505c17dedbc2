"""The small plan as a user runs it: killed on the way, resumed, and made into tables, figures and a page."""

from __future__ import annotations

import csv
import json
import re
import signal
from pathlib import Path

import pytest

from child import start, wait_until
from command_line import Ended, run
from yoro.research.bench.plan import read_plan
from yoro.research.bench.results import Results, entries
from yoro.research.bench.tables.table_writers import DASH

ROOT = Path(__file__).parents[3]
CELLS = 3 * 2 * 9 * 2  # datasets, sources, methods, seeds


@pytest.fixture(scope="module")
def plan(tmp_path_factory) -> Path:
    """configs/small.toml with fewer images on a smaller canvas."""
    text = (ROOT / "configs" / "small.toml").read_text()
    text, limits = re.subn(r"limit = .*", "limit = { train = 5, val = 2, test = 5 }", text)
    text, sides = re.subn(r"side=96", "side=64", text)
    assert (limits, sides) == (1, 2)
    path = tmp_path_factory.mktemp("whole") / "small.toml"
    path.write_text(text)
    return path


@pytest.mark.long
@pytest.mark.torch
def test_the_small_plan_is_killed_resumed_and_shown(plan: Path, fashion_root: Path, sheets_root: Path):
    pytest.importorskip("torch")
    roots = ["--data", str(fashion_root), "--data", str(sheets_root)]
    cells = plan.parent / "results" / "cells"

    running = start("-m", "yoro", "bench", "run", plan.name, *roots, "-q", cwd=plan.parent)
    try:
        wait_until(lambda: len(list(cells.glob("*.json"))) >= 30, running)
    finally:
        running.send_signal(signal.SIGKILL)
        running.wait()
    before = {path: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert 30 <= len(before) < CELLS

    def yoro(*rest: str) -> Ended:
        return run("bench", *rest, cwd=plan.parent)

    states = [cell["state"] for cell in json.loads(yoro("run", plan.name, *roots, "--dry-run", "--json").stdout)]
    assert (states.count("finished"), states.count("to run")) == (len(before), CELLS - len(before))
    tally = json.loads(yoro("run", plan.name, *roots, "--json").stdout)
    assert (tally["found"], tally["computed"], tally["failed"]) == (len(before), CELLS - len(before), 0)
    assert {path: path.stat().st_mtime_ns for path in before} == before

    shown = yoro("table", plan.name, "--html", "small.html")
    assert "EfficientNet-Lite0, 96 pixels" in shown.stdout
    assert DASH not in shown.stdout  # nothing is missing
    assert shown.stderr == "Report written to small.html\n"
    page = (plan.parent / "small.html").read_text()
    assert page.count("<svg") >= 3
    rows = list(csv.DictReader(yoro("table", plan.name, "--format", "csv").stdout.splitlines()))
    assert len(rows) >= 2 * 3 * 9
    assert "\\toprule" in yoro("table", plan.name, "--format", "latex").stdout
    found, odd = entries(read_plan(plan), Results(plan.parent / "results"))
    assert not odd
    mean = {method: sum(e.result.accuracy for e in found if e.method == method) / 12 for method in ("yoro", "flm")}
    assert mean["yoro"] > 0.4  # of ten classes, from five images of each
    assert mean["yoro"] > mean["flm"]
