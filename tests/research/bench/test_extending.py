"""What the page on extending says, done: a dataset, a source, a mapping and a method, each in one file."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from command_line import invoke, run

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("own_*"))


@pytest.fixture
def work(tmp_path: Path) -> Path:
    for name in EXAMPLES:
        shutil.copy(ROOT / "examples" / name, tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_page_shows_the_files_as_they_are(name: str):
    assert (ROOT / "examples" / name).read_text() in (ROOT / "docs" / "extending.md").read_text()


def test_everything_of_ones_own_runs_in_one_plan(work: Path):
    planned = json.loads(run("bench", "run", "own_plan.toml", "--dry-run", "--json", cwd=work).stdout)
    assert len(planned) == 2 * 4 * 2
    assert {cell["state"] for cell in planned} == {"to run"}
    done = run("bench", "run", "own_plan.toml", "--json", cwd=work)
    assert json.loads(done.stdout)["computed"] == 16
    rows = json.loads(run("bench", "table", "own_plan.toml", "--json", cwd=work).stdout)
    mean = {(row["dataset"], row["method"]): row["accuracy"] for row in rows}
    assert mean["own_dataset:DATASET", "yoro"] > 60.0  # three classes
    assert mean["own_dataset:DATASET", "prototypes"] > 60.0
    assert mean["digits", "diagonal"] > 80.0
    page = run("bench", "table", "own_plan.toml", "--html", "own.html", cwd=work)
    assert "Shapes" in page.stdout
    assert "Prototypes" in (work / "own.html").read_text()


def test_a_changed_method_is_computed_again_and_nothing_else(work: Path):
    run("bench", "run", "own_plan.toml", "--quiet", cwd=work)
    source = (work / "own_method.py").read_text()
    (work / "own_method.py").write_text(source.replace("KMeans(3,", "KMeans(2,"))
    tally = json.loads(run("bench", "run", "own_plan.toml", "--json", cwd=work).stdout)
    assert (tally["found"], tally["computed"]) == (12, 4)


def test_compare_takes_a_method_of_ones_own(work: Path):
    import numpy as np
    from sklearn.datasets import load_digits

    digits = load_digits()
    np.savez(work / "digits.npz", responses=digits.data.astype(np.float32), labels=digits.target.astype(str))
    words = ("--methods", "own_method:METHOD,own_mapping:METHOD,bdm", "--json")
    done = run("compare", "digits.npz", *words, cwd=work)
    accuracy = {row["method"]: row["accuracy"] for row in json.loads(done.stdout)}
    assert min(accuracy.values()) > 0.8
    assert set(accuracy) == {"own_method:METHOD", "own_mapping:METHOD", "bdm"}
    wrong = invoke("compare", "digits.npz", "--methods", "own_methods:METHOD", cwd=work)
    assert wrong.code == 2
    assert "cannot import" in wrong.stderr
