"""From images to responses: decode, compose with the prompt, ask the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.data.loading import load
from yoro.data.responses import ResponseBatch
from yoro.data.streams import ResponseStream
from yoro.errors import ImageError, SourceError
from yoro.prompts.prompt import Prompt, make_prompt
from yoro.prompts.restore import restore_prompt
from yoro.sources import open_source, runs_code

if TYPE_CHECKING:
    from yoro.model.store import Model
    from yoro.sources import ResponseSource

DEFAULT_SOURCE = "embedded:lite0"
BATCH = 32  # images decoded and composed together


@dataclass(frozen=True)
class Reading:
    """How images are read: settings that change the time it takes and never the numbers."""

    batch_size: int = BATCH
    workers: int | None = None  # decoding processes; None is one for each core
    strict: bool = False  # stop at the first image that cannot be read


@dataclass(frozen=True)
class Pipeline:
    """A frozen source behind a prompt: images in, responses out."""

    source: ResponseSource
    prompt: Prompt
    geometry: Geometry

    def stream(self, examples: Sequence[Example], reading: Reading) -> ResponseStream:
        """One traversal of the examples; those that cannot be read are named in `skipped`."""
        return ResponseStream(lambda stream: self._batches(examples, reading, stream), len(examples))

    def _batches(
        self, examples: Sequence[Example], reading: Reading, stream: ResponseStream
    ) -> Iterator[ResponseBatch]:
        batches = load(examples, self.geometry, batch_size=reading.batch_size, workers=reading.workers)
        try:
            for batch in batches:
                for index, message in batch.failures:
                    if reading.strict:
                        raise ImageError(message)
                    stream.skipped.append((examples[index].name, message))
                stream.position += len(batch.indices) + len(batch.failures)
                chosen = [examples[index] for index in batch.indices]
                if not chosen:
                    continue
                yield ResponseBatch(
                    self.source.respond(self.prompt.compose(batch.images)),
                    [example.label or "" for example in chosen],
                    [example.group or "" for example in chosen],
                    [bytes.fromhex(digest) for digest in batch.digests],
                    [example.name for example in chosen],
                )
        finally:
            batches.close()

    def describe(self) -> dict[str, dict[str, object]]:
        """What a model must record to read images the same way again."""
        return {
            "source": self.source.describe(),
            "prompt": self.prompt.config(),
            "transform": dict(self.geometry.config()),
        }


def make_pipeline(
    source: str = DEFAULT_SOURCE,
    *,
    read: str = "logits",
    prompt: str = "watermark",
    frame: str | float = "grey",
    image_side: int | None = None,
    device: str = "auto",
    threads: int | None = None,
) -> Pipeline:
    """A pipeline by names, as a user gives them."""
    opened = open_source(source, read=read, device=device, threads=threads)
    start = make_prompt(prompt, opened.side, mean=opened.mean, std=opened.std, image_side=image_side, frame=frame)
    fits = cast("Mapping[str, object]", opened.describe()["geometry"])
    return Pipeline(opened, start, Geometry.from_config({"side": start.image_side, "reduced": True, **fits}))


def differing(one: Mapping[str, object], two: Mapping[str, object]) -> list[str]:
    """Keys in which two descriptions of a source differ; where it lies does not matter."""
    return sorted(key for key in {*one, *two} - {"name", "licence"} if one.get(key) != two.get(key))


def reopen_pipeline(model: Model, source: str | None = None, *, device: str = "auto") -> Pipeline:
    """The pipeline a model was fitted with; `source` tells where its weights are now, if they moved.

    The weights must be the same, by digest. A source that is code is run only if it is named anew:
    a model from a stranger must not choose what is executed.
    """
    recorded = model.source
    name = source or str(recorded.get("name"))
    if source is None and runs_code(name):
        raise SourceError(
            f"This model was fitted on {name!r}, which runs code. Name it to allow that: --source {name} (source=...)."
        )
    opened = open_source(name, read=str(recorded.get("read", "logits")), device=device)
    odd = differing(opened.describe(), recorded)
    if odd:
        raise SourceError(
            f"{name!r} is not what this model was fitted on: its {odd[0]} differs. "
            f"The model's responses would mean something else; give the original with --source, or fit again."
        )
    prompt = restore_prompt(model.prompt or {}, model.prompt_arrays)
    return Pipeline(opened, prompt, Geometry.from_config(model.transform or {}))
