"""Several readings of one forward pass, side by side in one vector, and how each is transformed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from yoro import limits
from yoro.environment import cores
from yoro.errors import InputError, WidthError

Responses = NDArray[np.floating]
Given = TypeVar("Given")
Made = TypeVar("Made")

LOGITS = "logits"
FEATURES = "features"
TOKENS = ("class-", "patches-")  # layers of a transformer
TRANSFORMS = ("plain", "unit", "root")
VIEWS = (1, 2)


@dataclass(frozen=True)
class Reading:
    """One part of a response: its name, its width, and what is done to it before anything is learnt from it.

    "plain" leaves it as it is, "unit" divides it by its length, and "root" takes the square root of every (not
    negative) coordinate first: pooled activations have long tails, which the root shortens.
    """

    name: str
    width: int
    transform: str = "plain"

    @property
    def network(self) -> str:
        """The network that it is a reading of; empty where there is one."""
        return self.name.rpartition("/")[0]

    @property
    def layer(self) -> str:
        """Its name within its network."""
        return self.name.rpartition("/")[2]

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not 0 < len(self.name) <= limits.READING_NAME:
            raise InputError(f"A reading is called {self.name!r:.60}; expected a short name.")
        if isinstance(self.width, bool) or not isinstance(self.width, int) or self.width < 1:
            raise InputError(f"The reading {self.name!r} has width {self.width!r}; expected a number of at least 1.")
        if self.width > limits.RESPONSE_WIDTH:
            wide = f"The reading {self.name!r} has width {self.width:,}"
            raise WidthError(f"{wide}; at most {limits.RESPONSE_WIDTH:,} are fitted.")
        if self.transform not in TRANSFORMS:
            raise InputError(
                f"The reading {self.name!r} is transformed by {self.transform!r}; "
                f"expected one of {', '.join(TRANSFORMS)}."
            )


@dataclass(frozen=True)
class Layout:
    """The readings of a response in their order, and whether an image is read together with its mirror image."""

    readings: tuple[Reading, ...]
    views: int = 1

    def __post_init__(self) -> None:
        names = [reading.name for reading in self.readings]
        if not names or len(names) > limits.READINGS or len(set(names)) != len(names):
            raise InputError(
                f"A response has the readings {names!r}; expected 1 to {limits.READINGS} of different names."
            )
        if self.width > limits.ENSEMBLE_WIDTH:
            raise WidthError(f"These readings have width {self.width:,}; at most {limits.ENSEMBLE_WIDTH:,} are fitted.")
        if self.views not in VIEWS or isinstance(self.views, bool):
            raise InputError(f"views is {self.views!r}; expected 1, or 2 to add the mirror image.")

    @classmethod
    def of(cls, width: int, name: str = LOGITS) -> Layout:
        return cls((Reading(name, width),))

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(reading.width for reading in self.readings)

    @property
    def width(self) -> int:
        return sum(self.widths)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(reading.name for reading in self.readings)

    @property
    def slices(self) -> tuple[slice, ...]:
        ends = list(accumulate(self.widths))
        return tuple(slice(end - reading.width, end) for end, reading in zip(ends, self.readings, strict=True))

    @property
    def networks(self) -> tuple[str, ...]:
        """The networks that are read, each once."""
        return tuple(dict.fromkeys(reading.network for reading in self.readings))

    def called(self, networks: Sequence[str]) -> Layout:
        """The layout with other names for the networks, in their order; a single network has none."""
        names = dict(zip(self.networks, networks, strict=True))
        readings = [
            replace(one, name=f"{names[one.network]}/{one.layer}" if one.network else one.name) for one in self.readings
        ]
        return replace(self, readings=tuple(readings))

    @property
    def numbered(self) -> Layout:
        """The layout with numbers for the networks: what they are called makes no response different."""
        return self.called([str(i) for i in range(len(self.networks))])

    def places(self, layer: str) -> list[int]:
        """Where the readings of that layer stand, one for each network that has it."""
        return [i for i, reading in enumerate(self.readings) if reading.layer == layer]

    @property
    def usual(self) -> list[int]:
        """Where the readings stand that answer unless more are better: not those of a transformer's blocks."""
        return [i for i, one in enumerate(self.readings) if not one.layer.startswith(TOKENS)]

    @property
    def compared(self) -> slice:
        """Where images are alike or not: the features (of the first network) where they are read, else all."""
        features = self.places(FEATURES)
        return self.slices[features[0]] if features else slice(None)

    @property
    def plain(self) -> bool:
        """Whether a response is one reading of one view, taken as it is."""
        return len(self.readings) == 1 and self.views == 1 and self.readings[0].transform == "plain"

    def transformed(self, views: Sequence[Responses]) -> Responses:
        """Responses as they are learnt from, of one view each or of an image and its mirror image, averaged."""
        if len(views) != self.views:
            raise InputError(f"Got {len(views)} views; expected {self.views}.")
        if self.plain:
            return views[0]
        out = np.empty(views[0].shape, dtype=np.float32)
        for reading, part in zip(self.readings, self.slices, strict=True):
            each = [_transformed(view[:, part], reading.transform) for view in views]
            mean = each[0] if len(each) == 1 else (each[0] + each[1]) / 2
            out[:, part] = mean if reading.transform == "plain" or len(each) == 1 else unit_rows(mean)
        return out

    def config(self) -> dict[str, object]:
        """The layout as plain values; `from_config` gives it back."""
        readings = [{"name": r.name, "width": r.width, "transform": r.transform} for r in self.readings]
        return {"views": self.views, "of": readings}

    @classmethod
    def from_config(cls, config: object) -> Layout:
        """The layout that `config` describes; the input is checked, not trusted."""
        if not isinstance(config, Mapping) or set(config) != {"views", "of"} or not isinstance(config["of"], list):
            raise InputError("A model's readings are a table of 'views' and 'of'.")
        keys = {"name", "width", "transform"}
        if len(config["of"]) > limits.READINGS or not all(
            isinstance(item, Mapping) and set(item) == keys for item in config["of"]
        ):
            raise InputError("A model's readings are a list of names, widths and transforms.")
        return cls(tuple(Reading(**item) for item in config["of"]), config["views"])


def _transformed(part: Responses, transform: str) -> Responses:
    if transform == "plain":
        return part
    return unit_rows(np.sqrt(np.maximum(part, 0.0)) if transform == "root" else part)


def unit_rows(rows: Responses) -> Responses:
    """Every row divided by its length; a row of zeros stays."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    return rows / np.where(lengths > 0, lengths, 1.0)[:, None]


def side_by_side(do: Callable[[Given], Made], items: Sequence[Given], sizes: Sequence[int] = ()) -> list[Made]:
    """Apply `do` to every item in a thread pool; with one BLAS thread each, nearly twice as fast on two cores.

    If sizes are given, the largest items start first, so that none of them runs alone at the end.
    """
    if len(items) == 1:
        return [do(items[0])]
    order = sorted(range(len(items)), key=lambda i: -sizes[i] if sizes else i)
    with ThreadPoolExecutor(min(cores(), len(items))) as pool:
        running = {i: pool.submit(do, items[i]) for i in order}
        return [running[i].result() for i in range(len(items))]
