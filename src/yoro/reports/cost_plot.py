"""Accuracy against cost as a drawing: a point for each method, and its name in a column beside the plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from yoro.reports import svg

WIDTH, LEFT, RIGHT, HEAD, BELOW = 760, 58, 610, 34, 50  # of the plot, in its own units; names stand on the right
GAP = 17  # between two names
LEAST = 1e-4  # seconds: anything faster stands here


@dataclass(frozen=True)
class Point:
    """A method: seconds to fit, accuracy and its deviation as shares of one; ours is drawn in colour."""

    title: str
    seconds: float
    accuracy: float
    deviation: float = 0.0
    ours: bool = False


def cost_plot(points: Sequence[Point], title: str = "seconds to fit") -> Markup:
    """Accuracy over seconds as SVG; names stand in a column beside it, each tied to its point.

    So that the best can be told apart, the axis ends where few are left: methods below stand at its foot.
    """
    foot = HEAD + max(300, GAP * len(points))
    bottom, top, step = percent_axis([point.accuracy for point in points])
    ticks = [bottom + i * step for i in range(round((top - bottom) / step) + 1)]
    up = svg.Axis(bottom, top, ticks, written=lambda tick: f"{100 * tick:g} %")
    chart = svg.Chart(svg.Frame(LEFT, RIGHT, HEAD, foot, (12, 28)), _decades([point.seconds for point in points]), up)
    parts = [chart.ground(title, "accuracy on the test images")]
    heights = [chart.y(point.accuracy) - 1e-6 * point.accuracy for point in points]  # those at the foot stay in order
    for point, height in zip(points, svg.spread(heights, GAP, HEAD, foot), strict=True):
        parts += _mark(point, chart, (RIGHT, height))
    about = f"Accuracy of {len(points)} methods over the {title}; the table has the numbers."
    return svg.drawing("plot", (WIDTH, foot + BELOW), parts, about)


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


def _decades(seconds: Sequence[float]) -> svg.Axis:
    """A logarithmic axis that ends at whole decades."""
    logs = [math.log10(max(value, LEAST)) for value in seconds]
    low = math.floor(min(logs))
    return svg.logarithmic_axis([10.0**low, 10.0 ** max(math.ceil(max(logs)), low + 1)])


def _mark(point: Point, chart: svg.Chart, end: svg.Place) -> list[Markup]:
    """A point with its bar of one deviation, its name in the column, and a line between the two."""
    ours = " ours" if point.ours else ""
    x, y = chart.x(point.seconds), chart.y(point.accuracy)
    mark = svg.dot(f"point{ours}", (x, y), 6 if ours else 4.5)
    if point.accuracy < chart.up.low:
        mark = svg.element("path", class_=f"point{ours}", d=f"M{x - 5:.1f} {y - 5:.1f}h10l-5 9z")
    above, below = (chart.y(point.accuracy + side * point.deviation) for side in (1, -1))
    shown = Markup("{:.1f} {}").format(100 * point.accuracy, svg.shortened(point.title))
    return [
        svg.polyline("lead", [(x, y), (end[0] - 14, end[1]), end]),
        svg.line("whisker", (x, above), (x, below)),
        mark,
        svg.label(shown, (end[0] + 5, end[1] + 4), kind=f"name{ours}"),
    ]
