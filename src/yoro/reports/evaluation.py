"""The report of a fit or an evaluation: metrics, confusion matrix, worst mistakes, every class."""

from __future__ import annotations

import heapq
import io
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image

from yoro.data.examples import Example, natural_order
from yoro.data.thumbnails import SQUASHED, thumbnail_of
from yoro.discriminant.calibration import Prior
from yoro.discriminant.evidence import Choice
from yoro.errors import InputError
from yoro.files.result_view import PNG
from yoro.model.answers import Answers, left_out_answers
from yoro.model.ledger import Duplicates, find_duplicates
from yoro.model.metrics import Evaluation, Measure, Tally
from yoro.model.model import Model
from yoro.model.open_model import OpenModel
from yoro.model.settings import USUAL, Loading
from yoro.reports.matrix import matrix_drawing
from yoro.reports.page import render
from yoro.reports.svg import curve, logarithmic_axis, reliability_diagram

Counts = NDArray[np.int64]  # (classes, classes): rows are true classes, columns answers

CELLS = 40  # classes up to which a matrix is a table of numbers
DRAWN = 250  # classes up to which it is a drawing with names; above, a picture
MOST_FILES = 100  # named one by one: what could not be read, what is there twice
LEVELS = 10  # of colour in that table, styled in report.css
LARGEST_PICTURE = 1000  # pixels of a side; with more classes, neighbours share a pixel
RIGHT, WRONG = (46, 118, 220), (226, 96, 26)  # colours of a picture, seen on white and on black
MOST_MISTAKES = 24  # of the worst, on a page
MOST_PHOTOS, EACH = 240, 6  # that cells of the matrix open: of all, and of one
PART = 12  # classes of the worst part of a matrix that is a drawing
MOST_CONFUSIONS = 20  # listed beside a picture; beside a table of numbers half as many
MOST_BYTES = 65_536  # of one thumbnail; one made by `thumbnail` has about 4,000
JPEG = b"\xff\xd8\xff"


@dataclass(frozen=True)
class PhotoAnswer:
    """An answer, wrong or right: the file's name, the true class, the answer and its probability, a small picture."""

    name: str
    truth: str
    answer: str
    probability: float
    thumbnail: bytes

    def __post_init__(self) -> None:
        if len(self.thumbnail) > MOST_BYTES:
            told = f"The thumbnail of {self.name!r} has {len(self.thumbnail):,} bytes; expected at most {MOST_BYTES:,}."
            raise InputError(f"{told} Make it with yoro.data.thumbnails.thumbnail.")
        if not self.thumbnail.startswith((JPEG, PNG)):
            raise InputError(f"The thumbnail of {self.name!r} is neither a JPEG nor a PNG.")


class Seen(NamedTuple):
    """An answer before its picture is made; in this order, the most surprising is the largest."""

    surprise: float  # the probability of a wrong answer, the lack of it for a right one
    name: str
    truth: str
    answer: str
    probability: float


class Photos:
    """What a page shows: the most confident mistakes, and the most surprising answers of every cell of the matrix."""

    def __init__(self, classes: tuple[str, ...]) -> None:
        self._classes = classes
        self.worst: list[Seen] = []
        self.cells: dict[tuple[str, str], list[Seen]] = {}  # by true class and answer

    def add(self, batch: Answers) -> None:
        """Look at the answers of one more batch."""
        best, sure = batch.log_probabilities.argmax(axis=1), np.exp(batch.log_probabilities.max(axis=1))
        wrong = []
        for name, label, i, probability in zip(batch.names, batch.labels or [], best, sure.tolist(), strict=True):
            answer = self._classes[i]
            one = Seen(probability if answer != label else 1.0 - probability, name, label, answer, probability)
            if answer != label:
                wrong.append(one)
            if len(self._classes) <= DRAWN:
                cell = self.cells.setdefault((label, answer), [])
                (heapq.heappush if len(cell) < EACH else heapq.heappushpop)(cell, one)
        self.worst = heapq.nlargest(MOST_MISTAKES, [*self.worst, *wrong])

    def shown(self, pictures: Mapping[str, Example], most: int = MOST_PHOTOS) -> list[PhotoAnswer]:
        """The mistakes, and at most so many of the cells, wrong ones first, whose pictures can be made."""
        cells = sorted(self.cells.items(), key=lambda cell: (cell[0][0] == cell[0][1], -len(cell[1]), cell[0]))
        few = [one for _, cell in cells for one in sorted(cell, reverse=True)][:most]
        made = []
        for one in dict.fromkeys([*self.worst, *few]):
            example = pictures.get(one.name)
            small = thumbnail_of(example, SQUASHED)
            if example is not None and small is not None:
                made.append(PhotoAnswer(example.name, one.truth, one.answer, one.probability, small))
        return made


def evaluation_report(
    classifier: OpenModel, data: object, *, prior: Prior | None = None, loading: Loading = USUAL, progress: bool = False
) -> tuple[Evaluation, str]:
    """The metrics on labelled data, and the report."""
    evaluation, photos, pictures, twice = _measured(classifier, data, loading, progress, prior)
    model, title = classifier.model, f"Evaluation: {len(classifier.names)} classes"
    basis = f"{evaluation.n:,} labelled examples{f' of {data}' if isinstance(data, str | Path) else ''}"
    seen, facts = photos.shown(pictures), _facts(model)
    return evaluation, report_html(title, evaluation, model.choice, seen, facts, basis=basis, twice=twice)


def measured_mistakes(classifier: OpenModel, data: object) -> tuple[Evaluation, list[PhotoAnswer]]:
    """The metrics on labelled data, and the most confident mistakes."""
    evaluation, photos, pictures, _ = _measured(classifier, data, USUAL, False)
    return evaluation, photos.shown(pictures, 0)


def _measured(
    classifier: OpenModel, data: object, loading: Loading, progress: bool, prior: Prior | None = None
) -> tuple[Evaluation, Photos, dict[str, Example], Duplicates]:
    """The metrics on labelled data, what may be shown of them, the images by name, and the duplicates."""
    part, notes = classifier.to_measure(data)
    pictures = {example.name: example for example in part} if isinstance(part, list) else {}
    answers = classifier.measured(part, prior=prior, loading=loading, progress=progress)
    measure, photos, twice = Measure(classifier.names), Photos(classifier.names), Duplicates()
    for batch in answers:
        labels = batch.labels or []
        measure.update(batch.log_probabilities, labels, classifier.fitted(batch.digests))
        photos.add(batch)
        for digest, label, name in zip(batch.digests, labels, batch.names, strict=True):
            twice.add(digest, label, name)
    found = measure.result()
    evaluation = replace(found, skipped=tuple(answers.skipped), notes=(*found.notes, *notes))
    return evaluation, photos, pictures, twice


def fit_report(
    classifier: OpenModel,
    fitted: Sequence[Example],
    data: str = "",
    notes: Sequence[str] = (),
    skipped: Sequence[tuple[str, str]] = (),
) -> str | None:
    """The report of a fit, by exact leave-one-out; None if there are no leave-one-out answers.

    `notes` are sentences on the data, `skipped` the unreadable files and why.
    """
    model, classes = classifier.model, classifier.names
    answers = left_out_answers(model)
    if answers is None:
        return None
    tally, photos = Tally(classes), Photos(classes)
    tally.update(answers.log_probabilities, answers.labels or [])
    photos.add(answers)
    evaluation = replace(tally.result(), skipped=tuple(skipped), notes=tuple(notes))
    entries = [f"{digest.hex()} {label}" for digest, label in model.ledger.entries()]
    seen = photos.shown(dict(zip(entries, fitted, strict=False)))
    basis = f"exact leave-one-out on {evaluation.n:,} of {model.statistics.total:,.0f} fitted examples"
    title = f"Fit: {len(classes)} classes" + (f" from {data}" if data else "")
    facts, twice = _facts(model), _twice(model, fitted)
    return report_html(title, evaluation, model.choice, seen, facts, basis=basis, twice=twice)


def report_html(
    title: str,
    evaluation: Evaluation,
    choice: Choice | None,
    seen: Sequence[PhotoAnswer],
    facts: Mapping[str, str],
    *,
    basis: str,
    twice: Duplicates | None = None,
) -> str:
    """The report as HTML: self-contained, without scripts, and bounded in size.

    `basis` says what was measured on, such as "597 held-out images"; `twice` are the duplicates.
    """
    names = [figures.name for figures in evaluation.per_class]
    few, drawn = len(names) <= CELLS, CELLS < len(names) <= DRAWN
    shared = -(-len(names) // LARGEST_PICTURE)  # rounded up
    order = sorted(range(len(names)), key=lambda i: natural_order(names[i])) if few or drawn else []
    counts = evaluation.matrix(shared)
    counts = counts[np.ix_(order, order)] if order else counts
    names = [names[i] for i in order] or names
    cells = _cells(seen, names) if few or drawn else {}
    worst = sorted((one for one in seen if one.truth != one.answer), key=lambda one: (-one.probability, one.name))
    found, part = twice or Duplicates(), _worst_part(evaluation, names) if drawn else []
    return render(
        "evaluation.html",
        title=title,
        basis=basis,
        evaluation=evaluation,
        facts=facts,
        matrix=_matrix_rows(counts, names, cells, part or range(len(names))) if few or part else [],
        drawing=matrix_drawing(counts, names, cells) if drawn else "",
        picture=None if few or drawn else _matrix_picture(counts),
        cells=[(cell, names[cell[0]], names[cell[1]], counts[cell], cells[cell]) for cell in cells],
        classes_of_a_pixel=shared,
        confusions=_most_frequent(evaluation, MOST_CONFUSIONS // 2 if few else MOST_CONFUSIONS),
        mistakes=worst[:MOST_MISTAKES],
        n_mistakes=sum(pair.n for pair in evaluation.mistakes),
        classes=sorted(evaluation.per_class, key=lambda one: (one.n == 0, one.f1, natural_order(one.name))),
        reliability=reliability_diagram([(part.confidence, part.accuracy, part.n) for part in evaluation.reliability]),
        notes=evaluation.notes,
        skipped=evaluation.skipped,
        conflicts=found.conflicts,
        repeats=found.repeats,
        most=MOST_FILES,
        choice=choice,
        curve=shrinkage_curve(choice) if choice else "",
    )


def _cells(seen: Sequence[PhotoAnswer], names: Sequence[str]) -> dict[tuple[int, int], list[PhotoAnswer]]:
    """The photos of every cell that has some, by its row and column."""
    places, cells = {name: i for i, name in enumerate(names)}, dict[tuple[int, int], list[PhotoAnswer]]()
    for one in seen:
        if one.truth in places and one.answer in places:
            cells.setdefault((places[one.truth], places[one.answer]), []).append(one)
    return {cell: cells[cell][:EACH] for cell in sorted(cells)}


def _worst_part(evaluation: Evaluation, names: Sequence[str]) -> list[int]:
    """The classes of the most frequent confusions, as places among the names; empty without confusions."""
    part: dict[str, None] = {}
    for pair in evaluation.mistakes:
        more = {**part, pair.truth: None, pair.answer: None}
        if len(more) > PART:
            break
        part = more
    return [i for i, name in enumerate(names) if name in part]


def shrinkage_curve(choice: Choice) -> Markup:
    """The score of every candidate over the logarithm of the shrinkage; empty without candidates."""
    counted = choice.rule == "validation"
    titles = "shrinkage", "correct answers" if counted else "negative log-likelihood"
    points = zip(choice.candidates, choice.scores, strict=True)
    return curve(points, logarithmic_axis, titles, choice.shrinkage, whole=counted)


def _twice(model: Model, fitted: Sequence[Example]) -> Duplicates:
    """Images that were fitted more than once, with their names."""
    again = [(row, digest, label) for row, digest, label in model.ledger.repeated() if row < len(fitted)]
    names = [fitted[row].name for row, _, _ in again]
    return find_duplicates((digest for _, digest, _ in again), (label for _, _, label in again), names)


def _matrix_rows(
    counts: Counts, names: Sequence[str], cells: Collection[tuple[int, int]], part: Iterable[int]
) -> list[tuple[str, list[tuple[int, str, str]]]]:
    """The rows of a table of some classes: the true class, then for each answer a count, its colour and its photos."""
    levels, part = np.ceil(LEVELS * _shares(counts)).astype(int), list(part)

    def cell(i: int, j: int) -> tuple[int, str, str]:
        colour = f"{'r' if i == j else 'w'} l{levels[i, j]}"
        return int(counts[i, j]), colour, f"{i}-{j}" if (i, j) in cells else ""

    return [(names[i], [cell(i, j) for j in part]) for i in part]


def _matrix_picture(counts: Counts) -> bytes:
    """A PNG with a pixel for each cell."""
    pixels = np.zeros((*counts.shape, 4), dtype=np.uint8)
    pixels[..., :3] = np.where(np.eye(len(counts), dtype=bool)[..., None], RIGHT, WRONG)
    pixels[..., 3] = np.where(counts > 0, np.round(255 * (0.45 + 0.55 * _shares(counts))), 0)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG", optimize=True)
    return stream.getvalue()


def _most_frequent(evaluation: Evaluation, most: int) -> list[tuple[str, str, int, float]]:
    """The most frequent confusions: true class, answer, images, and their share of the images of the true class."""
    images = {figures.name: figures.n for figures in evaluation.per_class}
    return [(pair.truth, pair.answer, pair.n, pair.n / images[pair.truth]) for pair in evaluation.confusions(most)]


def _shares(counts: Counts) -> NDArray[np.float64]:
    """Share of each answer among the images of the true class; zero for a class without images."""
    result: NDArray[np.float64] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return result


def _facts(model: Model) -> dict[str, str]:
    facts = {
        "Backbone": f"{model.origin.name}, width {model.statistics.width}",
        "Prompt": str((model.origin.prompt or {}).get("prompt", "none")),
        "Classes": f"{len(model.mapping.classes):,}",
        "Fitted examples": f"{model.statistics.total:,.0f}",
        "Last change": _last_change(model.history),
        "Shrinkage": f"{model.choice.shrinkage:g}, by {model.choice.rule}",
        "Temperature": f"{model.choice.temperature:.3g}",
        "Protocol": model.protocol,
    }
    return {key: value for key, value in facts.items() if value}


def _last_change(history: Sequence[Mapping[str, object]]) -> str:
    """The last change of a model in its history, and how many changes there were."""
    if not history:
        return ""
    forms = {"verb": "{}", "images": "{} images", "seconds": "{}\u00a0s", "peak_memory_mb": "peak memory {}\u00a0MB"}
    told = ", ".join(form.format(history[-1][key]) for key, form in forms.items() if key in history[-1])
    return told if len(history) == 1 else f"{told}; {len(history):,} changes so far"
