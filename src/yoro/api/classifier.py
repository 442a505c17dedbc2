"""Classifier as people hold it: labels as they were given, notes in the log, and reports, tables and plots at hand."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from yoro.api.plots import Plots
from yoro.api.report import Report
from yoro.data.python_data import Data, Label, joined
from yoro.discriminant.calibration import Prior
from yoro.errors import InputError, SkippedWarning
from yoro.files.rows import data_frame
from yoro.model import open_model as core
from yoro.model.leave_one_out_evaluation import left_out_evaluation
from yoro.model.metrics import Evaluation, percent_text
from yoro.model.model import Model
from yoro.model.open_model import Change
from yoro.model.pipeline import Pipeline
from yoro.model.settings import HERE, Loading
from yoro.model.store import check_output, read_model
from yoro.model.unlearning_receipt import Receipt
from yoro.reports.classifier_summary import classifier_html
from yoro.reports.evaluation import evaluation_report, fit_report
from yoro.text.settings import Attributes
from yoro.trust.active_learning import COUNT, Chosen, choose_next
from yoro.trust.advice import Advice, advise
from yoro.trust.conformal_sets import held_out_sets, left_out_sets
from yoro.trust.explanations import NEAR, Asked, ClassReasons, Explanation, ExplanationStream, explain_classes
from yoro.trust.label_cleaning import clean, write_undo
from yoro.trust.label_issues import Issues, find_issues
from yoro.trust.out_of_distribution import strangeness
from yoro.trust.unlearning import Verification, verify

if TYPE_CHECKING:
    from pandas import DataFrame

    from yoro import CompareOptions, Comparison

LOG = logging.getLogger("yoro")
MOST_CLASSES = 30  # named in the HTML of a notebook


def load(path: str | Path, *, source: str | None = None, device: str = "auto") -> Classifier:
    """Load a saved classifier; nothing in it is executed.

    `source` tells where the model's source is now, if it has moved, and is needed for a source
    that runs code (`callable:...`).
    """
    return Classifier(read_model(path), source=source, device=device)


class Classifier(core.OpenModel):
    """Images or responses in, classes out, by the labels that were fitted.

    Statistics are kept, so that data can be added, merged and taken back exactly. Data are a
    folder, a list file, (images, labels), pairs, a table, a dataset of torch or Hugging Face, or
    responses; labels may also come as a second argument. Sentences on what was found go to the
    logger `yoro`; images that could not be read are a SkippedWarning.
    """

    def __init__(
        self, model: Model, *, pipeline: Pipeline | None = None, source: str | None = None, device: str = "auto"
    ) -> None:
        super().__init__(model, pipeline=pipeline, source=source, device=device)
        self._left_out: tuple[Model, Evaluation | None] | None = None

    @classmethod
    def of(cls, fitted: core.OpenModel, *, integers: bool = False) -> Self:
        """The same classifier; `integers` says that its labels were given as whole numbers."""
        fitted.model.integers = integers
        return cls(fitted.model, pipeline=fitted._pipeline, source=fitted._source, device=fitted._device)

    @property
    def classes(self) -> tuple[Label, ...]:  # type: ignore[override]
        """The classes, in the order of the columns of `predict_proba`: names, or whole numbers if such were fitted."""
        return tuple(label for label, _ in self._columns())

    def predict(  # type: ignore[override]
        self, data: Data, *, prior: Prior | None = None, loading: Loading = HERE
    ) -> list[Label]:
        """The best class for each image or response; one that cannot be read is an error.

        `prior` as in `predict_proba`.
        """
        best = self.predict_proba(data, prior=prior, loading=loading).argmax(axis=1)
        return [self.classes[i] for i in best]

    def predict_proba(
        self, data: object, *, prior: Prior | None = None, loading: Loading = HERE
    ) -> NDArray[np.float64]:
        """Probabilities (n, classes); an image that cannot be read is an error, so that rows stay in step.

        `prior` is one to answer by instead of that of the fit: "empirical", "uniform", or a share for each class.
        """
        found = super().predict_proba(data, prior=prior, loading=loading)
        return found[:, [column for _, column in self._columns()]]

    def evaluate(
        self,
        data: object,
        labels: object = None,
        *,
        prior: Prior | None = None,
        loading: Loading = HERE,
        progress: bool = False,
    ) -> Evaluation:
        """Accuracy and other figures on labelled data; of data with splits, on the test split.

        `prior` as in `predict_proba`.
        """
        evaluation = super().evaluate(joined(data, labels), prior=prior, loading=loading, progress=progress)
        _tell(evaluation)
        return evaluation

    def score(self, data: Data, labels: object = None) -> float:
        """Accuracy on labelled data."""
        return self.evaluate(data, labels).accuracy

    def update(
        self,
        data: object,
        labels: object = None,
        *,
        attributes: Attributes = None,
        loading: Loading = HERE,
        progress: bool = False,
    ) -> Change:
        """Add labelled data; classes not seen before appear.

        On an image-text source, new classes need sentences: `attributes` as in `fit`, or of the
        kind that the model was fitted with, if that was "templates" or "names".
        """
        given = joined(data, labels)
        change = super().update(given, attributes=attributes, loading=loading, progress=progress)
        _tell(change)
        return change

    def forget(self, data: object, labels: object = None, *, loading: Loading = HERE, progress: bool = False) -> Change:
        """Take labelled data back out, as if they had never been fitted; only what was fitted can be.

        All that was chosen with them is chosen anew. `change.receipt.save("receipt.json")` keeps a receipt, which
        `verify` takes.
        """
        change = super().forget(joined(data, labels), loading=loading, progress=progress)
        _tell(change)
        return change

    def verify(
        self, receipt: Receipt | str | Path, data: object = None, labels: object = None, *, loading: Loading = HERE
    ) -> Verification:
        """Whether what a receipt lists is forgotten; with the data that are left, a fit of them is compared too."""
        return verify(self, receipt, joined(data, labels) if data is not None else None, loading=loading)

    def merge(self, other: core.OpenModel) -> Change:
        """Add everything another classifier on the same source was fitted on."""
        change = super().merge(other)
        _tell(change)
        return change

    def to_frame(self, data: Data, *, top: int = 1, loading: Loading = HERE) -> DataFrame:
        """A row for each image: path, label and probability, and the same for the next best up to `top`."""
        if top < 1:
            raise InputError(f"The {top} best classes were asked for; expected 1 or more.")
        labels = {column: label for label, column in self._columns()}
        rows = []
        for batch in self.answers(data, loading=replace(loading, strict=True)):
            order = np.argsort(-batch.log_probabilities, axis=1, kind="stable")[:, :top].tolist()
            for name, best, logs in zip(batch.names, order, batch.log_probabilities, strict=True):
                row: dict[str, object] = {"path": name}
                for rank, column in enumerate(best, start=1):
                    suffix = "" if rank == 1 else f"_{rank}"
                    row |= {f"label{suffix}": labels[column], f"probability{suffix}": float(np.exp(logs[column]))}
                rows.append(row)
        return data_frame(rows)

    def left_out(self) -> Evaluation | None:
        """Figures by exact leave-one-out on what was fitted; None if nothing can be left out."""
        if self._left_out is None or self._left_out[0] is not self.model:
            self._left_out = self.model, left_out_evaluation(self.model)
        return self._left_out[1]

    def report(self, data: Data | None = None, labels: object = None) -> Report:
        """The page about labelled data; without any, about the fit by exact leave-one-out."""
        if data is not None:
            measured, page = evaluation_report(self, joined(data, labels))
            return Report(page, measured)
        evaluation, about = self.left_out(), fit_report(self, ())
        if evaluation is None or about is None:
            raise InputError("No fitted example can be left out, so there is nothing to measure. Give labelled data.")
        return Report(about, evaluation)

    def issues(self, data: object, labels: object = None, *, loading: Loading = HERE) -> Issues:
        """Labels that look wrong, odd images and duplicates among labelled data, each judged by the model without it.

        `issues.labels` and `issues.pred_probs` are what cleanlab's `find_label_issues` takes.
        """
        found = find_issues(self, joined(data, labels), loading=loading)
        for note in found.left_out.notes:
            LOG.warning(note)
        return found

    def advice(self) -> Advice:
        """What the fitted data are worth, what more images would buy, and which classes need them; nothing is read."""
        return advise(self.model)

    def choose_next(self, data: Data, count: int = COUNT, *, loading: Loading = HERE) -> Chosen:
        """Which of unlabelled images to label next: those in doubt, and unlike each other."""
        return choose_next(self, data, count, loading=loading)

    def predict_sets(
        self,
        data: Data,
        coverage: float = 0.9,
        *,
        by: str = "leave-one-out",
        calibrate: object = None,
        empty: bool = False,
        loading: Loading = HERE,
    ) -> list[list[Label]]:
        """For each image the labels that may be right, the best first; `coverage` is how often the right one is there.

        Found by exact leave-one-out on what was fitted (`by` may also be "jackknife+", or "full", which is slow), or by
        labelled data that were not (`calibrate`). No set is empty unless `empty` allows it.
        """
        if calibrate is None:
            sets = left_out_sets(self.model, coverage, by, empty=empty)
        else:
            sets = held_out_sets(self, calibrate, coverage, empty=empty, loading=loading)
        labels = {column: label for label, column in self._columns()}
        found: list[list[Label]] = []
        for batch in self.answers(data, loading=replace(loading, strict=True)):
            order = np.argsort(-batch.log_probabilities, axis=1, kind="stable").tolist()
            assert batch.responses is not None
            for row, inside in zip(order, sets(batch.responses, batch.log_probabilities), strict=True):
                found.append([labels[i] for i in row if inside[i]])
        return found

    def typicality(self, data: Data, *, loading: Loading = HERE) -> NDArray[np.float64]:
        """The share of fitted images at least as strange as each image, (n,): small for what is of no known class."""
        measure = strangeness(self.model)
        parts = [
            measure.typicality(batch.responses)
            for batch in self.answers(data, loading=replace(loading, strict=True))
            if batch.responses is not None
        ]
        return np.concatenate([np.empty(0), *parts])

    def explain(
        self, data: Data, *, near: int = NEAR, fitted: object = None, occlusion: int = 0, loading: Loading = HERE
    ) -> list[Explanation]:
        """Why each image was given its class and not the next best: contributions that add up to the log odds.

        With the `near` most similar fitted images, named if these are given again as `fitted`; and with a map of
        `occlusion` by `occlusion` cells, each of which costs a forward pass.
        """
        asked = Asked(near, fitted, occlusion)
        return list(ExplanationStream(self, data, asked, loading=replace(loading, strict=True)))

    def explain_classes(self, *labels: Label) -> list[ClassReasons]:
        """The source's classes, or sentences, that speak for these classes and against them; by default for all."""
        return explain_classes(self, [str(label) for label in labels])

    def clean(self, reviewed: str | Path, *, undo: str | Path | None = None, loading: Loading = HERE) -> Change:
        """Apply a reviewed list of issues, exactly; `undo` names a file, ending in .undo, that takes it back."""
        change, done = clean(self, reviewed, loading=loading)
        if undo is not None:
            write_undo(Path(undo), done)
        _tell(change)
        return change

    @property
    def plot(self) -> Plots:
        """Figures of matplotlib: `plot.confusion()`, `plot.reliability()`, `plot.mistakes()`."""
        return Plots(self)

    def compare(self, data: Data, labels: object = None, **options: Unpack[CompareOptions]) -> Comparison:
        """Other methods on the same data and this classifier's source; see `yoro.compare`.

        They take one reading: that of the classifier, or the logits of one that reads all.
        """
        origin = self.model.origin
        read = str(origin.source.get("read", "logits"))
        read = "logits" if read == "all" else read
        import yoro

        return yoro.compare(data, labels, source=self._source or origin.name, read=read, **options)

    def export(self, path: str | Path, *, force: bool = False) -> Path:
        """Write one ONNX file, image in, probabilities out; its answers are compared with `predict` first."""
        from yoro.files.atomic import write_file
        from yoro.model.onnx_export import checked_export

        target = Path(path)
        check_output(target, force=force)
        write_file(target, checked_export(self)[0])
        return target

    def __repr__(self) -> str:
        model = self.model
        what = f"{len(self.names)} classes from {model.statistics.total:,.0f} examples of {model.origin.name}"
        if (measured := self._known_left_out()) is not None:
            return f"<yoro.Classifier: {what}, leave-one-out accuracy {percent_text(measured.accuracy)}>"
        return f"<yoro.Classifier: {what}, shrinkage {model.choice.shrinkage:.3g} by {model.choice.rule}>"

    def _repr_html_(self) -> str:
        return classifier_html(self.model, self._known_left_out(), MOST_CLASSES)

    def _known_left_out(self) -> Evaluation | None:
        """The figures by leave-one-out where they cost no new solve, as they do of a loaded model."""
        return self.left_out() if self.model.found_left_out is not None else None

    def _columns(self) -> list[tuple[Label, int]]:
        """Each class as a user knows it, with its column among the answers; whole numbers in their order."""
        names: Sequence[str] = self.names
        if self.model.integers and all(_is_whole(name) for name in names):
            return sorted((int(name), column) for column, name in enumerate(names))
        return [(name, column) for column, name in enumerate(names)]


def _is_whole(name: str) -> bool:
    """Whether a name is a whole number as Python writes it, so that it can be given back as one."""
    digits = name.removeprefix("-")
    return digits.isascii() and digits.isdigit() and str(int(name)) == name


def _tell(outcome: Change | Evaluation) -> None:
    """Sentences to the log, and a warning of images that were left out, as from the caller of the verb."""
    for note in outcome.notes:
        LOG.warning(note)
    if outcome.skipped:
        warn_skipped(outcome.skipped, stacklevel=4)


def warn_skipped(skipped: Sequence[tuple[str, str]], *, stacklevel: int) -> None:
    """Warn of images that were left out."""
    first = repr(skipped[0][0])
    told = f"1 image could not be read and was left out: {first}."
    if len(skipped) > 1:
        told = f"{len(skipped):,} images could not be read and were left out, such as {first}."
    warnings.warn(told, SkippedWarning, stacklevel=stacklevel)
