"""The page of a comparison."""

from __future__ import annotations

from dataclasses import replace

from yoro.research.peers import compare as comparing
from yoro.research.peers.comparison_page import comparison_html


def test_names_of_strangers_are_escaped_on_the_page():
    row = comparing.Row("<b>", 0.5, None, (0.5,), 0.1, 10.0, 1.0, 1, (), None, ("<i>careful</i>",))
    page = comparison_html(comparing.Comparison((row, replace(row, accuracy=None, reason="<u>")), {"Source": "<s>"}))
    assert not any(tag in page for tag in ("<b>", "<i>", "<u>", "<s>"))
    assert "Accuracy against cost" not in comparison_html(comparing.Comparison((), {}))
