"""Drawings as SVG: frames, scales, grids, curves, and accuracy against cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from yoro.errors import percent_text
from yoro.reports.page import SENTENCE, percent, text

Place = tuple[float, float]  # from the left and from the head of a drawing, in its own units


@dataclass(frozen=True)
class Axis:
    """The ends of an axis and its ticks; a value beyond an end stands at that end."""

    low: float
    high: float
    ticks: Sequence[float]
    scale: Callable[[float], float] = float  # in which the ends are given and places are even
    written: Callable[[float], str] = "{:g}".format

    def share(self, value: float) -> float:
        """How far along the axis a value stands, from 0 to 1."""
        return (min(max(self.scale(value), self.low), self.high) - self.low) / (self.high - self.low)


def linear_axis(values: Sequence[float], *, whole: bool = False) -> Axis:
    """From a little below the least value to a little above the largest; `whole` keeps ticks to whole numbers."""
    low, high = min(values), max(values)
    margin = 0.08 * (high - low or max(abs(high), 1.0) * 0.1)
    low, high = low - margin, high + margin
    raw = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= raw)
    step = max(step, 1.0) if whole else step
    return Axis(low, high, [round(i * step, 12) for i in range(math.ceil(low / step), math.floor(high / step) + 1)])


def logarithmic_axis(values: Sequence[float]) -> Axis:
    """From the least value to the largest; zero stands half a decade before the least positive one."""
    zero = math.log10(min((v for v in values if v > 0), default=1.0)) - 0.5

    def scale(value: float) -> float:
        return math.log10(value) if value > 0 else zero

    low, high = scale(min(values)), scale(max(values))
    if low == high:
        low, high = low - 0.5, high + 0.5
    digits = (1,) if high - low >= 3 else (1, 3)
    ticks = [digit * 10.0**decade for decade in range(math.floor(low), math.ceil(high) + 1) for digit in digits]
    ticks = [tick for tick in ticks if low - 1e-9 <= math.log10(tick) <= high + 1e-9]
    return Axis(low, high, ([0.0] if min(values) <= 0 else []) + (ticks or [max(values)]), scale)


def epoch_axis(epochs: Sequence[float]) -> Axis:
    """Whole numbers from the first epoch to the last; at most eleven are ticked, at steps a person would choose."""
    first = int(min(epochs))
    last = max(int(max(epochs)), first + 1)
    step = next(s * 10**p for p in range(9) for s in (1, 2, 5) if (last - first) / (s * 10**p) <= 10)
    return Axis(first, last, range(-(-first // step) * step, last + 1, step))


@dataclass(frozen=True)
class Frame:
    """The rectangle within the axes of a drawing; values keep `inset` from its sides."""

    left: float
    right: float
    head: float
    foot: float
    inset: tuple[float, float] = (10, 10)


@dataclass(frozen=True)
class Chart:
    """Two axes in a frame: where values stand, and the ground they stand on."""

    frame: Frame
    across: Axis
    up: Axis

    def x(self, value: float) -> float:
        """Where a value of the level axis stands."""
        before, after = self.frame.inset
        width = self.frame.right - self.frame.left - before - after
        return self.frame.left + before + self.across.share(value) * width

    def y(self, value: float) -> float:
        """Where a value of the upright axis stands."""
        return self.frame.foot - self.up.share(value) * (self.frame.foot - self.frame.head)

    def places(self, points: Iterable[tuple[float, float]]) -> list[Place]:
        return [(self.x(value), self.y(figure)) for value, figure in points]

    def ground(self, across: str, up: str) -> Markup:
        """Lines from side to side, short ones at the foot, the values at both, and the titles of the axes."""
        frame = self.frame
        parts = [label(up, (4, 15)), label(across, ((frame.left + frame.right) / 2, frame.foot + 40), "middle")]
        for tick in self.up.ticks:
            y = self.y(tick)
            parts.append(line("grid", (frame.left, y), (frame.right, y)))
            parts.append(label(self.up.written(tick), (frame.left - 8, y + 4.5), "end"))
        for tick in self.across.ticks:
            x = self.x(tick)
            parts.append(line("grid", (x, frame.foot), (x, frame.foot + 5)))
            parts.append(label(self.across.written(tick), (x, frame.foot + 19), "middle"))
        return Markup("").join(parts)


def drawing(kind: str, size: tuple[float, float], parts: Iterable[Markup], about: str, *, role: str = "img") -> Markup:
    """A whole drawing of a width and a height; `about` is told to those who do not see it.

    One with links has the role of a group: those of an image are not told.
    """
    box = f"0 0 {size[0]:g} {size[1]:g}"
    return element("svg", *parts, class_=kind, viewBox=box, role=role, aria_label=text(about, 4 * SENTENCE))


def element(tag: str, *content: object, **attributes: object) -> Markup:
    """An element: numbers with one decimal, untrusted text made safe, attributes of None left out.

    Names of attributes lose a `_` at the end, and others become `-`.
    """
    written = Markup("")
    for key, value in attributes.items():
        if value is not None:
            shown = text(f"{round(value, 1):g}" if isinstance(value, int | float) else value)
            written += Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), shown)
    if not content:
        return Markup("<{}{}/>").format(tag, written)
    return Markup("<{0}{1}>{2}</{0}>").format(tag, written, Markup("").join(map(text, content)))


def line(kind: str, start: Place, end: Place) -> Markup:
    """A straight line."""
    return element("line", class_=kind, x1=start[0], x2=end[0], y1=start[1], y2=end[1])


def polyline(kind: str, places: Iterable[Place]) -> Markup:
    """A line from place to place."""
    return element("polyline", class_=kind, points=Markup(" ".join(f"{x:.1f},{y:.1f}" for x, y in places)))


def dot(kind: str, place: Place, radius: float, hint: str = "") -> Markup:
    """A point, with a hint where the pointer rests."""
    hints = [element("title", hint)] if hint else []
    return element("circle", *hints, class_=kind, cx=place[0], cy=place[1], r=radius)


def label(shown: object, place: Place, anchor: str | None = None, kind: str | None = None) -> Markup:
    """Words at a place, which is where they start unless an anchor says otherwise."""
    return element("text", shown, class_=kind, x=place[0], y=place[1], text_anchor=anchor)


def shortened(title: str, longest: int = 17) -> Markup:
    """A title short enough for a column of names, the whole of it as a hint where the pointer rests."""
    if len(title) <= longest:
        return text(title)
    return element("title", title) + text(title[: longest - 1].rstrip() + "…")


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
    return [place for _, place in sorted(zip(order, placed, strict=True))]


CURVE, CURVE_SIZE = Frame(58, 462, 44, 214), (480, 260)


def curve(
    points: Iterable[tuple[float, float]],
    axis: Callable[[Sequence[float]], Axis],
    titles: tuple[str, str],
    chosen: float,
    *,
    whole: bool = False,
) -> Markup:
    """A figure over the values of a setting, the chosen one marked; empty without a finite figure.

    `axis` makes the level axis of the values, `titles` are those of the level and the upright axis,
    `whole` says that figures are counts.
    """
    finite = [(value, figure) for value, figure in points if math.isfinite(figure)]
    if not finite:
        return Markup("")
    values, figures = zip(*finite, strict=True)
    chart = Chart(CURVE, axis(values), linear_axis(figures, whole=whole))
    places = chart.places(finite)
    parts = [chart.ground(*titles), polyline("path", places), *(dot("point", place, 3) for place in places)]
    if chosen in values:
        x, y = places[values.index(chosen)]
        anchor = "start" if x < CURVE_SIZE[0] / 3 else "end" if x > 2 * CURVE_SIZE[0] / 3 else "middle"
        parts += [line("line", (x, CURVE.head - 6), (x, CURVE.foot)), dot("chosen", (x, y), 6)]
        parts += [label(f"chosen: {chosen:g}", (x, CURVE.head - 11), anchor, "name")]
    about = f"Curve of {titles[1]} over {len(finite)} values of the {titles[0]}; {chosen:g} was chosen."
    return drawing("curve", CURVE_SIZE, parts, about)


SQUARE, SQUARE_SIZE = Frame(58, 318, 34, 294), (340, 340)  # 260 units to a side, so that the diagonal is one


def reliability_diagram(parts: Sequence[tuple[float, float, int]]) -> Markup:
    """The share of right answers over their confidence; `parts` are confidence, share and number of answers.

    A dot's area is its number of answers. Empty without answers.
    """
    if not parts:
        return Markup("")
    shares = Axis(0.0, 1.0, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0), written=lambda share: f"{100 * share:.0f}")
    chart, total = Chart(SQUARE, shares, shares), sum(n for _, _, n in parts)
    places = chart.places([(sure, right) for sure, right, _ in parts])
    diagonal = line("lead", (chart.x(0), chart.y(0)), (chart.x(1), chart.y(1)))
    drawn = [chart.ground("confidence, %", "right answers, %"), diagonal, polyline("path", places)]
    for place, (sure, right, n) in zip(places, parts, strict=True):
        about = f"{n:,} answers, {percent(sure)} sure on average, {percent(right)} right"
        drawn.append(dot("point", place, 3 + 11 * math.sqrt(n / total), about))
    about = f"Share of right answers over confidence in {len(parts)} ranges."
    return drawing("curve reliability", SQUARE_SIZE, drawn, about)


WIDE, NARROW, LEFT, HEAD, BELOW = 760, 390, 58, 34, 50  # of the plot, in its own units, on a desk and on a phone
NAMES = 150  # of the column of names on the right
APART = 40  # least distance of two ticks
GAP = 17  # between two names
LEAST = 1e-4  # seconds: anything faster stands here


@dataclass(frozen=True)
class CostPoint:
    """A method: seconds to fit, accuracy and its deviation as shares of one; ours is drawn in colour."""

    title: str
    seconds: float
    accuracy: float
    deviation: float = 0.0
    ours: bool = False


def cost_plot(points: Sequence[CostPoint], title: str = "seconds to fit") -> Markup:
    """Accuracy over seconds as SVG, twice: the page shows the one that suits the width of the screen."""
    wide, narrow = (_cost_plot(points, title, width) for width in (WIDE, NARROW))
    return Markup('<div class="wide">{}</div><div class="narrow">{}</div>').format(wide, narrow)


def _cost_plot(points: Sequence[CostPoint], title: str, width: float) -> Markup:
    """One of them; names stand in a column beside it, each tied to its point.

    So that the best can be told apart, the axis ends where few are left: methods below stand at its foot.
    """
    right = width - NAMES
    foot = HEAD + max(300, GAP * len(points))
    bottom, top, step = percent_axis([point.accuracy for point in points])
    ticks = [bottom + i * step for i in range(round((top - bottom) / step) + 1)]
    up = Axis(bottom, top, ticks, written=lambda tick: f"{100 * tick:g} %")
    across = _decades([point.seconds for point in points])
    if (right - LEFT) / len(across.ticks) < APART:
        across = replace(across, ticks=across.ticks[::2])
    chart = Chart(Frame(LEFT, right, HEAD, foot, (12, 28)), across, up)
    parts = [chart.ground(title, "accuracy on the test images")]
    heights = [chart.y(point.accuracy) - 1e-6 * point.accuracy for point in points]  # those at the foot stay in order
    for point, height in zip(points, spread(heights, GAP, HEAD, foot), strict=True):
        parts += _mark(point, chart, (right, height))
    about = f"Accuracy of {len(points)} methods over the {title}; the table has the numbers."
    return drawing("plot", (width, foot + BELOW), parts, about)


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


def _decades(seconds: Sequence[float]) -> Axis:
    """A logarithmic axis that ends at whole decades."""
    logs = [math.log10(max(value, LEAST)) for value in seconds]
    low = math.floor(min(logs))
    return logarithmic_axis([10.0**low, 10.0 ** max(math.ceil(max(logs)), low + 1)])


def _mark(point: CostPoint, chart: Chart, end: Place) -> list[Markup]:
    """A point with its bar of one deviation, its name in the column, and a line between the two."""
    ours = " ours" if point.ours else ""
    x, y = chart.x(point.seconds), chart.y(point.accuracy)
    mark = dot(f"point{ours}", (x, y), 6 if ours else 4.5)
    if point.accuracy < chart.up.low:
        mark = element("path", class_=f"point{ours}", d=f"M{x - 5:.1f} {y - 5:.1f}h10l-5 9z")
    above, below = (chart.y(point.accuracy + side * point.deviation) for side in (1, -1))
    shown = Markup("{} {}").format(percent_text(point.accuracy, unit=""), shortened(point.title))
    name = label(shown, (end[0] + 5, end[1] + 4), kind=f"name{ours}")
    lead = polyline("lead", [(x, y), (end[0] - 14, end[1]), end])
    return [lead, line("whisker", (x, above), (x, below)), mark, name]
