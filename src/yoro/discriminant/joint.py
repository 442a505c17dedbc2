"""Statistics of several readings of the same images: one `ResponseStatistics` each, under one set of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.readings import Layout, side_by_side
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError, WidthError

Arrays = dict[str, NDArray[np.generic]]


class JointStatistics:
    """What `ResponseStatistics` are for one reading, for all readings of a layout.

    No scatter between readings is kept: the discriminants stand apart, and five narrow matrices are smaller, and
    sooner solved, than one wide one.
    """

    def __init__(self, layout: Layout | None = None, parts: Sequence[ResponseStatistics] = ()) -> None:
        self._layout = layout
        self.parts = tuple(parts) or tuple(ResponseStatistics() for _ in (layout.readings if layout else (0,)))

    @classmethod
    def of(cls, statistics: ResponseStatistics) -> Self:
        return cls(Layout.of(statistics.width) if statistics.width else None, [statistics])

    @property
    def layout(self) -> Layout:
        """The readings; before the first batch of responses that nobody described, there are none."""
        if self._layout is None:
            raise InputError("No responses were seen, so there is nothing to map. Add a batch with update() first.")
        return self._layout

    @property
    def classes(self) -> tuple[str, ...]:
        return self.parts[0].classes

    @property
    def counts(self) -> NDArray[np.float64]:
        return self.parts[0].counts

    @property
    def total(self) -> float:
        return self.parts[0].total

    @property
    def degrees(self) -> float:
        return self.parts[0].degrees

    @property
    def width(self) -> int:
        """Coordinates of a whole response; 0 before the first batch."""
        return 0 if self._layout is None else self._layout.width

    def update(self, responses: NDArray[np.floating], labels: Sequence[str], *, threads: bool = False) -> None:
        """Add a batch: responses (batch, width), labels (batch,) of names; with `threads` the readings side by side."""
        if self._layout is None and len(responses):
            self._layout = Layout.of(responses.shape[1])
        pairs = list(zip(self.parts, self._columns(responses), strict=True))
        if threads:
            side_by_side(lambda pair: pair[0].update(pair[1], labels), pairs, self.layout.widths)
            return
        for part, columns in pairs:
            part.update(columns, labels)

    def __add__(self, other: JointStatistics) -> JointStatistics:
        layout = self._shared(other)
        return JointStatistics(layout, [one + two for one, two in zip(self.parts, other.parts, strict=True)])

    def __sub__(self, other: JointStatistics) -> JointStatistics:
        layout = self._shared(other)
        return JointStatistics(layout, [one - two for one, two in zip(self.parts, other.parts, strict=True)])

    def rename(self, names: dict[str, str]) -> JointStatistics:
        """Classes under new names; several classes given one name are joined, exactly."""
        return JointStatistics(self._layout, [part.rename(names) for part in self.parts])

    def take(self, readings: Sequence[int], layout: Layout) -> JointStatistics:
        """Some of the readings, as the layout calls them."""
        return JointStatistics(layout, [self.parts[i] for i in readings])

    def folded(self) -> JointStatistics:
        """A copy that stores no single response; see `ResponseStatistics.folded`."""
        return JointStatistics(self._layout, [part.folded() for part in self.parts])

    def copy(self) -> JointStatistics:
        return JointStatistics(self._layout, [part.copy() for part in self.parts])

    def to_arrays(self) -> Arrays:
        """The arrays that `from_arrays` takes back; of one reading those of its statistics."""
        if len(self.parts) == 1:
            return self.parts[0].to_arrays()
        arrays: Arrays = {"counts": self.counts}
        for i, part in enumerate(self.parts):
            arrays |= {f"{i}.{key}": array for key, array in part.to_arrays(rows=True).items() if key != "counts"}
        return arrays

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[np.generic]], classes: Sequence[object], layout: Layout | None
    ) -> Self:
        """Statistics from `to_arrays`; the input is checked, not trusted; without a layout, of one reading."""
        if layout is None:
            return cls.of(ResponseStatistics.from_arrays(dict(arrays), classes))
        if len(layout.readings) == 1:
            one = ResponseStatistics.from_arrays(dict(arrays), classes)
            if one.width not in (0, layout.width):
                raise WidthError(f"Statistics of width {one.width} do not fit a response of width {layout.width}.")
            return cls(layout, [one])
        parts = []
        for i, reading in enumerate(layout.readings):
            mine = {key.partition(".")[2]: array for key, array in arrays.items() if key.startswith(f"{i}.")}
            part = ResponseStatistics.from_arrays({**mine, "counts": arrays["counts"]}, classes)
            if part.width != reading.width:
                raise WidthError(f"Statistics of width {part.width} do not fit the reading {reading.name!r}.")
            parts.append(part)
        return cls(layout, parts)

    def _columns(self, responses: NDArray[np.floating]) -> list[NDArray[np.floating]]:
        if len(self.parts) == 1:
            return [responses]
        if responses.ndim != 2 or responses.shape[1] != self.width:
            raise WidthError(
                f"This batch has responses of shape {responses.shape}, but earlier batches had width {self.width}. "
                "Did the response source change between batches?"
            )
        return [responses[:, part] for part in self.layout.slices]

    def _shared(self, other: JointStatistics) -> Layout | None:
        if self._layout and other._layout and self._layout.numbered != other._layout.numbered:
            names = [", ".join(one._layout.names) for one in (self, other) if one._layout]
            if len(self.parts) != 1 or len(other.parts) != 1:
                raise WidthError(f"Statistics of the readings {names[0]} and {names[1]} come from different sources.")
        return self._layout or other._layout
