"""What the page on extending says, done: a dataset, a source, a mapping and a method, each in one file."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").iterdir() if path.suffix in (".py", ".toml"))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name in EXAMPLES:
        shutil.copy(ROOT / "examples" / name, tmp_path)
    return tmp_path


def yoro(work: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "yoro", *words], cwd=work, capture_output=True, text=True)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_page_shows_the_files_as_they_are(name: str):
    assert (ROOT / "examples" / name).read_text() in (ROOT / "docs" / "extending.md").read_text()


def test_everything_of_ones_own_runs_in_one_plan(work: Path):
    planned = json.loads(yoro(work, "bench", "run", "own_plan.toml", "--dry-run", "--json").stdout)
    assert len(planned) == 2 * 4 * 2
    assert {cell["state"] for cell in planned} == {"to run"}
    done = yoro(work, "bench", "run", "own_plan.toml", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["computed"] == 16
    rows = json.loads(yoro(work, "bench", "table", "own_plan.toml", "--json").stdout)
    mean = {(row["dataset"], row["method"]): row["accuracy"] for row in rows}
    assert mean["own_dataset:DATASET", "yoro"] > 60.0  # three classes
    assert mean["own_dataset:DATASET", "prototypes"] > 60.0
    assert mean["digits", "diagonal"] > 80.0
    page = yoro(work, "bench", "table", "own_plan.toml", "--html", "own.html")
    assert "Shapes" in page.stdout
    assert "Prototypes" in (work / "own.html").read_text()


def test_a_changed_method_is_computed_again_and_nothing_else(work: Path):
    yoro(work, "bench", "run", "own_plan.toml", "--quiet")
    source = (work / "own_method.py").read_text()
    (work / "own_method.py").write_text(source.replace("KMeans(3,", "KMeans(2,"))
    tally = json.loads(yoro(work, "bench", "run", "own_plan.toml", "--json").stdout)
    assert (tally["found"], tally["computed"]) == (12, 4)


def test_compare_takes_a_method_of_ones_own(work: Path):
    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    np.savez(work / "digits.npz", responses=digits.data.astype(np.float32), labels=digits.target.astype(str))
    done = yoro(work, "compare", "digits.npz", "--methods", "own_method:METHOD,own_mapping:METHOD,bdm", "--json")
    assert done.returncode == 0, done.stderr
    accuracy = {row["method"]: row["accuracy"] for row in json.loads(done.stdout)}
    assert min(accuracy.values()) > 0.8
    assert set(accuracy) == {"own_method:METHOD", "own_mapping:METHOD", "bdm"}
    wrong = yoro(work, "compare", "digits.npz", "--methods", "own_methods:METHOD")
    assert wrong.returncode == 2
    assert "cannot be imported" in wrong.stderr
