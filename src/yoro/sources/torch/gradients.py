"""Sources that give gradients: a frozen torch network from pixels to responses, to train a prompt through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch

from yoro.errors import SourceError
from yoro.sources.contract import Colour, Reading, check_reading
from yoro.sources.models import list_sources, need_torch
from yoro.sources.names import SourceName, parse_name, with_side
from yoro.sources.torch.network import Network, TorchSource, choose_device

if TYPE_CHECKING:
    import onnx

INSTEAD = (
    "Refinement needs a source with gradients: embedded:lite0, timm:NAME, torchvision:NAME/WEIGHTS or "
    "open_clip:MODEL/TAG. "
    "Fit again on one of these, or use the one-pass model as it is."
)
REASONS = {
    "onnx": "ONNX Runtime runs a graph forwards only",
    "callable": "a Python function answers with numbers and keeps no record of how it found them",
    "http": "a service answers with numbers alone",
    "https": "a service answers with numbers alone",
}


class DifferentiableSource(Protocol):
    """A second contract beside `ResponseSource`, so that a black box cannot be asked for gradients by mistake."""

    side: int
    width: int
    mean: Colour
    std: Colour
    device: torch.device

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """Responses (n, width) to composed pixels (n, 3, side, side) in [0, 1] units; gradients reach the pixels."""


class Twin(TorchSource):
    """A frozen network in torch, with gradients to its input and none for its weights.

    It is a `DifferentiableSource`, and a `ResponseSource` too: the same numbers, forward only.
    """

    memory_format = torch.channels_last

    def onnx_model(self) -> onnx.ModelProto:
        """A twin is for training; the source of the same name has the graph."""
        raise SourceError(f"{self.name!r} is open for training, not for export. Export the saved model instead.")

    def _probe(self) -> int:
        """The width, from a grey canvas; a network built for another side fails here."""
        try:
            return super()._probe()
        except SourceError:
            raise
        except Exception as error:  # networks refuse a canvas in many ways
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise SourceError(
                f"{self.name!r} does not take a canvas of {self.side}: {reason}. Leave the canvas as the source has it."
            ) from error


def open_differentiable(name: str, *, read: str = "logits", device: str = "auto", side: int | None = None) -> Twin:
    """Open a source by name for training; `side` asks for another canvas than its own.

    A source that cannot give gradients is a SourceError that says why and what to use instead.
    """
    prefix = name.partition(":")[0]
    if prefix in REASONS:
        raise SourceError(f"{name!r} gives no gradients: {REASONS[prefix]}. {INSTEAD}")
    parsed = parse_name(with_side(name, side) if side is not None else name, list_sources())
    need_torch("timm" if parsed.prefix == "embedded" else parsed.prefix, name)
    reading = check_reading(read)
    network = _network(parsed, reading)
    identity = network.identity(parsed, reading)
    return Twin(identity, network, choose_device(device))


def _network(name: SourceName, read: Reading) -> Network:
    if name.prefix == "embedded" and name.rest == "conse":
        from yoro.sources.torch.conse import conse_network

        return conse_network(name)
    if name.prefix == "open_clip":
        from yoro.sources.torch.open_clip_models import open_clip_network

        return open_clip_network(name)
    if name.prefix == "embedded":
        from yoro.sources.torch.embedded import lite_network

        return lite_network(name, read)
    if name.prefix == "timm":
        from yoro.sources.torch.timm_models import timm_network

        return timm_network(name, read)
    if name.prefix == "torchvision":
        from yoro.sources.torch.torchvision_models import torchvision_network

        return torchvision_network(name, read)
    raise SourceError(f"{name.text!r} gives no gradients. {INSTEAD}")
