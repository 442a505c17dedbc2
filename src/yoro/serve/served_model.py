"""A model in use: its network open, its answers as a client reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro.data.responses import ResponseBatch
from yoro.errors import ImageError
from yoro.model.answers import DIGITS, Answers, ImageAnswer, log_answers
from yoro.model.model import Json
from yoro.model.open_model import OpenModel
from yoro.model.question import Question
from yoro.model.store import read_model
from yoro.trust.answering import Answerer, make_answerer
from yoro.trust.conformal_sets import LabelSets, left_out_sets
from yoro.trust.out_of_distribution import OutOfDistributionScore, out_of_distribution_score


@dataclass(frozen=True)
class Answered:
    """What a model says of one image."""

    response: NDArray[np.floating]  # (width,)
    logs: NDArray[np.float64]  # (classes,) log-probabilities


class Served:
    """One state of a model: images decoded for it are answered by it, even if it was replaced meanwhile."""

    def __init__(self, classifier: OpenModel, *, whole: bool = False) -> None:
        """`whole` runs every network, not only those that the answers depend on."""
        self.classifier = classifier
        self.pipeline = classifier.pipeline if whole else classifier.answering
        self.classes = classifier.names
        mapping = classifier.model.mapping
        content = mapping.weights.tobytes() + mapping.bias.tobytes() + "\n".join(mapping.classes).encode()
        self.version = hashlib.blake2b(content, digest_size=8).hexdigest()

    @property
    def width(self) -> int:
        """Of a response."""
        return self.classifier.model.mapping.width

    @property
    def concurrent(self) -> bool:
        """Whether it may be asked for a batch while it answers another."""
        return self.pipeline.source.concurrent

    def rows(self, images: NDArray[np.uint8]) -> list[Answered | ImageError]:
        """The answers to some decoded images, by one forward pass."""
        responses, model = self.pipeline.respond(images), self.classifier.model
        sound = np.isfinite(responses).all(axis=1)
        logs = log_answers(model, np.where(sound[:, None], responses, 0.0))
        odd = ImageError("The network's response to this image holds NaN or infinity.")
        return [Answered(responses[i], logs[i]) if sound[i] else odd for i in range(len(images))]

    def predictions(self, answers: Sequence[Answered], question: Question) -> list[Json]:
        """What a client reads of each image; `unknown` and a coverage take a while when they are first asked."""
        measure = None if question.unknown is None else self.strangeness
        sets = None if question.coverage is None else replace(self.sets, coverage=question.coverage)
        responses, logs = (np.stack([getattr(one, part) for one in answers]) for part in ("response", "logs"))
        batch = Answers([""] * len(answers), logs, responses=responses)
        return [_json(answer) for answer in Answerer(self.classifier.model, question, measure, sets).each(batch)]

    def predictions_together(
        self, answers: Sequence[Answered], digests: Sequence[bytes], question: Question
    ) -> list[Json]:
        """What a client reads of images that learn from each other first; solved anew, and nothing of it is kept."""
        responses, names = np.stack([one.response for one in answers]), [""] * len(answers)
        taught = self.classifier.with_unlabelled([ResponseBatch(responses, None, None, list(digests), names)])
        return [_json(answer) for answer in make_answerer(taught, question).answer(responses, names)]

    @cached_property
    def whole(self) -> Served:
        """The same model with every network run, for responses that are kept or sent."""
        return self if self.pipeline.source is self.classifier.pipeline.source else Served(self.classifier, whole=True)

    @cached_property
    def strangeness(self) -> OutOfDistributionScore:
        """The out-of-distribution score, computed when first needed."""
        return out_of_distribution_score(self.classifier.model)

    @cached_property
    def sets(self) -> LabelSets:
        """Conformal prediction sets of any coverage, computed when first needed."""
        return left_out_sets(self.classifier.model, 0.5)

    def facts(self) -> Json:
        """What a client may know of the model."""
        model = self.classifier.model
        counts = dict(zip(model.statistics.classes, model.statistics.counts.tolist(), strict=True))
        return {
            "version": self.version,
            "classes": list(self.classes),
            "counts": {name: round(counts.get(name, 0.0)) for name in self.classes},
            "examples": round(model.statistics.total),
            "source": model.origin.name,
            "width": model.mapping.width,
            "side": self.pipeline.geometry.side,
            "shrinkage": model.choice.shrinkage,
            "temperature": model.choice.temperature,
        }


def _json(answer: ImageAnswer) -> Json:
    best = [{"label": label, "probability": round(probability, DIGITS)} for label, probability in answer.best]
    top = {"top": best} if len(best) > 1 else {}
    return {**best[0], "label": answer.label, **top, **answer.measured()}


def open_served(path: Path, source: str | None = None, device: str = "auto", *, before: Served | None = None) -> Served:
    """The model in a directory, ready to answer; the network of the one before it is kept where it is the same."""
    model = read_model(path)
    same = before is not None and before.classifier.model.origin.identity() == model.origin.identity()
    pipeline = before.classifier.pipeline if before is not None and same else None
    served = Served(OpenModel(model, pipeline=pipeline, source=source, device=device))
    if not same:
        side = served.pipeline.geometry.side
        served.rows(np.full((2, side, side, 3), 127, dtype=np.uint8))  # so that the first client does not wait for it
    return served
