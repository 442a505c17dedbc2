"""Label issues: probable label errors (label noise), outliers, duplicates and near duplicates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from yoro.data.thumbnails import thumbnails_by_path
from yoro.discriminant.calibration import margins
from yoro.discriminant.readings import Layout, unit_rows
from yoro.errors import InputError, counted
from yoro.files.result_view import Result, Table
from yoro.mappings.batches import Array
from yoro.model.model import Model
from yoro.model.open_model import OpenModel
from yoro.model.settings import USUAL, Loading
from yoro.trust.leave_one_out_answers import LeftOutExamples, left_out, members_of
from yoro.trust.out_of_distribution import left_out_scores

LABEL, HARD, OUTLIER, DUPLICATE, NEAR = "label", "hard photo", "outlier", "duplicate", "near duplicate"
KINDS: Final = (LABEL, HARD, OUTLIER, DUPLICATE, NEAR)
MOST_WRONG = 0.5  # share of the labels that may be wrong
TEMPERATURES = (np.log(0.2), np.log(2.0))  # logarithms of those that are tried
TINY = 1e-300
LIKELY = 64  # classes of an example, by probability, that count for the expected number of wrong labels
ALIKE = 0.35  # near duplicates are closer than this share of the usual distance to the nearest neighbour
FAR = 3.0  # outliers score this many interquartile ranges above the upper quartile
BLOCK = 1024  # rows compared at a time
DIGITS = 9  # of a cosine that order pairs; what differs less is equal to rounding
MOST_PAIRS = 10_000  # near duplicates that are listed


@dataclass(frozen=True)
class Issue:
    """An example to review; `score` ranks the issues of one kind, the largest first.

    For a label and for a hard photo it is the margin: the log odds of the best other class against the label.
    """

    kind: str
    name: str
    label: str
    proposed: str  # the most probable class but the label
    score: float
    probability: float  # of the proposed class
    like: str  # the image that it repeats
    digest: str  # of the content, 32 hex digits

    def row(self) -> dict[str, object]:
        """The issue as a row of a list; the reviewer fills in `action`."""
        return {
            "path": self.name,
            "label": self.label,
            "issue": self.kind,
            "proposed": self.proposed,
            "score": round(self.score, 6),
            "probability": round(self.probability, 6),
            "like": self.like,
            "digest": self.digest,
            "action": "",
        }


@dataclass(frozen=True, repr=False)
class Issues(Result):
    """The issues of labelled examples, and the leave-one-out answers behind them.

    `labels` (n,) and `pred_probs` (n, classes) are what cleanlab's `find_label_issues` takes: indices into `classes`,
    and probabilities by the model without the example.
    """

    found: tuple[Issue, ...]
    left_out: LeftOutExamples

    def __iter__(self) -> Iterator[Issue]:
        return iter(self.found)

    def __len__(self) -> int:
        return len(self.found)

    @property
    def classes(self) -> tuple[str, ...]:
        return self.left_out.classes

    @property
    def names(self) -> tuple[str, ...]:
        """The examples, as the rows of `labels` and `pred_probs`."""
        return self.left_out.examples.names

    @property
    def labels(self) -> NDArray[np.intp]:
        return self.left_out.truth

    @property
    def pred_probs(self) -> Array:
        return np.exp(self.left_out.log_probabilities)

    @property
    def wrong_labels(self) -> str:
        """How many labels are expected to be wrong, in words; those are the issues of kind label."""
        count = len(self.of(LABEL))
        return f"about {counted(count, 'wrong label')}" if count else "no clearly wrong label"

    def headline(self) -> str:
        others = [counted(len(found), kind) for kind in KINDS[1:] if (found := self.of(kind))]
        told = ", ".join([self.wrong_labels, *others])
        return f"{told[0].upper()}{told[1:]} in {counted(len(self.names), 'example')}."

    def tables(self) -> list[Table]:
        """The issues, the most suspicious of each kind first."""
        rows = [{k: v for k, v in issue.row().items() if k not in ("digest", "action")} for issue in self.found]
        return [Table(rows, bars=("probability",), picture=thumbnails_by_path(self.left_out.pictures))]

    def of(self, kind: str) -> list[Issue]:
        return [issue for issue in self.found if issue.kind == kind]


def find_issues(classifier: OpenModel, data: object, *, loading: Loading = USUAL, progress: bool = False) -> Issues:
    """Issues of labelled data: labels by exact leave-one-out, duplicates by content and by response."""
    answers = left_out(classifier, data, loading=loading, progress=progress)
    model = classifier.model
    pairs = near_duplicates(answers.examples.responses, answers.examples.digests, model.statistics.layout)
    near = [_twin(answers, NEAR, later, first, cosine) for cosine, first, later in pairs]  # in another size or format
    return Issues((*_labels(answers), *_outliers(answers, model), *_duplicates(answers), *near), answers)


def _labels(answers: LeftOutExamples) -> list[Issue]:
    """Examples for which another class is more probable than the label, the largest margin first.

    As many as are expected to be wrong are label issues; the others are hard photos.
    """
    if not len(answers.examples):
        return []
    margin, best = margins(answers.log_probabilities, answers.truth)
    strong = round(expected_wrong_labels(answers.log_probabilities, answers.truth))
    order = [i for i in np.argsort(-margin).tolist() if margin[i] > 0]
    kinds = [LABEL] * strong + [HARD] * len(order)
    return [_issue(answers, kind, i, int(best[i]), float(margin[i])) for kind, i in zip(kinds, order, strict=False)]


def expected_wrong_labels(log_probabilities: Array, truth: NDArray[np.intp]) -> float:
    """How many labels are expected to be wrong, by leave-one-out log-probabilities (n, classes) and labels (n,).

    A share of the labels is taken to be drawn at random from the other classes. That share, and the temperature of the
    answers, which was fitted as if all labels were right, are those of the greatest likelihood of the labels given.
    """
    n, classes = log_probabilities.shape
    if n == 0 or classes < 2:
        return 0.0
    own = log_probabilities[np.arange(n), truth]
    likely = np.sort(log_probabilities, axis=1)[:, -LIKELY:]
    highest = likely[:, -1]

    def loss(log_temperature: float) -> tuple[float, float]:
        """The best negative log-likelihood at a temperature, and the share of wrong labels there."""
        scale = np.exp(-log_temperature)
        normaliser = scale * highest + np.log(np.exp(scale * (likely - highest[:, None])).sum(axis=1))
        right = np.exp(np.minimum(scale * own - normaliser, 0.0))
        random = (1.0 - right) / (classes - 1)
        found = minimize_scalar(
            lambda share: -np.log((1.0 - share) * right + share * random + TINY).sum(),
            bounds=(0.0, MOST_WRONG), method="bounded",
        )  # fmt: skip
        return float(found.fun), float(found.x)

    best = minimize_scalar(lambda value: loss(value)[0], bounds=TEMPERATURES, method="bounded")
    return float(n * loss(float(best.x))[1])


def _outliers(answers: LeftOutExamples, model: Model) -> list[Issue]:
    """Training images with a far larger OOD score than the others, the largest first."""
    mine = np.flatnonzero(answers.fitted)
    if not len(mine):
        return []
    try:
        _, strange, rows = left_out_scores(model, members_of(answers.examples.take(mine)))
    except InputError:  # too few images to tell
        return []
    _, best = margins(answers.log_probabilities, answers.truth)
    places = mine[rows].tolist()
    return [_issue(answers, OUTLIER, places[i], int(best[places[i]]), float(strange[i])) for i in far_out(strange)]


def far_out(strange: Array) -> list[int]:
    """Which of these OOD scores (n,) are far larger than the others, the largest first."""
    low, high = np.quantile(strange, [0.25, 0.75])
    return [i for i in np.argsort(-strange).tolist() if strange[i] > high + FAR * (high - low)]


def _duplicates(answers: LeftOutExamples) -> list[Issue]:
    first: dict[bytes, int] = {}
    found = []
    for i, content in enumerate(answers.examples.digests):
        if first.setdefault(content, i) != i:
            found.append(_twin(answers, DUPLICATE, i, first[content], 1.0))
    return found


def near_duplicates(
    responses: NDArray[np.floating], digests: Sequence[bytes], layout: Layout
) -> list[tuple[float, int, int]]:
    """`near_pairs` of responses (n, width) by their features; at most the nearest MOST_PAIRS."""
    if not len(responses):
        return []
    rows = responses[:, layout.compared]
    return near_pairs(unit_rows(rows - rows.mean(axis=0, keepdims=True)), digests)[:MOST_PAIRS]


def near_pairs(rows: NDArray[np.floating], digests: Sequence[bytes]) -> list[tuple[float, int, int]]:
    """Pairs of unit rows (n, width) of different contents that lie much nearer than neighbours do, the nearest first.

    Each is a cosine and the two rows. What is near depends on the responses: the median distance of nearest
    neighbours, over the first block, is the measure.
    """
    if len(rows) < 2:
        return []
    cosines = rows[:BLOCK] @ rows.T
    np.fill_diagonal(cosines, -1.0)
    least = 1.0 - ALIKE * float(np.median(1.0 - cosines.max(axis=1)))
    pairs = []
    for start in range(0, len(rows), BLOCK):
        cosines = rows[start : start + BLOCK] @ rows[: start + BLOCK].T
        later, first = np.nonzero(cosines >= least)
        for i, j in zip((later + start).tolist(), first.tolist(), strict=True):
            if j < i and digests[i] != digests[j]:
                pairs.append((float(cosines[i - start, j]), j, i))
    return sorted(pairs, key=lambda pair: (-round(pair[0], DIGITS), pair[1:]))


def _twin(answers: LeftOutExamples, kind: str, later: int, first: int, score: float) -> Issue:
    """An image that repeats another; if their labels differ, that of the first is proposed."""
    return _issue(answers, kind, later, int(answers.truth[first]), score, answers.examples.names[first])


def _issue(answers: LeftOutExamples, kind: str, i: int, proposed: int, score: float, like: str = "") -> Issue:
    examples, sure = answers.examples, float(np.exp(answers.log_probabilities[i, proposed]))
    name, label, digest = examples.names[i], str(examples.labels[i]), examples.digests[i].hex()
    return Issue(kind, name, label, answers.classes[proposed], score, sure, like, digest)
