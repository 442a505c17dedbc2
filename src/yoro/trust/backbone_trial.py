"""Is another source worth its time? Both are fitted on a sample of the images and compared, image by image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from yoro.data.examples import Example
from yoro.data.splits import draw_few
from yoro.errors import InputError
from yoro.model.answers import left_out_answers
from yoro.model.model import Model
from yoro.model.one_pass import fit_model
from yoro.model.settings import FitSettings
from yoro.trust.advice import refit

SAMPLE = 240  # images that another source is tried on, about
FEWEST = 4  # of each class
CLEAR = 1.645  # standard errors between right answers that came and those that went: one chance in twenty


@dataclass(frozen=True)
class Tried:
    """Leave-one-out of two sources on the same images: shares of right answers, and seconds for an image."""

    source: str
    images: int
    accuracy: float
    present: float
    gained: int  # images that it alone has right
    lost: int  # images that the present source alone has right
    seconds: float
    present_seconds: float

    @property
    def verdict(self) -> str:
        """Whether the difference is clear."""
        clear = abs(self.gained - self.lost) > CLEAR * (self.gained + self.lost) ** 0.5
        if not clear:
            return "no clear difference"
        return "better" if self.gained > self.lost else "worse"

    def to_json(self) -> dict[str, object]:
        """The same as plain values."""
        return {**vars(self), "verdict": self.verdict}


def try_source(model: Model, examples: Sequence[Example], source: str, settings: FitSettings) -> Tried:
    """Fit another source on a sample of the images that a model was fitted on, and compare."""
    if model.reservoir is None:
        raise InputError("The model keeps no responses, so nothing can be compared with it.")
    classes = len({example.label for example in examples})
    sample = draw_few(list(examples), max(FEWEST, SAMPLE // classes), 0)
    other = fit_model(sample, None, replace(settings, pipeline=replace(settings.pipeline, source=source))).model
    members, wanted = model.reservoir.members(), set(other.ledger.digests())
    rows = np.flatnonzero([digest in wanted for digest in members.digests])
    theirs, mine = _right(other), _right(refit(model, members, rows))
    both = sorted(theirs.keys() & mine.keys())
    if not both:
        raise InputError("No image of the sample can be left out; give at least two images a class.")
    one, two = (np.array([right[name] for name in both]) for right in (theirs, mine))
    return Tried(
        source, len(both), float(one.mean()), float(two.mean()), int((one & ~two).sum()), int((two & ~one).sum()),
        _seconds(other), _seconds(model),
    )  # fmt: skip


def _right(model: Model) -> dict[str, bool]:
    """Whether each leave-one-out answer is right, by the content of the image and its label."""
    answers, classes = left_out_answers(model), model.statistics.classes
    if answers is None or answers.labels is None:
        return {}
    best = answers.log_probabilities.argmax(axis=1)
    return {name: classes[i] == label for name, i, label in zip(answers.names, best, answers.labels, strict=True)}


def _seconds(model: Model) -> float:
    """That a fit took for one image."""
    event = next((entry for entry in reversed(model.history) if entry.get("verb") == "fit"), {})
    return float(str(event.get("seconds", 0.0))) / max(float(str(event.get("images", 1))), 1.0)
