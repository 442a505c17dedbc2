"""Nearest neighbours of an image among the training images whose responses the model stores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yoro.data.decoding import digest
from yoro.data.examples import Example
from yoro.data.find import find
from yoro.discriminant.readings import unit_rows
from yoro.errors import ImageError
from yoro.model.model import Model
from yoro.model.open_model import OpenModel


@dataclass(frozen=True)
class Neighbour:
    """A training image: its label, its similarity, and its digest."""

    label: str
    similarity: float  # cosine of the features about their mean: 1 for the same, about 0 for one like any other
    digest: str  # 32 hex digits
    name: str = ""  # of the file, where the data were given


class FittedImages:
    """The stored responses of a model, for nearest-neighbour search; a model without any has no neighbours.

    `pictures` are images by digest; neighbours among them have names.
    """

    def __init__(self, model: Model, pictures: Mapping[bytes, Example] | None = None) -> None:
        self.pictures = pictures or {}
        self._members, self._part = model.members(), model.statistics.layout.compared
        if self._members is not None:
            rows = self._members.responses[:, self._part]
            self._centre = rows.mean(axis=0, dtype=np.float64)
            self._rows = unit_rows(rows - self._centre)

    def nearest(self, responses: NDArray[np.floating], count: int) -> list[tuple[Neighbour, ...]]:
        """The nearest neighbours of each response (n, width), the most similar first."""
        if self._members is None:
            return [()] * len(responses)
        cosines = unit_rows(responses[:, self._part] - self._centre) @ self._rows.T
        order = np.argsort(-cosines, axis=1, kind="stable")
        return [self._different(row, best, count) for row, best in zip(cosines, order.tolist(), strict=True)]

    def _different(self, cosines: NDArray[np.floating], best: list[int], count: int) -> tuple[Neighbour, ...]:
        """The first so many of different contents."""
        assert self._members is not None
        found: dict[bytes, Neighbour] = {}
        for j in best:
            if len(found) == count:
                break
            content, label = self._members.digests[j], str(self._members.labels[j])
            if content not in found:
                name = self.pictures[content].name if content in self.pictures else ""
                found[content] = Neighbour(label, min(float(cosines[j]), 1.0), content.hex(), name)
        return tuple(found.values())


def pictures_of(classifier: OpenModel, data: object) -> dict[bytes, Example]:
    """Images of labelled data by digest; unreadable ones are skipped."""
    found: dict[bytes, Example] = {}
    for example in find(data, known=classifier.names).from_here():
        try:
            found.setdefault(bytes.fromhex(digest(example.image)), example)
        except (ImageError, OSError):
            continue
    return found
