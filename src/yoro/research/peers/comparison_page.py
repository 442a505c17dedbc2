"""The page of a comparison: a plot of accuracy against cost, and the table."""

from __future__ import annotations

from yoro.reports.page import render
from yoro.reports.svg import Point, cost_plot
from yoro.research.peers.compare import Comparison

OURS = "bdm"  # the default of this package, drawn in colour


def comparison_html(comparison: Comparison, title: str = "Comparison of methods") -> str:
    """The whole page, to be written as UTF-8; it needs nothing besides itself."""
    points = [
        Point(row.method, row.fit_seconds or 0.0, row.accuracy or 0.0, row.deviation or 0.0, ours=row.method == OURS)
        for row in comparison.ran
    ]
    return render(
        "comparison.html",
        title=title,
        facts=comparison.facts,
        plot=cost_plot(points) if points else "",
        ran=comparison.ran,
        refused=[row for row in comparison.rows if row.accuracy is None],
    )
