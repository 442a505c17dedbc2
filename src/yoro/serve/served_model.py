"""A model in use: its network open, its answers as a client reads them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.calibration import log_probabilities
from yoro.errors import ImageError
from yoro.model.model import Json
from yoro.model.open_model import OpenModel
from yoro.model.store import read_model
from yoro.trust.conformal_sets import LabelSets, left_out_sets
from yoro.trust.out_of_distribution import Strangeness, strangeness

DIGITS = 6  # of a probability, as `yoro predict` writes it


@dataclass(frozen=True)
class Answered:
    """What a model says of one image."""

    response: NDArray[np.floating]  # (width,)
    logs: NDArray[np.float64]  # (classes,) log-probabilities


@dataclass(frozen=True)
class Wanted:
    """What a client wants to know of an image beside the best class.

    top : how many of the best classes.
    unknown : give no label to what is no more typical than this share of the fitted images.
    coverage : also the labels that hold the right one in this share of cases.
    """

    top: int = 1
    unknown: float | None = None
    coverage: float | None = None


class Served:
    """One state of a model: what was decoded for it is answered by it, though it was replaced meanwhile."""

    def __init__(self, classifier: OpenModel) -> None:
        self.classifier = classifier
        self.pipeline, self.classes = classifier.pipeline, classifier.names
        mapping = classifier.model.mapping
        content = mapping.weights.tobytes() + mapping.bias.tobytes() + "\n".join(mapping.classes).encode()
        self.version = hashlib.blake2b(content, digest_size=8).hexdigest()

    @property
    def width(self) -> int:
        """Of a response."""
        return self.classifier.model.mapping.width

    def rows(self, images: NDArray[np.uint8]) -> list[Answered | ImageError]:
        """What there is to say of each of some decoded images, by one forward pass."""
        responses, model = self.pipeline.respond(images), self.classifier.model
        sound = np.isfinite(responses).all(axis=1)
        logs = log_probabilities(model.mapping(np.where(sound[:, None], responses, 0.0)), model.choice.temperature)
        odd = ImageError("The network's response to this image holds NaN or infinity.")
        return [Answered(responses[i], logs[i]) if sound[i] else odd for i in range(len(images))]

    def predictions(self, answers: Sequence[Answered], wanted: Wanted) -> list[Json]:
        """For each image label and probability, and what else is wanted; a share or a coverage takes a while."""
        sets = None if wanted.coverage is None else replace(self.sets, coverage=wanted.coverage)
        measure = None if wanted.unknown is None else self.strangeness
        return [self._prediction(answered, wanted, measure, sets) for answered in answers]

    def _prediction(
        self, answered: Answered, wanted: Wanted, measure: Strangeness | None, sets: LabelSets | None
    ) -> Json:
        order = np.argsort(-answered.logs, kind="stable").tolist()
        shares = np.exp(answered.logs).round(DIGITS).tolist()
        best = [{"label": self.classes[i], "probability": shares[i]} for i in order[: wanted.top]]
        result: Json = dict(best[0])
        if wanted.top > 1:
            result["top"] = best
        if measure is not None and wanted.unknown is not None:
            typical = float(measure.typicality(answered.response[None])[0])
            result["typicality"] = round(typical, DIGITS)
            result["label"] = None if typical <= wanted.unknown else result["label"]
        if sets is not None:
            inside = sets(answered.response[None], answered.logs[None])[0]
            result["labels"] = [self.classes[i] for i in order if inside[i]]
        return result

    @cached_property
    def strangeness(self) -> Strangeness:
        """What the model takes for strange; found when first asked for."""
        return strangeness(self.classifier.model)

    @cached_property
    def sets(self) -> LabelSets:
        """Sets of labels, of whatever coverage; found when first asked for."""
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


def open_served(path: Path, source: str | None = None, device: str = "auto", *, before: Served | None = None) -> Served:
    """The model in a directory, ready to answer; the network of the one before it is kept where it is the same."""
    model = read_model(path)
    same = before is not None and before.classifier.model.origin.identity() == model.origin.identity()
    pipeline = before.pipeline if before is not None and same else None
    served = Served(OpenModel(model, pipeline=pipeline, source=source, device=device))
    if not same:
        side = served.pipeline.geometry.side
        served.rows(np.full((2, side, side, 3), 127, dtype=np.uint8))  # so that the first client does not wait for it
    return served
