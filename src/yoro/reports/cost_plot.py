"""Accuracy against cost as a drawing: a point for each method, and its name in a column beside the plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from yoro.reports.axes import Scale, percent_axis, spread
from yoro.reports.charts import text

WIDTH, LEFT, NAMES, ABOVE, BELOW = 760, 58, 150, 34, 50  # of the plot, in its own units; NAMES is the column beside it
GAP = 17  # between two names
LEAST = 1e-4  # seconds: anything faster stands here
LONGEST = 17  # characters of a name in the column; the whole name is shown where the pointer rests

PLOT_STYLE = """
.plot { display: block; width: 100%; max-width: 54rem; height: auto; }
.plot text { fill: var(--quiet); font-size: 12px; font-family: inherit; }
.plot .grid, .plot .lead { stroke: var(--line); }
.plot .whisker { stroke: var(--quiet); }
.plot .point { fill: var(--quiet); stroke: var(--page); }
.plot .ours { fill: rgb(var(--right)); }
.plot text.ours { font-weight: 600; }
.plot .name { fill: var(--ink); }
"""


@dataclass(frozen=True)
class Point:
    """A method: seconds to fit, accuracy and its deviation as shares of one; ours is drawn in colour."""

    title: str
    seconds: float
    accuracy: float
    deviation: float = 0.0
    ours: bool = False


def cost_plot(points: Sequence[Point], label: str = "seconds to fit") -> str:
    """Accuracy over seconds as SVG; names stand in a column beside it, each tied to its point.

    So that the best can be told apart, the axis ends where few are left: methods below stand at its foot.
    """
    height = ABOVE + BELOW + max(300, GAP * len(points))
    right, foot = WIDTH - NAMES, height - BELOW
    logs = [math.log10(max(point.seconds, LEAST)) for point in points]
    low, high = math.floor(min(logs)), max(math.ceil(max(logs)), math.floor(min(logs)) + 1)
    bottom, top, step = percent_axis([point.accuracy for point in points])

    def across(log: float) -> float:
        return LEFT + 12 + (log - low) / (high - low) * (right - LEFT - 40)

    def up(value: float) -> float:
        return foot - (min(max(value, bottom), top) - bottom) / (top - bottom) * (foot - ABOVE)

    parts = [_axes(range(low, high + 1), across, _ticks(bottom, top, step), up, right, foot, label)]
    heights = [up(point.accuracy) - 1e-6 * point.accuracy for point in points]  # those at the foot stay in order
    places = spread(heights, GAP, ABOVE, foot)
    for point, log, place in zip(points, logs, places, strict=True):
        parts.append(_mark(point, across(log), up, place, right, below=point.accuracy < bottom))
    about = f"Accuracy of {len(points)} methods over the {text(label)}; the table has the numbers."
    return f'<svg class="plot" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{about}">{"".join(parts)}</svg>'


def fitted(title: str, longest: int = LONGEST) -> str:
    """A title safe for HTML and short enough for the column of names, the whole of it as a hint."""
    if len(title) <= longest:
        return text(title)
    return f"<title>{text(title)}</title>{text(title[: longest - 1].rstrip() + '…')}"


def _ticks(bottom: float, top: float, step: float) -> list[float]:
    return [bottom + i * step for i in range(round((top - bottom) / step) + 1)]


def _axes(
    decades: range, across: Scale, ticks: Sequence[float], up: Scale, right: float, foot: float, label: str
) -> str:
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
        f'<text x="{(LEFT + right) / 2:.1f}" y="{foot + 42}" text-anchor="middle">{text(label)}</text>'
    )
    return "".join([*lines, *marks, titles])


def _mark(point: Point, x: float, up: Scale, place: float, right: float, *, below: bool) -> str:
    """A point with its bar of one deviation, its name in the column, and a line between the two."""
    kind = " ours" if point.ours else ""
    value, half = point.accuracy, point.deviation
    y = up(value)
    route = f"{x:.1f},{y:.1f} {right - 14:.1f},{place:.1f} {right:.1f},{place:.1f}"
    bar = f'<line class="whisker" x1="{x:.1f}" x2="{x:.1f}" y1="{up(value + half):.1f}" y2="{up(value - half):.1f}"/>'
    dot = f'<circle class="point{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{6 if kind else 4.5}"/>'
    if below:
        dot = f'<path class="point{kind}" d="M{x - 5:.1f} {y - 5:.1f}h10l-5 9z"/>'
    name = f"{100 * value:.1f} {fitted(point.title)}"
    return (
        f'<polyline class="lead" fill="none" points="{route}"/>{bar}{dot}'
        f'<text class="name{kind}" x="{right + 5:.1f}" y="{place + 4:.1f}">{name}</text>'
    )
