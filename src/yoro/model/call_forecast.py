"""Calls to an endpoint before they are made: counted, or written to files for a batch endpoint."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.data.loading import load
from yoro.data.roles import Part, Rows
from yoro.errors import InputError
from yoro.model.model import Model
from yoro.model.one_pass import plan_pass
from yoro.model.pipeline import Pipeline, make_pipeline, reopen_pipeline
from yoro.model.settings import FitSettings, Loading, PipelineSettings
from yoro.model.store import read_model
from yoro.sources.protocol import Calls

if TYPE_CHECKING:
    from yoro.sources.endpoint.source import CallForecast, EndpointSource


def fit_forecast(data: object, val: object | None, settings: FitSettings) -> str:
    """The cost of a fit, in a sentence; no call is made."""
    plan = plan_pass(data, val, settings)
    kept = plan.held if isinstance(plan.held, list) and settings.solve.shrinkage == "validation" else []
    pipeline, source = unasked(settings.pipeline)
    return forecast(pipeline, source, [*plan.examples, *kept], settings.loading).summary(source.config)


def model_forecast(path: Path, named: str | None, parts: Callable[[Model], Iterable[Part]], loading: Loading) -> str:
    """The cost of a verb of a saved model; `parts` are what it would read, and `named` is its source now."""
    model = read_model(path)
    pipeline, source = _endpoint(reopen_pipeline(model.origin, named, calls=Calls(dry=True)), model.origin.name)
    examples = [example for part in parts(model) if not isinstance(part, Rows) for example in part]
    return forecast(pipeline, source, examples, loading).summary(source.config)


def unasked(settings: PipelineSettings) -> tuple[Pipeline, EndpointSource]:
    """A pipeline whose endpoint is not asked, and the endpoint."""
    return _endpoint(make_pipeline(settings, dry=True), settings.source)


def _endpoint(pipeline: Pipeline, name: str) -> tuple[Pipeline, EndpointSource]:
    from yoro.sources.endpoint.source import EndpointSource  # what it needs is there, or it was not opened

    if not isinstance(pipeline.source, EndpointSource):
        raise InputError(f"{name!r} runs here and makes no calls; expected https://... or endpoint:FILE.toml.")
    return pipeline, pipeline.source


def forecast(pipeline: Pipeline, source: EndpointSource, examples: Sequence[Example], loading: Loading) -> CallForecast:
    """How many calls the images need: one for each that is not in the journal, and one where the width is not known."""
    from yoro.sources.endpoint.source import CallForecast

    images, keys = 0, set[bytes]()
    for batch in canvases(pipeline, examples, loading):
        images += len(batch)
        keys |= {source.key(canvas) for canvas in source.sendable(batch)}
    known = len(source.journal.vectors(sorted(keys)))
    asked = len(keys) - known
    calls = math.ceil(asked / source.config.images) + int(asked > 0 and source.unknown_width)
    return CallForecast(images, images - asked, calls)


def canvases(
    pipeline: Pipeline, examples: Sequence[Example], loading: Loading
) -> Iterator[NDArray[np.uint8] | NDArray[np.float32]]:
    """All that the source would be asked about, (n, side, side, 3) at a time; mirror images come after their batch."""
    batches = load(examples, pipeline.geometry, batch_size=loading.batch_size, workers=loading.workers)
    try:
        for batch in batches:
            if len(batch.good):
                yield pipeline.prompt.compose(batch.pixels)
                if pipeline.layout.views == 2:
                    yield pipeline.prompt.compose(np.ascontiguousarray(batch.pixels[:, :, ::-1]))
    finally:
        batches.close()
