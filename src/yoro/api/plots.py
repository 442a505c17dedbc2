"""Matplotlib figures of a classifier; none is shown or kept open."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from yoro.data.python_data import joined
from yoro.environment import install
from yoro.errors import InputError, StoreError, percent_text
from yoro.reports.evaluation import PhotoAnswer, measured_mistakes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from yoro.api.classifier import Classifier
    from yoro.model.metrics import Evaluation

MOST_NAMES = 60  # classes whose names still fit beside a matrix
MOST_PIXELS = 1000  # cells per side of a confusion matrix; with more classes, neighbours share a cell
ACROSS = 6  # pictures in a row


class Plots:
    """Figures on labelled data; without data, on exact leave-one-out answers for the fitted images."""

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier

    def confusion(self, data: object = None, labels: object = None) -> Figure:
        """Confusion matrix: the share of each predicted class among the images of each true class."""
        evaluation = self._measured(data, labels)
        names = [figures.name for figures in evaluation.per_class]
        counts = evaluation.matrix(-(-len(names) // MOST_PIXELS))
        side = min(12.0, 3.0 + 0.28 * len(names))
        figure = _figure(side + 1, side)
        axes = figure.add_subplot()
        shown = axes.imshow(counts / np.maximum(counts.sum(axis=1, keepdims=True), 1), cmap="Blues", vmin=0, vmax=1)
        figure.colorbar(shown, ax=axes, label="share of the true class")
        axes.set(xlabel="answer", ylabel="true class", title=_title(evaluation))
        if len(names) <= MOST_NAMES:
            axes.set_xticks(range(len(names)), names, rotation=90)
            axes.set_yticks(range(len(names)), names)
        return figure

    def reliability(self, data: object = None, labels: object = None) -> Figure:
        """Reliability diagram: accuracy by confidence; on the diagonal the probabilities are calibrated."""
        evaluation = self._measured(data, labels)
        figure = _figure(5, 5)
        axes = figure.add_subplot()
        axes.plot([0, 1], [0, 1], color="0.7", linestyle="--")
        sure = [part.confidence for part in evaluation.reliability]
        right = [part.accuracy for part in evaluation.reliability]
        size = [20 + 400 * part.n / evaluation.n for part in evaluation.reliability]
        axes.plot(sure, right, color="tab:blue", linewidth=1)
        axes.scatter(sure, right, s=size, color="tab:blue", alpha=0.7)
        title = f"Calibration error {evaluation.calibration_error:.1%}"
        axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="confidence", ylabel="share of right answers", title=title)
        return figure

    def mistakes(self, data: object, labels: object = None, *, most: int = 12) -> Figure:
        """The most confident mistakes; some may be wrong labels."""
        if most < 1:
            raise InputError(f"The number of mistakes to show is {most}; expected 1 or more.")
        evaluation, found = measured_mistakes(self._classifier, joined(data, labels))
        wrong = sorted(found, key=lambda mistake: -mistake.probability)[:most]
        rows = max(1, -(-len(wrong) // ACROSS))
        figure = _figure(2 * min(ACROSS, max(len(wrong), 3)), 2.6 * rows)
        for place, mistake in enumerate(wrong, start=1):
            axes = figure.add_subplot(rows, min(ACROSS, len(wrong)), place)
            _show(axes, mistake)
        none = "" if wrong else ": no picture of a mistake to show"
        figure.suptitle(f"{_title(evaluation)}{none}")
        return figure

    def _measured(self, data: object, labels: object) -> Evaluation:
        if data is not None:
            return self._classifier.evaluate(data, labels)
        evaluation = self._classifier.left_out()
        if evaluation is None:
            raise InputError("No leave-one-out estimate to draw: too few images. Give labelled data.")
        return evaluation


def _figure(width: float, height: float) -> Figure:
    """A figure that pyplot does not manage: not shown twice in a notebook, and freed when dropped."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise StoreError(f"Plots need an extra: {install('plot')}") from None

    class Drawing(Figure):
        """A figure that a notebook shows without pyplot."""

        def _repr_png_(self) -> bytes:
            stream = io.BytesIO()
            self.savefig(stream, format="png", dpi=100)
            return stream.getvalue()

    return Drawing(figsize=(width, height), layout="constrained")


def _show(axes: object, mistake: PhotoAnswer) -> None:
    axes.imshow(np.asarray(Image.open(io.BytesIO(mistake.thumbnail))))  # type: ignore[attr-defined]
    words = f"{mistake.answer} ({percent_text(mistake.probability, 0)})\ntrue: {mistake.truth}"
    axes.set_title(words, fontsize=8)  # type: ignore[attr-defined]
    axes.set_axis_off()  # type: ignore[attr-defined]


def _title(evaluation: Evaluation) -> str:
    wrong = sum(pair.n for pair in evaluation.mistakes)
    return f"{wrong:,} of {evaluation.n:,} wrong"
