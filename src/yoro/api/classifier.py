"""The public Classifier: shows labels as they were given, logs notes, and makes reports, tables and plots."""

from __future__ import annotations

import inspect
import logging
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypedDict, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from yoro.api.plots import Plots
from yoro.data.python_data import Data, Label, joined
from yoro.data.thumbnails import thumbnails_by_path
from yoro.discriminant.calibration import Prior
from yoro.errors import InputError, SkippedWarning, counted, percent_text
from yoro.files.atomic import write_file
from yoro.files.result_view import ResultList, Table
from yoro.files.rows import Row, data_frame
from yoro.model.answers import ImageAnswer, left_out_evaluation
from yoro.model.metrics import Evaluation, wilson_interval
from yoro.model.model import Model
from yoro.model.open_model import Change, OpenModel
from yoro.model.pipeline import Pipeline
from yoro.model.question import Question
from yoro.model.settings import USUAL, Loading
from yoro.model.store import check_output, read_model
from yoro.model.unlearning_receipt import Receipt
from yoro.reports.evaluation import evaluation_report, fit_report
from yoro.reports.page import render
from yoro.trust.active_learning import COUNT, NextToLabel, choose_next
from yoro.trust.advice import Advice, advise
from yoro.trust.answering import ask
from yoro.trust.explanations import (
    NEAR,
    ClassReasons,
    Explanation,
    ExplanationRequest,
    ExplanationStream,
    explain_classes,
)
from yoro.trust.label_cleaning import clean, write_undo
from yoro.trust.label_issues import Issues, find_issues
from yoro.trust.unlearning import Verification, verify

if TYPE_CHECKING:
    from pandas import DataFrame

    from yoro import CompareOptions, Comparison

T = TypeVar("T")
LOG = logging.getLogger("yoro")
MOST_COUNTED, MOST_TERMS = 5, 3  # classes in a headline, and terms in a cell
MOST_CLASSES = 30  # named in the HTML of a notebook
EXACT = 17  # digits of a probability that is not rounded


def load(path: str | Path, *, source: str | None = None, device: str = "auto") -> Classifier:
    """Load a saved classifier; nothing in it is executed.

    `source` is the location of the backbone, if it has moved, and is needed for a backbone
    that runs code (`callable:...`).
    """
    return Classifier(read_model(path), source=source, device=device)


class QuestionOptions(TypedDict, total=False):
    """What `to_frame` may be asked besides the best classes; each is described in `yoro.model.question.Question`."""

    threshold: float
    unknown: float | None
    coverage: float | None
    calibrate: object
    sets_by: str
    allow_empty: bool
    prior: Prior | None
    together: bool


@dataclass(frozen=True)
class Report:
    """A self-contained web page, and the figures on it."""

    html: str = field(repr=False)
    evaluation: Evaluation = field(repr=False)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the page."""
        target = Path(path)
        check_output(target, force=force)
        write_file(target, self.html.encode())
        return target

    def to_frame(self) -> DataFrame:
        """The figures of the classes as a table of pandas."""
        return self.evaluation.to_frame()

    def __repr__(self) -> str:
        accuracy = percent_text(self.evaluation.accuracy)
        return f"<yoro report: accuracy {accuracy} of {self.evaluation.n:,}; save(PATH) writes it>"

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" width="100%" height="720" style="border:0"></iframe>'


class Classifier(OpenModel):
    """Images or responses in, classes out, by the labels that were fitted.

    Statistics are kept, so that data can be added, merged and taken back exactly. Data are a
    folder, a list file, (images, labels), pairs, a table, a dataset of torch or Hugging Face, or
    responses; labels may also come as a second argument. Notes go to the logger `yoro`; images that
    could not be read are a SkippedWarning.
    """

    def __init__(
        self, model: Model, *, pipeline: Pipeline | None = None, source: str | None = None, device: str = "auto"
    ) -> None:
        super().__init__(model, pipeline=pipeline, source=source, device=device, tell=_tell)
        self._left_out: tuple[Model, Evaluation | None] | None = None

    @classmethod
    def of(cls, fitted: OpenModel) -> Self:
        """The same model, with all that a Classifier can do."""
        return cls(fitted.model, pipeline=fitted.opened, source=fitted._source, device=fitted._device)

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes, in the order of the columns of `predict_proba`: names, or whole numbers if those were fitted."""
        labels = self.model.labels
        return tuple(labels[column] for column in self._columns())

    def predict(self, data: Data, *, prior: Prior | None = None, loading: Loading = USUAL) -> list[Label]:
        """The best class of each image or response; an unreadable image is an error. `prior` as in `predict_proba`."""
        names, shares = self._probabilities(data, prior, loading)
        best, classes = shares.argmax(axis=1), self.classes
        answers, chances = [classes[i] for i in best], shares.max(axis=1).tolist()
        told = zip(names, answers, chances, strict=True)
        return _predictions(answers, [{"path": name, "label": label, "probability": p} for name, label, p in told])

    def predict_proba(self, data: Data, *, prior: Prior | None = None, loading: Loading = USUAL) -> NDArray[np.float64]:
        """Probabilities (n, classes), one row per image; an unreadable image is an error.

        `prior` replaces the class prior of the fit: "empirical", "uniform", or a share for each class.
        """
        return self._probabilities(data, prior, loading)[1]

    def score(self, data: Data, labels: object = None) -> float:
        """Accuracy on labelled data."""
        return self.evaluate(data, labels).accuracy

    def verify(
        self, receipt: Receipt | str | Path, data: object = None, labels: object = None, *, loading: Loading = USUAL
    ) -> Verification:
        """Check an unlearning receipt; with the remaining data, also compare with a fresh fit on them."""
        return verify(self, receipt, joined(data, labels) if data is not None else None, loading=loading)

    def to_frame(
        self, data: Data, *, top: int = 1, loading: Loading = USUAL, **question: Unpack[QuestionOptions]
    ) -> DataFrame:
        """A row for each image: path, label and probability, and the same for the next best up to `top`.

        `threshold`, `unknown`, `coverage`, `calibrate`, `sets_by`, `allow_empty` and `prior` are the options of `yoro
        predict`.
        """
        asked = Question(top=top, **question)
        return data_frame([answer.row(digits=EXACT) for answer in self._ask(data, asked, loading)])

    def left_out(self) -> Evaluation | None:
        """Exact leave-one-out figures on the fitted data; None if there are too few images."""
        if self._left_out is None or self._left_out[0] is not self.model:
            self._left_out = self.model, left_out_evaluation(self.model)
        return self._left_out[1]

    def report(self, data: Data | None = None, labels: object = None) -> Report:
        """A report on labelled data; without data, on the fit by exact leave-one-out."""
        if data is not None:
            measured, page = evaluation_report(self, joined(data, labels))
            return Report(page, measured)
        evaluation, about = self.left_out(), fit_report(self, ())
        if evaluation is None or about is None:
            raise InputError("No leave-one-out estimate: too few images. Give labelled data.")
        return Report(about, evaluation)

    def issues(self, data: object, labels: object = None, *, loading: Loading = USUAL) -> Issues:
        """Probably wrong labels, outliers and duplicates among labelled data, each image judged by the model without
        it.

        `issues.labels` and `issues.pred_probs` are what cleanlab's `find_label_issues` takes.
        """
        found = find_issues(self, joined(data, labels), loading=loading)
        for note in found.left_out.notes:
            LOG.warning(note)
        return found

    def advice(self) -> Advice:
        """Expected accuracy now and with more images, and the classes that need them; no image is read."""
        return advise(self.model)

    def choose_next(self, data: Data, count: int = COUNT, *, loading: Loading = USUAL) -> NextToLabel:
        """Which unlabelled images to label next (active learning): uncertain ones that differ from each other."""
        return choose_next(self, data, count, loading=loading)

    def predict_sets(
        self,
        data: Data,
        coverage: float = 0.9,
        *,
        by: str = "leave-one-out",
        calibrate: object = None,
        empty: bool = False,
        loading: Loading = USUAL,
    ) -> list[list[Label]]:
        """Conformal prediction sets: for each image the labels that may be right, the best first.

        `coverage` is the share of sets that contain the right label. They are calibrated by exact leave-one-out on the
        training data (`by` may also be "jackknife+", or "full", which is slow), or on labelled data that were not
        fitted (`calibrate`). No set is empty unless `empty` allows it.
        """
        question = Question(coverage=coverage, calibrate=calibrate, sets_by=by, allow_empty=empty)
        found = list(self._ask(data, question, loading))
        return _predictions([list(one.labels or ()) for one in found], [one.row() for one in found])

    def typicality(self, data: Data, *, loading: Loading = USUAL) -> NDArray[np.float64]:
        """The fraction of training images at least as unusual as each image, (n,); small if out of distribution."""
        found = self._ask(data, Question(unknown=0.0), loading)
        return np.array([answer.typicality for answer in found], dtype=np.float64)

    def explain(
        self, data: Data, *, near: int = NEAR, fitted: object = None, occlusion: int = 0, loading: Loading = USUAL
    ) -> list[Explanation]:
        """Explain predictions: contributions that add up to the log odds of an image's two best classes.

        With the `near` most similar training images, named if these are given as `fitted`, and an occlusion map of
        `occlusion` by `occlusion` cells, each of which costs a forward pass.
        """
        asked = ExplanationRequest(near, fitted, occlusion)
        stream = ExplanationStream(self, data, asked, loading=replace(loading, strict=True))
        found, bars = list(stream), ("probability", "second_probability")
        table = Table([one.row() for one in found], bars=bars, picture=thumbnails_by_path(stream.pictures))
        return ResultList(found, counted(len(found), "explanation"), table)

    def explain_classes(self, *labels: Label) -> list[ClassReasons]:
        """The backbone's classes, or the sentences, that count for and against these classes; by default for all."""
        found = explain_classes(self, [str(label) for label in labels])
        rows = [{"label": one.label, "layer": one.reading, **_strongest(one)} for one in found]
        return ResultList(found, counted(len({one.label for one in found}), "class"), Table(rows))

    def clean(self, reviewed: str | Path, *, undo: str | Path | None = None, loading: Loading = USUAL) -> Change:
        """Apply a reviewed list of issues, exactly; `undo` is a file to write (ending in .undo) that can undo it."""
        change, done = clean(self, reviewed, loading=loading)
        if undo is not None:
            write_undo(Path(undo), done)
        LOG.warning(change.notes[0])  # the others were told when the examples were exchanged
        return change

    @property
    def plot(self) -> Plots:
        """Figures of matplotlib: `plot.confusion()`, `plot.reliability()`, `plot.mistakes()`."""
        return Plots(self)

    def compare(self, data: Data, labels: object = None, **options: Unpack[CompareOptions]) -> Comparison:
        """Compare with other methods on the same data and backbone; see `yoro.compare`.

        They read one layer: that of the classifier, or the logits if it reads all.
        """
        origin = self.model.origin
        read = str(origin.source.get("read", "logits"))
        read = "logits" if read == "all" else read
        import yoro

        return yoro.compare(data, labels, source=self._source or origin.name, read=read, **options)

    def export(self, path: str | Path, *, force: bool = False) -> Path:
        """Write one ONNX file, image in, probabilities out; its answers are compared with `predict` first."""
        from yoro.model.onnx_export import checked_export

        target = Path(path)
        check_output(target, force=force)
        write_file(target, checked_export(self)[0])
        return target

    def __repr__(self) -> str:
        model = self.model
        what = f"{len(self.names)} classes from {model.statistics.total:,.0f} examples of {model.origin.name}"
        if (known := model.recorded_accuracy) is not None:
            return f"<yoro.Classifier: {what}, leave-one-out accuracy {percent_text(known[0])}>"
        return f"<yoro.Classifier: {what}, shrinkage {model.choice.shrinkage:.3g} by {model.choice.rule}>"

    def _repr_html_(self) -> str:
        """A small table for a notebook; of many classes those with the fewest examples are named."""
        model = self.model
        counts = sorted(zip(model.statistics.counts.tolist(), model.statistics.classes, strict=True))
        named = counts[:MOST_CLASSES] if len(counts) > MOST_CLASSES else sorted(counts, key=lambda pair: pair[1])
        return render(
            "classifier.html",
            source=f"{model.origin.name}, width {model.statistics.width}",
            shrinkage=f"{model.choice.shrinkage:.3g} by {model.choice.rule}",
            examples=int(model.statistics.total),
            n_classes=len(counts),
            left_out=model.recorded_accuracy,
            interval=None if model.recorded_accuracy is None else wilson_interval(*model.recorded_accuracy),
            measurable=bool(model.reservoir),
            classes=[(name, int(count)) for count, name in named],
        )

    def _probabilities(
        self, data: Data, prior: Prior | None, loading: Loading
    ) -> tuple[list[str], NDArray[np.float64]]:
        """The names of images, and the probabilities (n, classes) of the classes in the order that a user sees."""
        names, parts = list[str](), [np.empty((0, len(self.names)))]
        for batch in self.answers(data, prior=prior, loading=replace(loading, strict=True)):
            names += batch.names
            parts.append(np.exp(batch.log_probabilities))
        return names, np.concatenate(parts)[:, self._columns()]

    def _columns(self) -> list[int]:
        """The columns of the answers in the order that a user sees: whole numbers by size."""
        labels = self.model.labels
        whole = all(isinstance(label, int) for label in labels)
        return sorted(range(len(labels)), key=lambda i: int(labels[i])) if whole else list(range(len(labels)))

    def _ask(self, data: Data, question: Question, loading: Loading) -> Iterator[ImageAnswer]:
        answerer, answers = ask(self, data, question, loading=replace(loading, strict=True))
        for batch in answers:
            yield from answerer.each(batch, self.model.labels)


def _predictions(answers: list[T], rows: list[Row]) -> ResultList[T]:
    """Answers that show themselves, with a row for each image."""
    counts = Counter(str(answer) for answer in answers)
    most = ", ".join(f"{n:,} {label}" for label, n in counts.most_common(MOST_COUNTED))
    headline = f"{counted(len(answers), 'image')}: {most}{', ...' if len(counts) > MOST_COUNTED else ''}"
    return ResultList(answers, headline, Table(rows, bars=("probability",)))


def _strongest(reasons: ClassReasons) -> Row:
    """The strongest terms for a class and against it, by name."""
    told = {"for": reasons.speaking_for(), "against": reasons.speaking_against()}
    return {side: ", ".join(name for name, _ in terms[:MOST_TERMS]) for side, terms in told.items()}


def _tell(outcome: Change | Evaluation) -> None:
    for note in outcome.notes:
        LOG.warning(note)
    if outcome.skipped:
        warn_skipped(outcome.skipped)


def warn_skipped(skipped: Sequence[tuple[str, str]]) -> None:
    """Warn about images that were left out, as from the line outside of this package that called it."""
    frame, level = inspect.currentframe(), 1
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "yoro":
        frame, level = frame.f_back, level + 1
    many = len(skipped) > 1
    told = f"{counted(len(skipped), 'image')} could not be read and {'were' if many else 'was'} left out"
    first = skipped[0][1].rstrip(".")
    warnings.warn(f"{told}{', such as' if many else ''}: {first}.", SkippedWarning, stacklevel=level)
