"""Whether another backbone is worth its time: both are fitted on a sample of the images and compared."""

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
from yoro.trust.advice import fit_cost, refit

SAMPLE = 240  # images that another backbone is tried on, about
FEWEST = 4  # of each class
CLEAR = 1.645  # standard errors between right answers that came and those that went: one chance in twenty


@dataclass(frozen=True)
class Tried:
    """Leave-one-out accuracy of two backbones on the same images, and seconds per image."""

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
        clear = abs(self.gained - self.lost) > CLEAR * (self.gained + self.lost) ** 0.5
        if not clear:
            return "no clear difference"
        return "better" if self.gained > self.lost else "worse"

    def to_json(self) -> dict[str, object]:
        return {**vars(self), "verdict": self.verdict}


def try_source(model: Model, examples: Sequence[Example], source: str, settings: FitSettings) -> Tried:
    """Fit another backbone on a sample of the images that a model was fitted on, and compare the two."""
    if model.reservoir is None:
        raise InputError("This model stores no responses to compare with. Fit again without --no-reservoir.")
    classes = len({example.label for example in examples})
    sample = draw_few(list(examples), max(FEWEST, SAMPLE // classes), 0)
    other = fit_model(sample, None, replace(settings, pipeline=replace(settings.pipeline, source=source))).model
    members, wanted = model.reservoir.members(), set(other.ledger.digests())
    rows = np.flatnonzero([digest in wanted for digest in members.digests])
    theirs, mine = _right(other), _right(refit(model, members, rows))
    both = sorted(theirs.keys() & mine.keys())
    if not both:
        raise InputError("No leave-one-out answers on the sample; give at least two images per class.")
    one, two = (np.array([right[name] for name in both]) for right in (theirs, mine))
    return Tried(
        source, len(both), float(one.mean()), float(two.mean()), int((one & ~two).sum()), int((two & ~one).sum()),
        *(seconds / max(images, 1.0) for seconds, images in map(fit_cost, (other, model))),
    )  # fmt: skip


def _right(model: Model) -> dict[str, bool]:
    """Whether each leave-one-out answer is right, by the image's digest and label."""
    answers, classes = left_out_answers(model), model.statistics.classes
    if answers is None or answers.labels is None:
        return {}
    best = answers.log_probabilities.argmax(axis=1)
    return {name: classes[i] == label for name, i, label in zip(answers.names, best, answers.labels, strict=True)}
