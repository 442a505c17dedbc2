"""The report of a fit or an evaluation: metrics, confusion matrix, worst mistakes, every class."""

from __future__ import annotations

import heapq
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from PIL import Image

from yoro.data.examples import Example
from yoro.data.thumbnails import SQUASHED, thumbnail_of
from yoro.discriminant.calibration import Prior
from yoro.discriminant.evidence import Choice
from yoro.errors import InputError
from yoro.model.answers import Answers, left_out_answers
from yoro.model.ledger import Duplicates, find_duplicates
from yoro.model.metrics import Evaluation, Measure, Tally
from yoro.model.model import Model
from yoro.model.open_model import OpenModel
from yoro.model.settings import HERE, Loading
from yoro.reports.matrix import matrix_drawing
from yoro.reports.page import PNG, render
from yoro.reports.svg import curve, logarithmic_axis, reliability_diagram

Counts = NDArray[np.int64]  # (classes, classes): rows are true classes, columns answers

CELLS = 40  # classes up to which a matrix is a table of numbers
DRAWN = 250  # classes up to which it is a drawing with names; above, a picture
MOST_FILES = 100  # named one by one: what could not be read, what is there twice
LEVELS = 10  # of colour in that table, styled in report.css
LARGEST_PICTURE = 1000  # pixels of a side; with more classes, neighbours share a pixel
RIGHT, WRONG = (46, 118, 220), (226, 96, 26)  # colours of a picture, seen on white and on black
MOST_MISTAKES = 24  # thumbnails on a page
MOST_CONFUSIONS = 20  # listed beside a picture; beside a table of numbers half as many
MOST_BYTES = 65_536  # of one thumbnail; one made by `thumbnail` has about 4,000
JPEG = b"\xff\xd8\xff"


@dataclass(frozen=True)
class Mistake:
    """A wrong answer: the file's name, the true class, the answer and its probability, a small JPEG or PNG."""

    name: str
    truth: str
    answer: str
    probability: float
    thumbnail: bytes

    def __post_init__(self) -> None:
        if len(self.thumbnail) > MOST_BYTES:
            raise InputError(
                f"The thumbnail of {self.name!r} has {len(self.thumbnail):,} bytes; "
                f"expected at most {MOST_BYTES:,}. Make it with yoro.data.thumbnails.thumbnail."
            )
        if not self.thumbnail.startswith((JPEG, PNG)):
            raise InputError(f"The thumbnail of {self.name!r} is neither a JPEG nor a PNG.")


class Wrong(NamedTuple):
    """A wrong answer before its picture is made; in this order, the most certain is the largest."""

    probability: float
    name: str
    truth: str
    answer: str


def evaluation_report(
    classifier: OpenModel,
    data: object,
    *,
    prior: Prior | None = None,
    loading: Loading = HERE,
    progress: bool = False,
) -> tuple[Evaluation, str]:
    """The metrics on labelled data, and the report."""
    evaluation, mistakes, twice = _measured(classifier, data, loading, progress, prior)
    model = classifier.model
    title = f"Evaluation: {len(classifier.names)} classes"
    given = f" of {data}" if isinstance(data, str | Path) else ""
    basis = f"{evaluation.n:,} labelled examples{given}"
    return evaluation, report_html(title, evaluation, model.choice, mistakes, _facts(model), basis=basis, twice=twice)


def measured_mistakes(
    classifier: OpenModel, data: object, *, loading: Loading = HERE, progress: bool = False
) -> tuple[Evaluation, list[Mistake]]:
    """The metrics on labelled data, and the most confident mistakes."""
    return _measured(classifier, data, loading, progress)[:2]


def _measured(
    classifier: OpenModel, data: object, loading: Loading, progress: bool, prior: Prior | None = None
) -> tuple[Evaluation, list[Mistake], Duplicates]:
    """The metrics on labelled data, the most confident mistakes, and the duplicates."""
    part, notes = classifier.to_measure(data)
    pictures = {example.name: example for example in part} if isinstance(part, list) else {}
    answers = classifier.measured(part, prior=prior, loading=loading, progress=progress)
    measure, worst, twice = Measure(classifier.names), list[Wrong](), Duplicates()
    for batch in answers:
        labels = batch.labels or []
        measure.update(batch.log_probabilities, labels, classifier.fitted(batch.digests))
        worst = _worst(worst, batch, classifier.names)
        for digest, label, name in zip(batch.digests, labels, batch.names, strict=True):
            twice.add(digest, label, name)
    evaluation = measure.result()
    evaluation = replace(evaluation, skipped=tuple(answers.skipped), notes=(*evaluation.notes, *notes))
    return evaluation, _mistakes(worst, pictures), twice


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
    tally = Tally(classes)
    tally.update(answers.log_probabilities, answers.labels or [])
    evaluation, worst = tally.result(), _worst([], answers, classes)
    twice = _twice(model, fitted)
    evaluation = replace(evaluation, skipped=tuple(skipped), notes=tuple(notes))
    entries = [f"{digest.hex()} {label}" for digest, label in model.ledger.entries()]
    mistakes = _mistakes(worst, dict(zip(entries, fitted, strict=False)))
    basis = f"exact leave-one-out on {evaluation.n:,} of {model.statistics.total:,.0f} fitted examples"
    title = f"Fit: {len(classes)} classes" + (f" from {data}" if data else "")
    return report_html(title, evaluation, model.choice, mistakes, _facts(model), basis=basis, twice=twice)


def report_html(
    title: str,
    evaluation: Evaluation,
    choice: Choice | None,
    mistakes: Sequence[Mistake],
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
    counts = evaluation.matrix(shared)
    found = twice or Duplicates()
    return render(
        "evaluation.html",
        title=title,
        basis=basis,
        evaluation=evaluation,
        facts=facts,
        matrix=_matrix_rows(counts, names) if few else [],
        drawing=matrix_drawing(counts, names) if drawn else "",
        picture=None if few or drawn else _matrix_picture(counts),
        classes_of_a_pixel=shared,
        confusions=_most_frequent(evaluation, MOST_CONFUSIONS // 2 if few else MOST_CONFUSIONS),
        mistakes=sorted(mistakes, key=lambda mistake: (-mistake.probability, mistake.name))[:MOST_MISTAKES],
        n_mistakes=len(mistakes),
        classes=sorted(evaluation.per_class, key=lambda figures: (figures.n == 0, figures.f1, figures.name)),
        reliability=reliability_diagram([(part.confidence, part.accuracy, part.n) for part in evaluation.reliability]),
        notes=evaluation.notes,
        skipped=evaluation.skipped,
        conflicts=found.conflicts,
        repeats=found.repeats,
        most=MOST_FILES,
        choice=choice,
        curve=shrinkage_curve(choice) if choice else "",
    )


def shrinkage_curve(choice: Choice) -> Markup:
    """The score of every candidate over the logarithm of the shrinkage; empty without candidates."""
    counted = choice.rule == "validation"
    titles = "shrinkage", "correct answers" if counted else "negative log-likelihood"
    points = zip(choice.candidates, choice.scores, strict=True)
    return curve(points, logarithmic_axis, titles, choice.shrinkage, whole=counted)


def _worst(so_far: Sequence[Wrong], batch: Answers, classes: tuple[str, ...]) -> list[Wrong]:
    """The most confident mistakes so far, with those of one more batch."""
    best, sure = batch.log_probabilities.argmax(axis=1), np.exp(batch.log_probabilities.max(axis=1))
    wrong = [
        Wrong(float(probability), name, label, classes[i])
        for name, label, i, probability in zip(batch.names, batch.labels or [], best, sure, strict=True)
        if classes[i] != label
    ]
    return heapq.nlargest(MOST_MISTAKES, [*so_far, *wrong])


def _twice(model: Model, fitted: Sequence[Example]) -> Duplicates:
    """Images that were fitted more than once, with their names."""
    again = [(row, digest, label) for row, digest, label in model.ledger.repeated() if row < len(fitted)]
    names = [fitted[row].name for row, _, _ in again]
    return find_duplicates((digest for _, digest, _ in again), (label for _, _, label in again), names)


def _mistakes(worst: Iterable[Wrong], pictures: Mapping[str, Example]) -> list[Mistake]:
    """The mistakes with thumbnails; responses have none."""
    mistakes = []
    for wrong in worst:
        example = pictures.get(wrong.name)
        small = thumbnail_of(example, SQUASHED)
        if example is not None and small is not None:
            mistakes.append(Mistake(example.name, wrong.truth, wrong.answer, wrong.probability, small))
    return mistakes


def _matrix_rows(counts: Counts, names: Sequence[str]) -> list[tuple[str, list[tuple[int, str]]]]:
    """The rows of a table: the true class, then for each answer a count and how its cell is coloured."""
    levels = np.ceil(LEVELS * _shares(counts)).astype(int).tolist()
    return [
        (name, [(count, f"{'r' if i == j else 'w'} l{levels[i][j]}") for j, count in enumerate(row)])
        for i, (name, row) in enumerate(zip(names, counts.tolist(), strict=True))
    ]


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
