"""Labels proposed for the rest of a pile, with how probable each is, and what to ask next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yoro.data.responses import ResponseBatch
from yoro.discriminant.calibration import log_probabilities
from yoro.discriminant.readings import Layout
from yoro.mappings.batches import Array
from yoro.model.gathered import Gathered
from yoro.model.model import Model, Origin
from yoro.model.settings import SolveSettings
from yoro.model.solve import solve
from yoro.trust.active_learning import spread_doubt

Rows = NDArray[np.intp]

SHARES = (0.99, 0.97, 0.95, 0.9, 0.8)  # share of labels expected to be right, from which they can be accepted at once
ENOUGH = 8  # median labels per class beyond which unlabelled images add nothing and are not used
TEMPERATURES = np.geomspace(0.05, 20.0, 61)  # times the one of the fit


@dataclass(frozen=True)
class Pile:
    """The photos of a pile as they were read."""

    layout: Layout
    responses: NDArray[np.floating]  # (n, width)
    digests: Sequence[bytes]
    names: Sequence[str]

    def __len__(self) -> int:
        return len(self.names)

    def batch(self, rows: Rows, labels: list[str] | None) -> ResponseBatch:
        """Some photos, as a pass hands them out."""
        digests, names = [self.digests[i] for i in rows], [self.names[i] for i in rows]
        return ResponseBatch(self.responses[rows], labels, None, digests, names)


@dataclass(frozen=True)
class Proposals:
    """A label for every photo that has none: the rows, the classes, and the probabilities (m, classes)."""

    rows: Rows
    classes: tuple[str, ...]
    probabilities: Array

    @property
    def labels(self) -> list[str]:
        """The most probable class of each row."""
        return [self.classes[i] for i in self.probabilities.argmax(axis=1)] if len(self.rows) else []

    @property
    def chances(self) -> Array:
        """The probability (m,) that each of these labels is right."""
        return self.probabilities.max(axis=1) if len(self.rows) else np.empty(0)

    def sure(self, share: float) -> tuple[Rows, float]:
        """The largest set of rows of which at least this share is expected to be right, and that expected share."""
        order = np.argsort(-self.chances, kind="stable")
        means = np.cumsum(self.chances[order]) / np.arange(1, len(order) + 1)
        count = int((means >= share).sum())
        return self.rows[np.sort(order[:count])], float(means[count - 1]) if count else 1.0

    def acceptable(self) -> list[tuple[Rows, float]]:
        """Rows to accept at once, ever more of them, and the share that is expected to be right; none below 80 %."""
        found = [self.sure(share) for share in SHARES]
        sizes = [0, *(len(rows) for rows, _ in found)]
        return [one for before, one in zip(sizes, found, strict=False) if len(one[0]) > before]

    def of_class(self, label: str) -> tuple[Rows, Array]:
        """The rows that a class is proposed for, the most probable first, and how probable it is."""
        chances = self.chances
        mine = np.flatnonzero(np.array(self.labels, dtype=object) == label)
        mine = mine[np.argsort(-chances[mine], kind="stable")]
        return self.rows[mine], chances[mine]

    def doubtful(self) -> list[tuple[str, int, float]]:
        """Every class that is proposed, with how many photos and how many of them are expected to be wrong."""
        found: dict[str, tuple[int, float]] = {}
        for label, chance in zip(self.labels, self.chances.tolist(), strict=True):
            count, wrong = found.get(label, (0, 0.0))
            found[label] = count + 1, wrong + 1 - chance
        told = [(label, count, wrong) for label, (count, wrong) in found.items()]
        return sorted(told, key=lambda one: (-one[2], one[0]))

    def questions(self, features: Array, count: int) -> list[int]:
        """The rows that are most useful to label: uncertain ones in dense regions, far from each other."""
        if not len(self.rows) or count < 1:
            return []
        return [int(self.rows[i]) for i in spread_doubt(self.probabilities, features[self.rows], count)]


def propose(pile: Pile, labels: Sequence[str | None], open_rows: Rows, refused: Sequence[Sequence[str]]) -> Proposals:
    """Labels for the open rows by the ordinary fit of those that are labelled; refused ones are not proposed.

    `labels` and `refused` have an entry for every photo of the pile. While labels are few, the open rows teach too.
    """
    taught = np.array([i for i, label in enumerate(labels) if label is not None], dtype=np.intp)
    names = [label for label in labels if label is not None]
    gathered = Gathered.empty(max(len(pile), 1), 0, pile.layout)
    gathered.add([pile.batch(taught, names)])
    counts = np.unique(names, return_counts=True)[1]
    if np.median(counts) < ENOUGH and len(open_rows):
        gathered.add_unlabelled([pile.batch(open_rows, None)], len(pile), 0)
    model = solve(gathered, SolveSettings(prior="uniform"), Origin())
    classes = model.mapping.classes
    barred = np.zeros((len(pile), len(classes)), dtype=bool)
    places = {name: i for i, name in enumerate(classes)}
    for row, those in enumerate(refused):
        barred[row, [places[name] for name in those if name in places]] = True
    scores = np.asarray(model.mapping(pile.responses[open_rows]))
    temperature = _temperature(model, scores, barred[open_rows])
    scores = np.where(barred[open_rows] & ~barred[open_rows].all(axis=1, keepdims=True), -np.inf, scores)
    return Proposals(open_rows, classes, np.exp(log_probabilities(scores, temperature)))


def _temperature(model: Model, scores: Array, barred: NDArray[np.bool_]) -> float:
    """The temperature under which labels left out, and photos whose label was refused, are most probable.

    Photos that were thrown out are harder than those that were not: of them it is known which class is wrong.
    """
    candidates = model.choice.temperature * TEMPERATURES
    left_out = model.left_out()
    hard = barred.any(axis=1)
    losses = np.zeros(len(candidates))
    for i, temperature in enumerate(candidates):
        if left_out is not None:
            scored = left_out.scored
            logs = log_probabilities(scored.scores, temperature)
            losses[i] -= logs[np.arange(len(scored.truth)), scored.truth].sum()
        if hard.any():
            wrong = np.exp(log_probabilities(scores[hard], temperature))
            right = 1 - np.where(barred[hard], wrong, 0.0).sum(axis=1)
            losses[i] -= np.log(np.maximum(right, 1e-9)).sum()
    return float(candidates[int(losses.argmin())])
