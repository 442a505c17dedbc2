"""A model or a backbone alone in use: its network open, its answers as a client reads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
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
from yoro.model.pipeline import Pipeline, make_pipeline
from yoro.model.question import Question
from yoro.model.settings import PipelineSettings
from yoro.model.store import read_model
from yoro.trust.answering import Answerer, make_answerer
from yoro.trust.conformal_sets import LabelSets, left_out_sets
from yoro.trust.out_of_distribution import OutOfDistributionScore, out_of_distribution_score


@dataclass(frozen=True)
class Answered:
    """What a model says of one image."""

    response: NDArray[np.floating]  # (width,)
    logs: NDArray[np.float64]  # (classes,) log-probabilities


class ServedPipeline:
    """What images are answered by."""

    def __init__(self, pipeline: Pipeline, width: int, content: bytes) -> None:
        """`width` is that of a response; the version is a digest of the content."""
        self.pipeline, self.width = pipeline, width
        self.version = hashlib.blake2b(content, digest_size=8).hexdigest()

    @property
    def concurrent(self) -> bool:
        """Whether it may be asked for a batch while it answers another."""
        return self.pipeline.source.concurrent

    def rows(self, images: NDArray[np.uint8]) -> list[Answered | ImageError]:
        """The answers to some decoded images, by one forward pass."""
        responses = self.respond(images)
        sound = np.isfinite(responses).all(axis=1)
        logs = self.logs(np.where(sound[:, None], responses, 0.0))
        odd = ImageError("The network's response to this image holds NaN or infinity.")
        return [Answered(responses[i], logs[i]) if sound[i] else odd for i in range(len(images))]

    def warm_up(self) -> None:
        """Answer grey images, so that the first client does not wait for what is done once."""
        side = self.pipeline.geometry.side
        self.rows(np.full((2, side, side, 3), 127, dtype=np.uint8))

    def respond(self, images: NDArray[np.uint8]) -> NDArray[np.floating]:
        return self.pipeline.respond(images)

    def logs(self, responses: NDArray[np.floating]) -> NDArray[np.float64]:
        """Log-probabilities (n, classes); of a backbone alone there are no classes."""
        return np.empty((len(responses), 0))


class Served(ServedPipeline):
    """One state of a model: what was decoded for it is answered by it, though it was replaced meanwhile."""

    def __init__(self, classifier: OpenModel, *, whole: bool = False) -> None:
        """`whole` runs every network, not only those that the answers depend on."""
        self.classifier, self.classes = classifier, classifier.names
        mapping = classifier.model.mapping
        content = mapping.weights.tobytes() + mapping.bias.tobytes() + "\n".join(mapping.classes).encode()
        super().__init__(classifier.pipeline if whole else classifier.answering, mapping.width, content)

    def logs(self, responses: NDArray[np.floating]) -> NDArray[np.float64]:
        return log_answers(self.classifier.model, responses)

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
        served.warm_up()
    return served


class ServedSource(ServedPipeline):
    """A frozen backbone in use. An image of its own input size is not resized again."""

    def __init__(self, name: str, read: str, device: str) -> None:
        pipeline = make_pipeline(PipelineSettings(source=name, read=read, device=device))
        self._source = _nameless(pipeline.source.describe())
        super().__init__(pipeline, pipeline.source.width, json.dumps(self._source, sort_keys=True).encode())
        self.warm_up()

    def respond(self, images: NDArray[np.uint8]) -> NDArray[np.floating]:
        """Responses whose layers are not transformed yet."""
        return self.pipeline.source.respond(images)

    def facts(self) -> Json:
        """What a client must know to use the responses as if the backbone ran there; no paths on this machine."""
        return {"source": self._source, "width": self.width, "readings": self.pipeline.layout.config()}


def _nameless(described: Json) -> Json:
    """What identifies a backbone but for its name, which may be a path; the same of its networks."""
    said = {key: value for key, value in described.items() if key != "name"}
    if isinstance(networks := said.get("networks"), list):
        said["networks"] = [_nameless(network) for network in networks]
    return said


class FixedSource:
    """A backbone where `Current` would have a model; it never changes."""

    error: str | None = None

    def __init__(self, served: ServedSource) -> None:
        self.served = served
        self.tell: Callable[[str], None] = lambda _: None
        self.changed: Callable[[bool], None] = lambda _: None
