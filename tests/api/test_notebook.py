from __future__ import annotations

import ast
import json
from contextlib import chdir
from pathlib import Path

NOTEBOOK = Path(__file__).parents[2] / "examples" / "first_classifier.ipynb"


def test_the_notebook_runs_and_shows_what_its_cells_end_with(tmp_path):
    """Cells share one program, and what a cell ends with is shown as a notebook would show it."""
    names: dict[str, object] = {}
    shown = []
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    with chdir(tmp_path):
        for cell in cells:
            tree = ast.parse("".join(cell["source"]))
            last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, str(NOTEBOOK), "exec"), names)
            if last is not None:
                value = eval(compile(last, str(NOTEBOOK), "eval"), names)
                for form in ("_repr_html_", "_repr_png_"):
                    shown.append(getattr(value, form)()) if hasattr(value, form) else None
    assert (tmp_path / "report.html").is_file()
    assert any("leave-one-out on 24" in page for page in shown if isinstance(page, str))
    assert sum(isinstance(picture, bytes) for picture in shown) == 3
    assert all(cell["outputs"] == [] for cell in cells)  # what a cell shows is made anew, not kept
