"""Which unlabelled images to label next: those in doubt, and unlike each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yoro.errors import InputError
from yoro.model.answers import Answers
from yoro.model.model import Model
from yoro.model.open_model import OpenModel
from yoro.model.settings import HERE, Loading

Array = NDArray[np.float64]

COUNT = 10  # images to label next, unless told
POOL = 2  # times as many images as are asked for, the most doubtful, are spread out


@dataclass(frozen=True)
class Candidate:
    """An image worth a label: its name, the two classes that it lies between, and by how much they differ."""

    name: str
    label: str
    probability: float
    other: str
    margin: float  # between the probabilities of the two

    def row(self) -> dict[str, object]:
        """The candidate as a row of a list."""
        return {"path": self.name, **{key: value for key, value in vars(self).items() if key != "name"}}


@dataclass(frozen=True)
class NextToLabel:
    """Images to label next, the first to be labelled first."""

    candidates: tuple[Candidate, ...]
    looked_at: int
    skipped: tuple[tuple[str, str], ...] = ()


def choose_next(
    classifier: OpenModel, data: object, count: int = COUNT, *, loading: Loading = HERE, progress: bool = False
) -> NextToLabel:
    """So many of the unlabelled images, by doubt and spread."""
    if count < 1:
        raise InputError(f"{count} images to label were asked for; expected 1 or more.")
    stream = classifier.answers(data, loading=loading, progress=progress)
    batches = list(stream)
    unseen = [_unseen(classifier, batch) for batch in batches]
    names = [batch.names[i] for batch, rows in zip(batches, unseen, strict=True) for i in rows]
    if not names:
        raise InputError("Every image that came was fitted already; give others to choose from.")
    logs = np.concatenate([batch.log_probabilities[rows] for batch, rows in zip(batches, unseen, strict=True)])
    responses = np.concatenate([np.asarray(batch.responses)[rows] for batch, rows in zip(batches, unseen, strict=True)])
    order = spread_doubt(np.exp(logs), features_of(classifier.model, responses), count)
    classes = classifier.names
    found = []
    for row in order:
        second, first = np.argsort(logs[row], kind="stable")[-2:]
        sure, next_ = (float(np.exp(logs[row, i])) for i in (first, second))
        found.append(Candidate(names[row], classes[first], sure, classes[second], sure - next_))
    return NextToLabel(tuple(found), len(names), tuple(stream.skipped))


def spread_doubt(probabilities: Array, features: Array, count: int) -> list[int]:
    """Rows of (n, classes) in doubt, far from each other in the features (n, width): the first is the most doubtful.

    Of the rows with the smallest margins each next one is the farthest from those before it (k-centre, greedily).
    """
    two = np.sort(probabilities, axis=1)[:, -2:]
    pool = np.argsort(two[:, 1] - two[:, 0], kind="stable")[: POOL * count]
    rows = features[pool] - features[pool].mean(axis=0)
    squares = (rows**2).sum(axis=1)
    taken, nearest = [0], np.full(len(pool), np.inf)
    while len(taken) < min(count, len(pool)):
        last = taken[-1]
        nearest = np.minimum(nearest, squares + squares[last] - 2 * rows @ rows[last])
        nearest[taken] = -np.inf
        taken.append(int(nearest.argmax()))
    return [int(pool[i]) for i in taken]


def features_of(model: Model, responses: NDArray[np.floating]) -> Array:
    """The part of responses that distances are taken in: the features where they are read, else all."""
    return np.asarray(responses[:, model.statistics.layout.compared], dtype=np.float64)


def _unseen(classifier: OpenModel, batch: Answers) -> list[int]:
    """Rows of a batch that were not fitted."""
    return np.flatnonzero(~classifier.fitted(batch.digests)).tolist()
