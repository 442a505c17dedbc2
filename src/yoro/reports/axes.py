"""The ground of a drawing: where values stand, which of them are ticked, and names that do not overlap."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Scale = Callable[[float], float]  # from a value to a place on the drawing


@dataclass(frozen=True)
class Frame:
    """The rectangle within the axes of a drawing, in its own units."""

    left: float
    right: float
    head: float
    foot: float

    def linear(self, values: Sequence[float], *, whole: bool = False) -> tuple[Scale, list[float]]:
        """Place and ticks on an axis from the least value at the foot to the largest at the head."""
        low, high = min(values), max(values)
        spread = high - low or max(abs(high), 1.0) * 0.1
        low, high = low - 0.08 * spread, high + 0.08 * spread
        raw = (high - low) / 4
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= raw)
        step = max(step, 1.0) if whole else step

        def up(value: float) -> float:
            return self.foot - (value - low) / (high - low) * (self.foot - self.head)

        return up, [round(i * step, 12) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]

    def logarithmic(self, values: Sequence[float]) -> tuple[Scale, list[float]]:
        """Place and ticks on a logarithmic axis; zero stands half a decade before the least positive value."""
        zero = math.log10(min((v for v in values if v > 0), default=1.0)) - 0.5
        logs = [math.log10(v) if v > 0 else zero for v in values]
        low, high = (min(logs), max(logs)) if min(logs) < max(logs) else (logs[0] - 0.5, logs[0] + 0.5)

        def across(value: float) -> float:
            share = ((math.log10(value) if value > 0 else zero) - low) / (high - low)
            return self.left + 10 + share * (self.right - self.left - 20)

        decades = range(math.floor(low), math.ceil(high) + 1)
        digits = (1,) if high - low >= 3 else (1, 3)
        ticks = [digit * 10.0**decade for decade in decades for digit in digits]
        ticks = [tick for tick in ticks if low - 1e-9 <= math.log10(tick) <= high + 1e-9]
        return across, ([0.0] if min(values) <= 0 else []) + (ticks or [max(values)])

    def epochs(self, first: int, last: int) -> tuple[Scale, list[float]]:
        """Place and ticks of whole numbers; at most eleven are ticked, at steps a person would choose."""
        last = max(last, first + 1)
        step = next(s * 10**p for p in range(9) for s in (1, 2, 5) if (last - first) / (s * 10**p) <= 10)

        def across(epoch: float) -> float:
            return self.left + 10 + (epoch - first) / (last - first) * (self.right - self.left - 20)

        return across, [float(epoch) for epoch in range(-(-first // step) * step, last + 1, step)]

    def grid_up(self, up: Scale, ticks: Sequence[float]) -> str:
        """Lines from side to side, with the values beside them."""
        return "".join(
            f'<line class="grid" x1="{self.left}" x2="{self.right}" y1="{up(tick):.1f}" y2="{up(tick):.1f}"/>'
            f'<text x="{self.left - 8}" y="{up(tick) + 4.5:.1f}" text-anchor="end">{tick:g}</text>'
            for tick in ticks
        )

    def grid_across(self, across: Scale, ticks: Sequence[float]) -> str:
        """Short lines at the foot, with the values below them."""
        return "".join(
            f'<path class="grid" d="M{across(tick):.1f} {self.foot}v5"/>'
            f'<text x="{across(tick):.1f}" y="{self.foot + 19}" text-anchor="middle">{tick:g}</text>'
            for tick in ticks
        )


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
