"""How good a classifier's answers are: counted batch by batch, so that memory does not grow."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import listed
from yoro.errors import InputError, counted, percent_text
from yoro.files.result_view import Result, Table
from yoro.mappings.batches import Array, class_codes

MOST_CONFUSIONS = 10  # shown in a notebook
BINS = 15  # of confidence, for the calibration error
THRESHOLDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # of confidence, below which an answer may be refused
MATRIX_CLASSES = 2_000  # of a confusion matrix that is written out; of more classes only the confusions are listed
ALL_FITTED = (
    "WARNING: all {} were used to fit this model, so these figures show how well it remembers, not how accurate it "
    "is. Evaluate on other images, or use the leave-one-out accuracy that `fit` reports."
)
SOME_FITTED = "WARNING: {} of the {} were used to fit this model; trust only the figures for the {}."
NORMAL_95 = 1.959963984540054  # the 97.5 % point of the normal distribution


@dataclass(frozen=True)
class Confidence:
    """The answers of one range of confidence: how many, how sure they were on average, and the share that is right."""

    n: int
    confidence: float
    accuracy: float


@dataclass(frozen=True)
class Threshold:
    """The effect of a confidence threshold: the share of images refused, and precision and recall of the rest."""

    confidence: float
    refused: float
    precision: float | None  # None where all are refused
    recall: float


@dataclass(frozen=True)
class Confusion:
    """Images of one class that were taken for another."""

    truth: str
    answer: str
    n: int


@dataclass(frozen=True)
class ClassFigures:
    """Figures of one class; precision is None where the class was never answered."""

    name: str
    n: int
    precision: float | None
    recall: float | None
    f1: float  # 0 where it is not `used`

    @property
    def used(self) -> bool:
        """Whether the class is true of an example, or predicted: others do not count in means."""
        return self.recall is not None or self.precision is not None


@dataclass(frozen=True, repr=False)
class Evaluation(Result):
    """Figures over all images; `interval` holds the 95 % bounds of the accuracy (Wilson)."""

    accuracy: float
    n: int
    interval: tuple[float, float]
    balanced_accuracy: float
    macro_f1: float
    log_loss: float
    calibration_error: float
    per_class: tuple[ClassFigures, ...]
    # Rows: true class, columns: answer, both in the order of per_class; empty beyond MATRIX_CLASSES classes.
    confusion: tuple[tuple[int, ...], ...]
    reliability: tuple[Confidence, ...] = ()  # by rising confidence; ranges without answers are left out
    skipped: tuple[tuple[str, str], ...] = ()  # images that could not be read, and why
    notes: tuple[str, ...] = ()  # sentences on what was measured on
    fitted: int = 0  # images among them that the model was fitted on
    unseen: Evaluation | None = None  # the figures of the others alone, where some were fitted and some were not
    mistakes: tuple[Confusion, ...] = ()  # every confusion, the most frequent first
    thresholds: tuple[Threshold, ...] = ()  # by rising confidence

    def to_json(self) -> dict[str, object]:
        """Plain values for a machine to read; those of the unseen images first, where they are counted apart."""
        unseen = {} if self.unseen is None else {"unseen": self.unseen.to_json()}
        figures = asdict(replace(self, unseen=None, mistakes=()))
        del figures["mistakes"]  # the matrix has them
        listed = {} if self.confusion else {"confusions": [vars(pair) for pair in self.mistakes]}
        return unseen | figures | listed | unseen | {"skipped": [name for name, _ in self.skipped]}

    def confusions(self, most: int) -> list[Confusion]:
        """The most frequent mistakes, the most frequent first."""
        return list(self.mistakes[:most])

    def matrix(self, together: int = 1) -> NDArray[np.int64]:
        """The confusion matrix, with so many neighbouring classes in one row and one column."""
        place = {figures.name: i // together for i, figures in enumerate(self.per_class)}
        side = -(-len(place) // together)
        counts = np.zeros((side, side), dtype=np.int64)
        for figures in self.per_class:
            counts[place[figures.name], place[figures.name]] += round((figures.recall or 0.0) * figures.n)
        for pair in self.mistakes:
            counts[place[pair.truth], place[pair.answer]] += pair.n
        return counts

    def headline(self) -> str:
        low, high = (percent_text(bound) for bound in self.interval)
        told = f"accuracy {percent_text(self.accuracy)} (95 %: {low} to {high}) on {counted(self.n, 'image')}"
        balanced = f"balanced {percent_text(self.balanced_accuracy)}, log loss {self.log_loss:.3g}"
        return " ".join([f"{told}; {balanced}.", *self.notes])

    def tables(self) -> list[Table]:
        """The figures of the classes, and the most frequent mistakes."""
        classes = Table([asdict(figures) for figures in self.per_class], bars=("precision", "recall", "f1"))
        return [classes, Table([vars(pair) for pair in self.confusions(MOST_CONFUSIONS)], "Most frequent confusions")]


class Tally:
    """Counts of answers against the truth."""

    def __init__(self, classes: tuple[str, ...]) -> None:
        self.classes = classes
        self._pairs: Counter[tuple[int, int]] = Counter()  # images of each true class and answer
        self._loss = 0.0
        self._bins = np.zeros((3, BINS))  # images, correct answers and summed confidence of each bin
        self._above = np.zeros((2, len(THRESHOLDS)), dtype=np.int64)  # answers and correct ones at each threshold

    def update(self, log_probabilities: Array, labels: list[str]) -> None:
        """Add answers (n, classes) with the true labels."""
        refuse_strangers(set(labels), self.classes)
        truth = class_codes(labels, self.classes)
        answer = log_probabilities.argmax(axis=1)
        self._pairs.update(zip(truth.tolist(), answer.tolist(), strict=True))
        rows = np.arange(len(truth))
        floor = np.log(np.finfo(np.float64).tiny)  # a probability of zero costs much, not everything
        self._loss -= float(np.maximum(log_probabilities[rows, truth], floor).sum())
        confidence = np.exp(log_probabilities[rows, answer])
        bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
        for row, weight in zip(self._bins, (np.ones(len(truth)), answer == truth, confidence), strict=True):
            row += np.bincount(bins, weight, BINS)
        above = confidence[:, None] >= np.array(THRESHOLDS)
        self._above += above.sum(axis=0), above[answer == truth].sum(axis=0)

    def result(self) -> Evaluation:
        """The figures of everything added."""
        n, many = self._pairs.total(), len(self.classes)
        if n == 0:
            raise InputError("There is nothing to evaluate: no labelled image could be read.")
        rows, columns = np.array(list(self._pairs), dtype=np.intp).T
        counts = np.fromiter(self._pairs.values(), dtype=np.int64)
        hits, true, answered = (
            np.bincount(places, each, many).astype(np.int64)
            for places, each in ((rows, counts * (rows == columns)), (rows, counts), (columns, counts))
        )
        figures = tuple(
            _figures(*row) for row in zip(self.classes, *map(np.ndarray.tolist, (hits, true, answered)), strict=True)
        )
        names = self.classes
        wrong = (Confusion(names[i], names[j], count) for (i, j), count in self._pairs.items() if i != j)
        matrix = np.zeros((many, many) if many <= MATRIX_CLASSES else 0, dtype=np.int64)
        if len(matrix):
            matrix[rows, columns] = counts
        seen = true > 0
        answers, correct, confidence = self._bins
        return Evaluation(
            accuracy=float(hits.sum()) / n,
            n=n,
            interval=wilson_interval(int(hits.sum()) / n, n),
            balanced_accuracy=float((hits[seen] / true[seen]).mean()),
            macro_f1=float(np.mean([one.f1 for one in figures if one.used])),
            log_loss=self._loss / n,
            calibration_error=float(np.abs(correct - confidence).sum() / n),
            per_class=figures,
            confusion=tuple(map(tuple, matrix.tolist())),
            reliability=tuple(
                Confidence(int(n), float(sure / n), float(right / n))
                for n, right, sure in zip(answers, correct, confidence, strict=True)
                if n
            ),
            mistakes=tuple(sorted(wrong, key=lambda pair: (-pair.n, pair.truth, pair.answer))),
            thresholds=tuple(
                Threshold(at, 1.0 - given / n, right / given if given else None, right / n)
                for at, given, right in zip(THRESHOLDS, *self._above.tolist(), strict=True)
            ),
        )


class Measure:
    """Counts of all answers, and apart of those for images that the model was not fitted on."""

    def __init__(self, classes: tuple[str, ...]) -> None:
        self._all, self._unseen = Tally(classes), Tally(classes)
        self._fitted = 0

    def update(self, log_probabilities: Array, labels: list[str], fitted: NDArray[np.bool_]) -> None:
        """Add answers (n, classes) with the true labels, and whether each image was fitted, (n,)."""
        self._all.update(log_probabilities, labels)
        new = np.flatnonzero(~fitted)
        self._unseen.update(log_probabilities[new], [labels[i] for i in new])
        self._fitted += len(labels) - len(new)

    def result(self) -> Evaluation:
        """The figures of everything added, with a sentence where the model had seen some of it."""
        whole, fitted = self._all.result(), self._fitted
        if not fitted:
            return whole
        if fitted == whole.n:
            return replace(whole, fitted=fitted, notes=(ALL_FITTED.format(counted(fitted, "image")),))
        told = SOME_FITTED.format(f"{fitted:,}", counted(whole.n, "image"), counted(whole.n - fitted, "unseen image"))
        return replace(whole, fitted=fitted, unseen=self._unseen.result(), notes=(told,))


def refuse_strangers(labels: set[str], classes: tuple[str, ...]) -> None:
    """Raise if data to measure on hold a class that the model does not know."""
    unknown = sorted(labels - set(classes))
    if unknown:
        which = f"class {unknown[0]!r}" if len(unknown) == 1 else f"{len(unknown)} classes ({listed(unknown)})"
        rest = "" if unknown == sorted(labels) else " `yoro evaluate --known` measures the others."
        raise InputError(
            f"The model does not know {which} of the data. "
            f"It knows {len(classes)} classes, from {classes[0]!r} to {classes[-1]!r}.{rest}"
        )


def wilson_interval(share: float, n: int, quantile: float = NORMAL_95) -> tuple[float, float]:
    """The interval of a share of n, 95 % by default, which stays within 0 and 1 and is honest near them."""
    z2 = quantile**2
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = quantile / (1 + z2 / n) * np.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    # Nothing and all are bounds of their own, exactly, which rounding would miss.
    return 0.0 if share == 0 else float(centre - half), 1.0 if share == 1 else float(centre + half)


def _figures(name: str, hits: int, true: int, answered: int) -> ClassFigures:
    return ClassFigures(
        name=name,
        n=true,
        precision=hits / answered if answered else None,
        recall=hits / true if true else None,
        f1=2 * hits / (true + answered) if true + answered else 0.0,
    )
