"""What `yoro fit` gives, by default and with --fast and --best, as methods to compare others with."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import cast

import numpy as np
from numpy.typing import NDArray

from yoro.data.response_streams import Collected, is_response_data
from yoro.data.responses import ResponseBatch
from yoro.discriminant.readings import FEATURES, LOGITS
from yoro.mappings.batches import Array, class_codes, row_digests
from yoro.model.gathered import Gathered
from yoro.model.model import Origin
from yoro.model.settings import FitSettings, PipelineSettings, SolveSettings
from yoro.model.solve import solve
from yoro.model.views import preferred_views
from yoro.research.peers.method import FitTask, Method, Scorer
from yoro.research.peers.shared_responses import Reader, SharedResponses
from yoro.sources import needs_consent

PRESETS = {
    "yoro": ("default", "yoro fit: several layers, weighted by leave-one-out"),
    "yoro-fast": ("fast", "yoro fit --fast: fewer layers, 8-bit arithmetic"),
    "yoro-best": ("best", "yoro fit --best: several networks, larger input"),
}


@dataclass(frozen=True)
class Preset:
    """One of our own fits: its name, and how its responses are read, which are those of the same images."""

    name: str
    read: Callable[[], SharedResponses]

    @property
    def about(self) -> str:
        return PRESETS[self.name][1]

    def method(self, shared: SharedResponses) -> Method:
        """The fit as a method on its own responses."""
        return Method(self.name, lambda task: _fitted(task, shared), about=self.about)


def read_with_presets(names: Collection[str], data: object, reader: Reader) -> SharedResponses:
    """The responses that methods share, with those of our own fits that are named and apply to the data.

    Where the default fit reads what the methods share, its pass serves both. Of response files and of a backbone that
    is called over the network, only the default applies: nothing else is read or paid for.
    """
    if is_response_data(data):
        shared = reader.read(data)
        return replace(shared, presets=(Preset("yoro", lambda: shared),) if "yoro" in names else ())
    asked = reader.pipeline
    remote = needs_consent(asked.source) == "asks a host on the network"
    chosen = [name for name in PRESETS if name in names and not (remote and name != "yoro")]
    found = [Preset(name, partial(replace(reader, pipeline=_pipeline(name, asked)).read, data)) for name in chosen]
    if "yoro" not in chosen or asked.read == "features":
        return replace(_shared(reader.read(data), asked.read), presets=tuple(found))
    whole = replace(reader, pipeline=_pipeline("yoro", asked)).read(data)
    return replace(_shared(whole, asked.read), presets=(Preset("yoro", lambda: whole), *found[1:]))


def _shared(whole: SharedResponses, read: str) -> SharedResponses:
    """What other methods read: the layer that was asked for; where there are sentences, the image vectors."""
    if whole.words is not None:
        return whole.reading(FEATURES)
    return whole if read in ("all", FEATURES) else whole.reading(LOGITS)


def _pipeline(name: str, asked: PipelineSettings) -> PipelineSettings:
    """The pipeline of a preset on the backbone that was asked for."""
    own = PipelineSettings(source=asked.source, device=asked.device, budget=asked.budget)
    return FitSettings(preset=PRESETS[name][0], pipeline=own).pipeline


def image_names(part: Collected) -> list[str]:
    """What tells images apart: their names, or their contents where names repeat."""
    own = list(part.names) if len(set(part.names)) == len(part) else [digest.hex() for digest in part.digests]
    return own if len(set(own)) == len(part) else [f"row {i}" for i in range(len(part))]


def draw_task(
    shared: SharedResponses, seed: int, shots: int | None
) -> tuple[FitTask, Array, NDArray[np.intp], list[str]]:
    """The task of one seed with the responses of a preset; the test responses, their classes and their names."""
    train, test = shared.draw(seed, shots)
    names = tuple(sorted(set(train.labels.tolist())))
    groups = train.groups if any(train.groups) else None
    responses = cast(Array, train.responses)  # as they are: there may be many coordinates
    task = FitTask(responses, class_codes(train.labels.tolist(), names), names, seed=seed, groups=groups)
    return task, cast(Array, test.responses), class_codes(test.labels.tolist(), names), image_names(test)


def _fitted(task: FitTask, shared: SharedResponses) -> Scorer:
    """Gather and solve as a fit does."""
    layout, solving = shared.layout, SolveSettings()
    gathered = Gathered.empty(solving.reservoir, solving.seed, layout)
    names = [f"row {i}" for i in range(len(task.truth))]
    groups = None if task.groups is None else list(task.groups)
    gathered.add([ResponseBatch(task.responses, task.labels.tolist(), groups, row_digests(task.responses), names)])
    columns = slice(None)
    if layout is not None and shared.both_views:
        own = replace(layout, readings=layout.readings[: len(layout.readings) // 2])
        views, gathered = preferred_views(own, gathered, solving)
        columns = slice(0, own.width) if views == 1 else slice(own.width, None)
    mapping = solve(gathered, solving, Origin(), words=shared.words).mapping
    order = [mapping.classes.index(name) for name in task.classes]
    return lambda responses: mapping(responses[:, columns])[:, order]
