"""Active learning: which unlabelled images to label next, by uncertainty, density and diversity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.data.find import find
from yoro.data.response_streams import is_response_data
from yoro.data.thumbnails import thumbnails_by_path
from yoro.discriminant.readings import unit_rows
from yoro.errors import InputError, counted
from yoro.files.result_view import Result, Table
from yoro.mappings.batches import Array
from yoro.model.model import Model
from yoro.model.open_model import OpenModel
from yoro.model.settings import USUAL, Loading
from yoro.option import check_range

COUNT = 10  # images to label next, by default
NEIGHBOURS = 10  # of an image, by which the density around it is measured
SPARSE = 0.01  # density of an image that is unlike all others
BLOCK = 1024  # rows whose similarities to all others are held at a time
POOL = 2  # the next ones are spread among this many times as many uncertain images


@dataclass(frozen=True)
class Candidate:
    """An image to label next: its name, its two most probable classes, and the margin between them."""

    name: str
    label: str
    probability: float
    other: str
    margin: float  # between the probabilities of the two

    def row(self) -> dict[str, object]:
        return {"path": self.name, **{key: value for key, value in vars(self).items() if key != "name"}}


@dataclass(frozen=True, repr=False)
class NextToLabel(Result):
    """Images to label next, in the order to label them."""

    candidates: tuple[Candidate, ...]
    looked_at: int
    skipped: tuple[tuple[str, str], ...] = ()
    pictures: Mapping[str, Example] = field(default_factory=dict)  # by name; none of responses

    def headline(self) -> str:
        return f"label these {len(self.candidates):,} of {counted(self.looked_at, 'image')} next, from the top."

    def tables(self) -> list[Table]:
        """The candidates, in the order to label them."""
        rows = [candidate.row() for candidate in self.candidates]
        return [Table(rows, bars=("probability", "margin"), picture=thumbnails_by_path(self.pictures))]


def choose_next(
    classifier: OpenModel, data: object, count: int = COUNT, *, loading: Loading = USUAL, progress: bool = False
) -> NextToLabel:
    """Choose `count` unlabelled images to label next, by uncertainty, density and diversity."""
    check_range("choose", count, 1)
    pictures = dict[str, Example]()
    if not is_response_data(data):
        data = find(data, labelled=False)
        pictures = {example.name: example for example in data}
    stream = classifier.answers(data, loading=loading, progress=progress)
    batches = list(stream)
    unseen = [np.flatnonzero(~classifier.fitted(batch.digests)).tolist() for batch in batches]
    names = [batch.names[i] for batch, rows in zip(batches, unseen, strict=True) for i in rows]
    if not names:
        raise InputError("Every one of these images is already in the model; give others to choose from.")
    logs = np.concatenate([batch.log_probabilities[rows] for batch, rows in zip(batches, unseen, strict=True)])
    responses = np.concatenate([np.asarray(batch.responses)[rows] for batch, rows in zip(batches, unseen, strict=True)])
    order = spread_doubt(np.exp(logs), features_of(classifier.model, responses), count)
    classes, found = classifier.names, []
    for row in order:
        second, first = np.argsort(logs[row], kind="stable")[-2:]
        sure, next_ = (float(np.exp(logs[row, i])) for i in (first, second))
        found.append(Candidate(names[row], classes[first], sure, classes[second], sure - next_))
    shown = {one.name: pictures[one.name] for one in found if one.name in pictures}
    return NextToLabel(tuple(found), len(names), tuple(stream.skipped), shown)


def spread_doubt(probabilities: Array, features: Array, count: int) -> list[int]:
    """Uncertain rows of (n, classes) in dense places that lie far apart in the features (n, width), the best first.

    Uncertainty is one minus the margin, times the density, so that outliers are not asked for (Settles and Craven
    2008). Among the rows where that is largest, each next one is the farthest from those before it (greedy k-centre).
    """
    two = np.sort(probabilities, axis=1)[:, -2:]
    value = (1 - (two[:, 1] - two[:, 0])) * density(features)
    pool = np.argsort(-value, kind="stable")[: POOL * count]
    rows = features[pool] - features[pool].mean(axis=0)
    squares = (rows**2).sum(axis=1)
    taken, nearest = [0], np.full(len(pool), np.inf)
    while len(taken) < min(count, len(pool)):
        last = taken[-1]
        nearest = np.minimum(nearest, squares + squares[last] - 2 * rows @ rows[last])
        nearest[taken] = -np.inf
        taken.append(int(nearest.argmax()))
    return [int(pool[i]) for i in taken]


def density(features: Array) -> Array:
    """The mean cosine similarity (n,) of each row of centred features to its nearest neighbours, at least `SPARSE`."""
    rows = unit_rows(features - features.mean(axis=0))
    near = min(NEIGHBOURS + 1, len(rows))  # a row is the nearest to itself
    found = np.empty(len(rows))
    for start in range(0, len(rows), BLOCK):
        similar = rows[start : start + BLOCK] @ rows.T
        found[start : start + BLOCK] = np.partition(similar, -near, axis=1)[:, -near:].sum(axis=1) - 1
    return np.maximum(found / max(near - 1, 1), SPARSE)


def features_of(model: Model, responses: NDArray[np.floating]) -> Array:
    """The features of responses where they are read, else the whole responses."""
    return np.asarray(responses[:, model.statistics.layout.compared], dtype=np.float64)
