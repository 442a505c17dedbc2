"""A comparison as one HTML page that needs nothing besides itself: a plot of accuracy against cost, and the table."""

from __future__ import annotations

import math
from collections.abc import Sequence

from yoro.charts import Scale, name, text
from yoro.comparing import Comparison, Row
from yoro.report import page

WIDTH, LEFT, NAMES, ABOVE, BELOW = 760, 58, 150, 34, 50  # of the plot, in its own units; NAMES is the column beside it
GAP = 17  # between two names
LEAST = 1e-4  # seconds: anything faster stands here
OURS = "bdm"  # the default of this package, drawn in colour


def comparison_html(comparison: Comparison, title: str = "Comparison of methods") -> str:
    """The whole page, to be written as UTF-8."""
    return page(title, [_head(comparison, title), _plot(comparison), _table(comparison), _refused(comparison)], STYLE)


STYLE = """
.plot { display: block; width: 100%; max-width: 54rem; height: auto; }
.plot text { fill: var(--quiet); font-size: 12px; font-family: inherit; }
.plot .grid, .plot .lead { stroke: var(--line); }
.plot .whisker { stroke: var(--quiet); }
.plot .point { fill: var(--quiet); stroke: var(--page); }
.plot .ours { fill: rgb(var(--right)); }
.plot text.ours { font-weight: 600; }
.plot .name { fill: var(--ink); }
.list small { color: var(--quiet); }
"""


def _head(comparison: Comparison, title: str) -> str:
    facts = "\n".join(
        f"<div><dt>{text(key)}</dt><dd>{name(value)}</dd></div>" for key, value in comparison.facts.items()
    )
    return f'<header><h1>{text(title)}</h1></header>\n<section><dl class="facts">\n{facts}\n</dl></section>'


def _plot(comparison: Comparison) -> str:
    rows = comparison.ran
    if not rows:
        return ""
    told = (
        "Each point is a method: the mean accuracy over the seeds, a bar of one deviation up and down, and the median "
        "time of its fit, on a logarithmic axis. Reading the images is the same for all and is not counted. Triangles "
        "at the foot lie lower than the axis goes."
    )
    return f'<section><h2>Accuracy against cost</h2>\n<p class="quiet">{told}</p>\n{cost_plot(rows)}</section>'


def cost_plot(rows: Sequence[Row]) -> str:
    """Accuracy over seconds as SVG; names stand in a column beside it, each tied to its point.

    So that the best can be told apart, the axis ends where few are left: methods below stand at its foot.
    """
    height = ABOVE + BELOW + max(300, GAP * len(rows))
    right, foot = WIDTH - NAMES, height - BELOW
    logs = [math.log10(max(row.fit_seconds or 0.0, LEAST)) for row in rows]
    low, high = math.floor(min(logs)), max(math.ceil(max(logs)), math.floor(min(logs)) + 1)
    bottom, top, step = percent_axis([row.accuracy or 0.0 for row in rows])

    def across(log: float) -> float:
        return LEFT + 12 + (log - low) / (high - low) * (right - LEFT - 40)

    def up(value: float) -> float:
        return foot - (min(max(value, bottom), top) - bottom) / (top - bottom) * (foot - ABOVE)

    parts = [_axes(range(low, high + 1), across, _ticks(bottom, top, step), up, right, foot)]
    places = spread([up(row.accuracy or 0.0) for row in rows], GAP, ABOVE, foot)
    for row, log, place in zip(rows, logs, places, strict=True):
        parts.append(_mark(row, across(log), up, place, right, below=(row.accuracy or 0.0) < bottom))
    about = f"Accuracy of {len(rows)} methods over the seconds of their fits; the table below has the numbers."
    return f'<svg class="plot" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{about}">{"".join(parts)}</svg>'


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places near those wanted, at least `gap` apart and in the same order, within `low` and `high` if they fit."""
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    placed: list[float] = []
    for i in order:
        placed.append(max(wanted[i], placed[-1] + gap if placed else low))
    limit = high
    for position in range(len(placed) - 1, -1, -1):  # what ran over the end is pushed back
        placed[position] = min(placed[position], limit)
        limit = placed[position] - gap
    result = [0.0] * len(wanted)
    for i, place in zip(order, placed, strict=True):
        result[i] = place
    return result


def percent_axis(values: Sequence[float]) -> tuple[float, float, float]:
    """Ends and step of an axis of shares, at steps a person would choose.

    It reaches down twice as far from the best as the lower quartile does.
    """
    high, quartile = max(values), sorted(values)[len(values) // 4]
    low = min(max(min(values), high - 2 * (high - quartile)), high - 0.02)
    span = high - low
    step = next(step for step in (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5) if span / step <= 6 or step == 0.5)
    top = min(1.0, step * math.ceil(high / step + 0.2))
    return max(0.0, min(step * math.floor(low / step + 1e-9), top - step)), top, step


def _ticks(bottom: float, top: float, step: float) -> list[float]:
    return [bottom + i * step for i in range(round((top - bottom) / step) + 1)]


def _axes(decades: range, across: Scale, ticks: Sequence[float], up: Scale, right: float, foot: float) -> str:
    lines = [
        f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>'
        f'<text x="{LEFT - 8}" y="{up(tick) + 4:.1f}" text-anchor="end">{100 * tick:g} %</text>'
        for tick in ticks
    ]
    marks = [
        f'<line class="grid" x1="{across(decade):.1f}" x2="{across(decade):.1f}" y1="{foot}" y2="{foot + 5}"/>'
        f'<text x="{across(decade):.1f}" y="{foot + 20}" text-anchor="middle">{10.0**decade:g}</text>'
        for decade in decades
    ]
    titles = (
        '<text x="4" y="16">accuracy on the test images</text>'
        f'<text x="{(LEFT + right) / 2:.1f}" y="{foot + 42}" text-anchor="middle">seconds to fit</text>'
    )
    return "".join([*lines, *marks, titles])


def _mark(row: Row, x: float, up: Scale, place: float, right: float, *, below: bool) -> str:
    """A point with its bar of one deviation, its name in the column, and a line between the two."""
    kind = " ours" if row.method == OURS else ""
    value, half = row.accuracy or 0.0, row.deviation or 0.0
    y = up(value)
    route = f"{x:.1f},{y:.1f} {right - 14:.1f},{place:.1f} {right:.1f},{place:.1f}"
    bar = f'<line class="whisker" x1="{x:.1f}" x2="{x:.1f}" y1="{up(value + half):.1f}" y2="{up(value - half):.1f}"/>'
    point = f'<circle class="point{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{6 if kind else 4.5}"/>'
    if below:
        point = f'<path class="point{kind}" d="M{x - 5:.1f} {y - 5:.1f}h10l-5 9z"/>'
    return (
        f'<polyline class="lead" fill="none" points="{route}"/>{bar}{point}'
        f'<text class="name{kind}" x="{right + 5:.1f}" y="{place + 4:.1f}">{text(row.method)} {100 * value:.1f}</text>'
    )


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
