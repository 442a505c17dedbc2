"""A model's answers: log-probabilities of a batch of responses, and from them what each door shows of an image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro.data.python_data import Label
from yoro.discriminant.calibration import log_probabilities
from yoro.errors import percent_text
from yoro.files.result_view import Result, Table
from yoro.files.rows import Row
from yoro.mappings.batches import Array
from yoro.model.metrics import Evaluation, Tally
from yoro.model.model import Json, Model
from yoro.model.priors import shifted
from yoro.model.question import Question

DIGITS = 6  # of a probability in a row


@dataclass(frozen=True)
class Answers:
    """Log-probabilities (n, classes) for named images, with their labels if known."""

    names: Sequence[str]
    log_probabilities: Array
    labels: list[str] | None = None
    digests: Sequence[bytes] = ()  # of their contents
    responses: NDArray[np.floating] | None = None  # that they are made of, where there are any
    typicality: Array | None = None  # (n,) the fraction of training images at least as unusual, if requested
    sets: NDArray[np.bool_] | None = None  # (n, classes) conformal prediction sets, if requested


@dataclass(frozen=True, repr=False)
class ImageAnswer(Result):
    """The answer for one image."""

    name: str
    best: tuple[tuple[Label, float], ...]  # the most probable classes, and how probable they are
    unsure: bool = False  # whether the best is less probable than the threshold
    unknown: bool = False  # whether the image is out of distribution
    typicality: float | None = None
    labels: tuple[Label, ...] | None = None  # the conformal prediction set, the most probable first

    @property
    def label(self) -> Label | None:
        """The best class; None where it is not to be relied on."""
        return None if self.unsure or self.unknown else self.best[0][0]

    def headline(self) -> str:
        doubt = " (out of distribution)" if self.unknown else " (unsure)" if self.unsure else ""
        return f"{self.name}: {self.best[0][0]}, {percent_text(self.best[0][1])}{doubt}"

    def tables(self) -> list[Table]:
        """The most probable classes."""
        rows: list[Row] = [{"label": label, "probability": probability} for label, probability in self.best]
        return [Table(rows, bars=("probability",))]

    def row(self, top: int | None = None, *, before: str = "", digits: int = DIGITS) -> Json:
        """A row of a table, with `top` of the best classes.

        `before` stands before a relative path so that the file can be found from here.
        """
        row: Json = {"path": self.name if Path(self.name).is_absolute() else before + self.name}
        for rank, (label, probability) in enumerate(self.best[:top], start=1):
            suffix = "" if rank == 1 else f"_{rank}"
            row[f"label{suffix}"] = self.label if rank == 1 else label
            row[f"probability{suffix}"] = round(probability, digits)
        return row | self.measured(digits)

    def measured(self, digits: int = DIGITS) -> Json:
        """Typicality and conformal prediction set, if requested."""
        typical = {} if self.typicality is None else {"typicality": round(self.typicality, digits)}
        return typical | ({} if self.labels is None else {"labels": list(self.labels)})


def log_answers(model: Model, responses: NDArray[np.floating], shift: Array | None = None) -> Array:
    """Log-probabilities (n, classes) of responses (n, width); `shift` is what `prior_shift` gives for another prior."""
    return shifted(log_probabilities(model.mapping(responses), model.choice.temperature), shift)


def image_answers(batch: Answers, question: Question, labels: Sequence[Label]) -> Iterator[ImageAnswer]:
    """One answer an image; `labels` are the classes in the order of the columns, as they are to be shown."""
    probabilities = np.exp(batch.log_probabilities)
    for row, name in enumerate(batch.names):
        logs, shares = batch.log_probabilities[row], probabilities[row]
        ranked = _ranked(logs, question.top)
        typical = None if batch.typicality is None else float(batch.typicality[row])
        yield ImageAnswer(
            name,
            tuple((labels[i], float(shares[i])) for i in ranked),
            bool(shares[ranked[0]] < question.threshold),
            typical is not None and question.unknown is not None and typical <= question.unknown,
            typical,
            None if batch.sets is None else tuple(labels[i] for i in _ranked(logs, among=batch.sets[row])),
        )


def _ranked(logs: Array, top: int | None = None, among: NDArray[np.bool_] | None = None) -> list[int]:
    """The `top` most probable classes among some, the first of equals first; without sorting all the others."""
    if among is None and top is not None and top < len(logs):
        among = logs >= np.partition(logs, len(logs) - top)[len(logs) - top]
    chosen = np.arange(len(logs)) if among is None else np.flatnonzero(among)
    return chosen[np.argsort(-logs[chosen], kind="stable")][:top].tolist()  # type: ignore[no-any-return]


def left_out_answers(model: Model) -> Answers | None:
    """Exact leave-one-out answers for the stored examples, named by digest and label; None if too few."""
    found = model.left_out()
    if found is None or model.reservoir is None:
        return None
    digests, classes = model.reservoir.members().digests, model.statistics.classes
    labels = [classes[i] for i in found.scored.truth]
    names = [f"{digests[row].hex()} {label}" for row, label in zip(found.rows, labels, strict=True)]
    return Answers(names, log_probabilities(found.scored.scores, model.choice.temperature), labels)


def left_out_evaluation(model: Model) -> Evaluation | None:
    """Leave-one-out accuracy and other figures of a model; None if there are too few images."""
    answers, tally = left_out_answers(model), Tally(model.statistics.classes)
    if answers is None:
        return None
    tally.update(answers.log_probabilities, answers.labels or [])
    return tally.result()
