"""A comparison as one HTML page that needs nothing besides itself: a plot of accuracy against cost, and the table."""

from __future__ import annotations

from yoro.peers.compare import Comparison, Row
from yoro.reports.charts import name, text
from yoro.reports.cost_plot import PLOT_STYLE, Point, cost_plot
from yoro.reports.report import page

OURS = "bdm"  # the default of this package, drawn in colour
STYLE = ".list small { color: var(--quiet); }\n"


def comparison_html(comparison: Comparison, title: str = "Comparison of methods") -> str:
    """The whole page, to be written as UTF-8."""
    return page(
        title,
        [_head(comparison, title), _plot(comparison), _table(comparison), _refused(comparison)],
        PLOT_STYLE + STYLE,
    )


def _head(comparison: Comparison, title: str) -> str:
    facts = "\n".join(
        f"<div><dt>{text(key)}</dt><dd>{name(value)}</dd></div>" for key, value in comparison.facts.items()
    )
    return f'<header><h1>{text(title)}</h1></header>\n<section><dl class="facts">\n{facts}\n</dl></section>'


def _plot(comparison: Comparison) -> str:
    rows = comparison.ran
    if not rows:
        return ""
    points = [
        Point(row.method, row.fit_seconds or 0.0, row.accuracy or 0.0, row.deviation or 0.0, ours=row.method == OURS)
        for row in rows
    ]
    told = (
        "Each point is a method: the mean accuracy over the seeds, a bar of one deviation up and down, and the median "
        "time of its fit, on a logarithmic axis. Reading the images is the same for all and is not counted. Triangles "
        "at the foot lie lower than the axis goes."
    )
    return f'<section><h2>Accuracy against cost</h2>\n<p class="quiet">{told}</p>\n{cost_plot(points)}</section>'


def _table(comparison: Comparison) -> str:
    if not comparison.ran:
        return ""
    numbers = ("Accuracy", "Deviation", "Fit, s", "Responses/s", "Memory, MB", "Passes")
    head = "<th>Method</th>" + "".join(f'<th class="number">{what}</th>' for what in numbers) + "<th>Needs</th>"
    body = "\n".join(_line(row) for row in comparison.ran)
    return (
        '<section><h2>All methods</h2>\n<div class="scroll"><table class="list">'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div></section>"
    )


def _line(row: Row) -> str:
    spread_of = "&ndash;" if row.deviation is None else f"{100 * row.deviation:.1f}"
    cells = [
        f"{100 * (row.accuracy or 0.0):.1f}\u00a0%", spread_of, f"{row.fit_seconds or 0.0:.2g}",
        f"{row.predict_rate or 0.0:,.0f}", f"{row.memory_mb or 0.0:,.1f}", f"{row.passes:,}",
    ]  # fmt: skip
    notes = "".join(f"<br><small>{text(note, 240)}</small>" for note in row.notes)
    numbers = "".join(f'<td class="number">{cell}</td>' for cell in cells)
    needs = text(", ".join(row.needs)) or "&ndash;"
    return f'<tr><th scope="row">{text(row.method)}{notes}</th>{numbers}<td>{needs}</td></tr>'


def _refused(comparison: Comparison) -> str:
    rows = [row for row in comparison.rows if row.accuracy is None]
    if not rows:
        return ""
    body = "\n".join(
        f'<tr><th scope="row">{text(row.method)}</th><td>{name(row.reason or "")}</td>'
        f"<td>{text(', '.join(row.needs))}</td></tr>"
        for row in rows
    )
    head = "<th>Method</th><th>Reason</th><th>Needs</th>"
    return (
        f'<section><h2>Could not run</h2>\n<table class="list"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody></table></section>"
    )
