"""A page about a classifier, to look at in a notebook or to save."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from yoro.files.atomic import write_file
from yoro.model.metrics import Evaluation, percent_text
from yoro.model.store import check_output


@dataclass(frozen=True)
class Report:
    """A whole web page that needs nothing besides itself, and the figures on it."""

    html: str = field(repr=False)
    evaluation: Evaluation = field(repr=False)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the page."""
        target = Path(path)
        check_output(target, force=force)
        write_file(target, self.html.encode())
        return target

    def __repr__(self) -> str:
        accuracy = percent_text(self.evaluation.accuracy)
        return f"<yoro report: accuracy {accuracy} of {self.evaluation.n:,}; save(PATH) writes it>"

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" width="100%" height="720" style="border:0"></iframe>'
