"""From images to responses: decode, compose with the prompt, ask the source."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.data.loading import load
from yoro.data.response_streams import ResponseStream
from yoro.data.responses import ResponseBatch
from yoro.discriminant.readings import Layout
from yoro.errors import AnswerError, ImageError, SourceError
from yoro.model.model import Json, Origin, differing
from yoro.model.settings import Loading, PipelineSettings
from yoro.prompts.prompt import Prompt, make_prompt, parse_frame, restore_prompt
from yoro.sources import needs_consent, open_source
from yoro.sources.protocol import FREE, Calls, layout_of, with_defaults

if TYPE_CHECKING:
    from yoro.sources import ResponseSource
    from yoro.sources.ensemble import Ensemble


@dataclass(frozen=True)
class Pipeline:
    """A frozen source behind a prompt: images in, responses out."""

    source: ResponseSource
    prompt: Prompt
    geometry: Geometry
    layout: Layout

    def stream(self, examples: Sequence[Example], loading: Loading) -> ResponseStream:
        """One traversal of the examples; those that cannot be read are named in `skipped`."""
        return ResponseStream(lambda stream: self._batches(examples, loading, stream), len(examples))

    def _batches(
        self, examples: Sequence[Example], loading: Loading, stream: ResponseStream
    ) -> Iterator[ResponseBatch]:
        batch_size = max(loading.batch_size, self.source.preferred_batch)
        batches = load(examples, self.geometry, batch_size=batch_size, workers=loading.workers)
        ready = self._prepared()
        try:
            for batch in batches:
                for index, message in batch.failures:
                    if loading.strict:
                        raise ImageError(message)
                    stream.skipped.append((examples[index].name, message))
                stream.position += len(batch.good) + len(batch.failures)
                chosen = [examples[index] for index in batch.good]
                if not chosen:
                    continue
                ready.result()
                yield ResponseBatch(
                    self._named(batch.pixels, chosen),
                    [example.label or "" for example in chosen],
                    [example.group or "" for example in chosen],
                    [bytes.fromhex(digest) for digest in batch.digests],
                    [example.name for example in chosen],
                    [example.split or "" for example in chosen],
                )
        finally:
            batches.close()

    def _prepared(self) -> Future[None]:
        """The source, being opened in a thread while the first images are decoded."""
        side = self.prompt.image_side
        pixels = self.prompt.compose(np.zeros((1, side, side, 3), np.uint8)).dtype.type
        beside = ThreadPoolExecutor(1, thread_name_prefix="yoro-open")
        ready = beside.submit(self.source.prepare, pixels)
        beside.shutdown(wait=False)
        return ready

    def _named(self, images: NDArray[np.uint8], examples: Sequence[Example]) -> NDArray[np.floating]:
        """Responses to images, where what is wrong with an answer names its image."""
        try:
            return self.respond(images)
        except AnswerError as error:
            if error.row is None:
                raise
            raise AnswerError(f"'{examples[error.row].name}': {error}") from error

    def respond(self, images: NDArray[np.uint8]) -> NDArray[np.floating]:
        """Responses (n, width) to decoded images: every reading transformed, views averaged."""
        return self.layout.transformed(self.asked(images, self.layout.views))

    def asked(self, images: NDArray[np.uint8], views: int) -> list[NDArray[np.floating]]:
        """What the source answers to the images, and with two views to their mirror images."""
        seen = [images, np.ascontiguousarray(images[:, :, ::-1])] if views == 2 else [images]
        return [self.source.respond(self.prompt.compose(view)) for view in seen]

    def only(self, networks: Collection[str]) -> Pipeline:
        """The pipeline with these networks alone run."""
        source = self.source.only(networks)
        return self if source is self.source else replace(self, source=source)

    def asked_of(self) -> list[str]:
        """The API calls of this run, in a sentence; nothing for a source that runs here."""
        told = self.source.outcome()
        return [told] if told else []

    def describe(self) -> dict[str, Json]:
        """What must be the same for images to be read the same way."""
        readings = {} if self.layout.plain else {"readings": self.layout.config()}
        return {
            "source": self.source.describe() | readings,
            "prompt": self.prompt.config(),
            "transform": dict(self.geometry.config()),
        }

    def origin(self) -> Origin:
        return Origin(**self.describe(), prompt_arrays=dict(self.prompt.arrays()))


def make_pipeline(
    settings: PipelineSettings | None = None, *, threads: int | None = None, dry: bool = False
) -> Pipeline:
    """A pipeline by names, as a user gives them; in a dry run a source on the network is not asked."""
    chosen = settings or PipelineSettings()
    calls = Calls(chosen.budget, dry)
    opened = open_source(chosen.source, read=chosen.read, device=chosen.device, threads=threads, calls=calls)
    source = with_defaults(opened)
    frame = parse_frame(chosen.frame) if isinstance(chosen.frame, str) else chosen.frame
    prompt = make_prompt(
        chosen.prompt, source.side, mean=source.mean, std=source.std, image_side=chosen.image_side, frame=frame
    )
    fits = cast("Mapping[str, object]", source.describe()["geometry"])
    pixels = {"reduced": not chosen.published, "published": chosen.published}
    geometry = Geometry.from_config({"side": prompt.image_side, **pixels, **fits})
    return Pipeline(source, prompt, geometry, replace(layout_of(source), views=chosen.views))


def reopen_pipeline(
    origin: Origin, source: str | None = None, *, device: str = "auto", threads: int | None = None, calls: Calls = FREE
) -> Pipeline:
    """The pipeline a model was fitted with; `source` tells where its weights are now, if they moved.

    The weights must be the same, by digest.
    """
    if not origin.images:
        raise SourceError("This model was fitted on responses alone and cannot read images; give it responses (.npz).")
    name = allowed_source(origin, source)
    read = str(origin.source.get("read", "logits"))
    opened = with_defaults(open_source(name, read=read, device=device, threads=threads, calls=calls))
    layout = layout_of(opened)
    if "readings" in origin.source:
        layout = replace(layout, views=Layout.from_config(origin.source["readings"]).views)
    prompt = restore_prompt(origin.prompt or {}, origin.prompt_arrays)
    pipeline = Pipeline(opened, prompt, Geometry.from_config(origin.transform or {}), layout)
    odd = differing(pipeline.describe()["source"], origin.source)
    if odd:
        raise SourceError(
            f"{name!r} is not what this model was fitted on: its {odd[0]} differs. "
            f"The model's responses would mean something else; give the original with --source, or fit again."
        )
    if (recorded := origin.layout) is not None and recorded.networks != layout.networks:  # their files were renamed
        renamed = cast("Ensemble", opened).called(recorded.networks)
        pipeline = replace(pipeline, source=renamed, layout=recorded)
    return pipeline


def allowed_source(origin: Origin, source: str | None) -> str:
    """The source to open for a model: the one that the user names, else the recorded one if that is harmless.

    A model from a stranger must not choose what is executed, nor which hosts are asked.
    """
    if source is None and (why := needs_consent(origin.name)):
        raise SourceError(
            f"This model was fitted on {origin.name!r}, which {why}. "
            f"Name it to allow that: --source {shlex.quote(origin.name)} (source=...)."
        )
    return source or origin.name
