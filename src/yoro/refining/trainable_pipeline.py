"""Opens a model's source and prompt for training, and reopens them without gradients afterwards."""

from __future__ import annotations

from dataclasses import replace

from yoro.data.geometry import Geometry
from yoro.errors import InputError, SourceError
from yoro.model.model import Origin, differing
from yoro.model.pipeline import Pipeline, allowed_source
from yoro.prompts.prompt import Prompt, make_prompt, restore_prompt
from yoro.sources import open_source
from yoro.sources.protocol import layout_of
from yoro.sources.torch.gradients import Twin, open_differentiable


def open_twin(origin: Origin, source: str | None, canvas: int | None, device: str) -> tuple[Twin, Pipeline]:
    """The model's source with gradients, and its pipeline; `canvas` overrides the model's side."""
    recorded = origin.source
    if not origin.images:
        raise SourceError("This model was fitted on responses, so there are no images to train a prompt on.")
    side = None if canvas == recorded.get("side") else canvas
    name = allowed_source(origin, source)
    several = recorded.get("read") == "all"  # a prompt is trained for one reading, and judged against all of them
    read = "logits" if several else str(recorded.get("read", "logits"))
    twin = open_differentiable(name, read=read, device=device, side=side)
    other = {"readings", *(["read"] if several else []), *(["side"] if side is not None else [])}
    odd = [key for key in differing(twin.describe(), recorded) if key not in other]
    if odd:
        raise SourceError(
            f"{name!r} is not the backbone this model was fitted with: its {odd[0]} differs. "
            "Give the original with --source, or fit again."
        )
    prompt = restore_prompt(origin.prompt or {}, origin.prompt_arrays)
    geometry = Geometry.from_config(origin.transform or {})
    if side is not None:
        prompt = _resized(prompt, side)
        geometry = replace(geometry, side=prompt.image_side)
    return twin, Pipeline(twin, prompt, geometry, layout_of(twin))


def reopen_plain(twin: Twin, pipeline: Pipeline, prompt: Prompt, device: str) -> Pipeline:
    """The same source without gradients, behind the trained prompt."""
    described = twin.describe()
    embedded = twin.name.startswith("embedded:")  # runs on the CPU, whatever the training ran on
    source = open_source(twin.name, read=str(described["read"]), device="auto" if embedded else device)
    odd = differing(source.describe(), described)
    if odd:
        raise SourceError(f"{twin.name!r} changed during training: its {odd[0]} differs.")
    return Pipeline(source, prompt, pipeline.geometry, layout_of(source))


def _resized(prompt: Prompt, side: int) -> Prompt:
    """The untrained prompt on another canvas; a frame keeps its width."""
    if prompt.program is not None:
        raise InputError(
            f"The prompt was trained on a canvas of {prompt.side} pixels and cannot be moved to one of {side}. "
            "Leave the canvas as it is, or start from a model without a trained prompt."
        )
    around = prompt.side - prompt.image_side
    if side <= around:
        raise InputError(f"A canvas of {side} pixels is too small for a frame of {around}; use a larger one.")
    return make_prompt(
        prompt.name,
        side,
        mean=prompt.mean,
        std=prompt.std,
        image_side=side - around,
        frame="grey" if prompt.frame is None else prompt.frame,
        pad=prompt.pad,
    )
