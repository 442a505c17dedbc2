"""Answers a question for one model: probabilities, out-of-distribution scores and conformal prediction sets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from yoro.data.python_data import Label
from yoro.errors import counted
from yoro.model.answers import Answers, ImageAnswer, image_answers, log_answers
from yoro.model.model import Model
from yoro.model.open_model import AnswerStream, OpenModel
from yoro.model.priors import prior_shift
from yoro.model.question import Question
from yoro.model.settings import USUAL, Loading
from yoro.trust.conformal_sets import LabelSets, held_out_sets, left_out_sets
from yoro.trust.out_of_distribution import OutOfDistributionScore, out_of_distribution_score


@dataclass(frozen=True)
class Answerer:
    """A question to a model with the OOD score and conformal sets that it needs; see `make_answerer`."""

    model: Model
    question: Question
    measure: OutOfDistributionScore | None = None  # where `unknown` is asked
    sets: LabelSets | None = None  # where a coverage is asked

    @cached_property
    def _shift(self) -> NDArray[np.float64] | None:
        return prior_shift(self.model, self.question.prior)

    @property
    def notes(self) -> list[str]:
        if self.sets is None or not self.sets.everything:
            return []
        few = counted(self.sets.n, "example")
        return [f"Every prediction set contains all classes: {few} are too few for {self.sets.coverage:g} coverage."]

    def answer(self, responses: NDArray[np.floating], names: Sequence[str]) -> Iterator[ImageAnswer]:
        """One answer per response (n, width)."""
        return self.each(Answers(names, log_answers(self.model, responses, self._shift), responses=responses))

    def each(self, batch: Answers, labels: Sequence[Label] | None = None) -> Iterator[ImageAnswer]:
        """One answer per image of a batch whose log-probabilities have the question's prior.

        `labels` are the class labels to show, by default their names.
        """
        assert batch.responses is not None
        typical = None if self.measure is None else self.measure.typicality(batch.responses)
        sets = None if self.sets is None else self.sets(batch.responses, batch.log_probabilities)
        batch = replace(batch, typicality=typical, sets=sets)
        return image_answers(batch, self.question, labels or self.model.mapping.classes)


def ask(
    opened: OpenModel, data: object, question: Question, *, loading: Loading = USUAL, progress: bool = False
) -> tuple[Answerer, AnswerStream]:
    """Who answers a question about images, and the log-probabilities to answer by."""
    if not question.together:
        answers = opened.answers(data, prior=question.prior, loading=loading, progress=progress)
    else:
        opened, answers = opened.together(data, prior=question.prior, loading=loading, progress=progress)
    return make_answerer(opened, question, loading=loading), answers


def make_answerer(opened: OpenModel, question: Question, *, loading: Loading = USUAL) -> Answerer:
    """The answerer of a question for a model; calibration data are read here."""
    measure = None if question.unknown is None else out_of_distribution_score(opened.model)
    sets = None
    if question.coverage is not None and question.calibrate is not None:
        sets = held_out_sets(opened, question.calibrate, question.coverage, empty=question.allow_empty, loading=loading)
    elif question.coverage is not None:
        sets = left_out_sets(opened.model, question.coverage, question.sets_by, empty=question.allow_empty)
    return Answerer(opened.model, question, measure, sets)
