"""The notebooks run, without a network, and no cell shows more than a screen."""

from __future__ import annotations

import ast
import io
import json
from contextlib import chdir, redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
NOTEBOOKS = ("photos", "pipeline", "paper")
LINES, WIDTH = 45, 120  # of a screen
ROWS = 25  # of a table


def executed(name: str, folder: Path) -> list[tuple[str, object]]:
    """What each code cell prints, and the value that it ends with; the cells share one program."""
    names: dict[str, object] = {}
    shown = []
    with chdir(folder):
        for source in cells(name):
            tree = ast.parse(source)
            last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
            printed, value = io.StringIO(), None
            with redirect_stdout(printed):
                exec(compile(tree, name, "exec"), names)
                if last is not None:
                    value = eval(compile(last, name, "eval"), names)
            shown.append((printed.getvalue(), value))
    return shown


def cells(name: str) -> list[str]:
    """The code cells; none keeps what it showed."""
    found = [cell for cell in json.loads((EXAMPLES / f"{name}.ipynb").read_text())["cells"] if "outputs" in cell]
    assert all(cell["outputs"] == [] for cell in found)
    return ["".join(cell["source"]) for cell in found]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")

    def run(name: str) -> list[tuple[str, object]]:
        shown = executed(name, tmp_path)
        for printed, value in shown:
            text = printed + ("" if value is None else repr(value))
            assert sum(1 + len(line) // WIDTH for line in text.splitlines()) <= LINES, text
            page = value._repr_html_() if hasattr(value, "_repr_html_") else None
            assert (page or "").count("<tr") <= ROWS, text
            if hasattr(value, "_repr_png_"):
                assert value._repr_png_()
        return shown

    return run


def test_the_notebook_of_photos_finds_the_photo_in_the_wrong_folder_and_saves_a_model(run, tmp_path):
    shown = run("photos")
    assert "flower/astray.jpg -> trees\n" in [printed for printed, _ in shown]
    assert (tmp_path / "mine.yoro" / "config.json").is_file()
    assert "100" in (tmp_path / "report.html").read_text()


@pytest.mark.long
def test_the_notebook_of_pipelines_answers_over_http_and_writes_what_a_browser_runs(run, tmp_path):
    pytest.importorskip("fastapi", reason="needs the extra serve, which `make test` installs")
    packages = ROOT / "tests" / "web" / "node_modules"
    if packages.is_dir():
        (tmp_path / "node_modules").symlink_to(packages, target_is_directory=True)
    shown = run("pipeline")
    assert any("'label': 'temple'" in printed for printed, _ in shown)
    if (packages / "onnxruntime-web").is_dir():
        assert (tmp_path / "site" / "index.html").is_file()
    else:
        assert "npm install onnxruntime-web" in shown[-1][0]


def test_the_notebook_of_the_paper_computes_its_rule_and_a_table_with_a_method_of_ones_own(run):
    shown = run("paper")
    assert "| Dataset" in shown[-1][0]
    assert "Mine" in shown[-1][0]


def test_the_readme_links_every_notebook():
    page = (ROOT / "README.md").read_text()
    assert sorted(path.stem for path in EXAMPLES.glob("*.ipynb")) == sorted(NOTEBOOKS)
    assert all(f"](examples/{name}.ipynb)" in page for name in NOTEBOOKS)
