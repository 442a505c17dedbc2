"""A backbone as a service, without a classifier: images in, responses out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from yoro.errors import ImageError
from yoro.model.model import Json
from yoro.model.pipeline import Pipeline, make_pipeline
from yoro.model.settings import PipelineSettings
from yoro.serve.served_model import Answered

NOTHING = np.empty(0)


class ServedSource:
    """A frozen backbone in use. An image of its own input size is not resized again."""

    def __init__(self, name: str, read: str, device: str) -> None:
        self.pipeline: Pipeline = make_pipeline(PipelineSettings(source=name, read=read, device=device))
        self.width: int = self.pipeline.source.width
        described = json.dumps(self.facts()["source"], sort_keys=True)
        self.version = hashlib.blake2b(described.encode(), digest_size=8).hexdigest()
        side = self.pipeline.geometry.side
        self.rows(np.full((2, side, side, 3), 127, dtype=np.uint8))  # so that the first client does not wait for it

    @property
    def concurrent(self) -> bool:
        """Whether it may be asked for a batch while it answers another."""
        return self.pipeline.source.concurrent

    def rows(self, images: NDArray[np.uint8]) -> list[Answered | ImageError]:
        """Responses to decoded images by one forward pass; layers are not transformed yet."""
        responses = self.pipeline.source.respond(images)
        odd = ImageError("The network's response to this image holds NaN or infinity.")
        return [Answered(row, NOTHING) if np.isfinite(row).all() else odd for row in responses]

    def facts(self) -> Json:
        """What a client must know to use the responses as if the backbone ran there; no paths on this machine."""
        source = dict(self.pipeline.source.describe())
        if isinstance(members := source.get("networks"), list):
            source["networks"] = [_nameless(member) for member in members]
        return {
            "source": _nameless(source),
            "width": self.width,
            "readings": self.pipeline.layout.config(),
        }


def _nameless(described: Json) -> Json:
    return {key: value for key, value in described.items() if key != "name"}


class FixedSource:
    """A backbone where `Current` would have a model; it never changes."""

    error: str | None = None

    def __init__(self, served: ServedSource) -> None:
        self.served = served
        self.tell: Callable[[str], None] = lambda _: None
        self.changed: Callable[[bool], None] = lambda _: None
