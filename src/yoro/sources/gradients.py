"""Sources that give gradients: a frozen torch network from pixels to responses, to train a prompt through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch

from yoro.errors import SourceError
from yoro.sources.contract import (
    Colour,
    Identity,
    Images,
    Reading,
    Responses,
    check_images,
    check_reading,
    check_responses,
)
from yoro.sources.naming import SourceName, parse_name, with_side
from yoro.sources.registry import list_sources, need_torch
from yoro.sources.torch_network import Network, choose_device

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


class Twin:
    """A frozen network in torch, with gradients to its input and none for its weights.

    It is a `DifferentiableSource`, and a `ResponseSource` too: the same numbers, forward only.
    """

    def __init__(self, identity: Identity, network: Network, device: str) -> None:
        self.name = identity.name
        self.side = identity.side
        self.mean: Colour = identity.mean
        self.std: Colour = identity.std
        self.class_names = network.class_names
        self.device = torch.device(device)
        self._identity = identity
        self._module = network.module.eval().requires_grad_(False)
        self._module = self._module.to(self.device, memory_format=torch.channels_last)
        self._mean = torch.tensor(identity.mean, device=self.device).view(1, 3, 1, 1)
        self._std = torch.tensor(identity.std, device=self.device).view(1, 3, 1, 1)
        self.width = self._probe()

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        """See `DifferentiableSource`."""
        normalised = (pixels - self._mean) / self._std
        return self._module(normalised.contiguous(memory_format=torch.channels_last))

    def respond(self, images: Images) -> Responses:
        """See `ResponseSource.respond`."""
        check_images(images, self.side)
        if not len(images):
            return np.empty((0, self.width), np.float32)
        with torch.inference_mode():
            pixels = torch.from_numpy(np.array(images)).to(self.device).permute(0, 3, 1, 2)
            output = self(pixels.float() / 255 if images.dtype == np.uint8 else pixels)
        return check_responses(output.float().cpu().numpy(), len(images), self.width, self.name)

    def describe(self) -> dict[str, object]:
        """See `ResponseSource.describe`."""
        return self._identity.as_dict()

    def onnx_model(self) -> onnx.ModelProto:
        """A twin is for training; the source of the same name has the graph."""
        raise SourceError(f"{self.name!r} is open for training, not for export. Export the saved model instead.")

    def _probe(self) -> int:
        """The width, from a grey canvas; a network built for another side fails here."""
        try:
            with torch.inference_mode():
                output = self(torch.full((1, 3, self.side, self.side), 0.5, device=self.device))
        except Exception as error:  # networks refuse a canvas in many ways
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise SourceError(
                f"{self.name!r} does not take a canvas of {self.side}: {reason}. Leave the canvas as the source has it."
            ) from error
        if not isinstance(output, torch.Tensor) or output.ndim != 2:
            raise SourceError(f"{self.name!r} answers with something else than one tensor (n, width).")
        return int(output.shape[1])


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
        from yoro.sources.conse_torch import conse_network

        return conse_network(name)
    if name.prefix == "open_clip":
        from yoro.sources.open_clip_models import open_clip_network

        return open_clip_network(name)
    if name.prefix == "embedded":
        from yoro.sources.lite_torch import lite_network

        return lite_network(name, read)
    if name.prefix == "timm":
        from yoro.sources.timm_models import timm_network

        return timm_network(name, read)
    if name.prefix == "torchvision":
        from yoro.sources.torchvision_models import torchvision_network

        return torchvision_network(name, read)
    raise SourceError(f"{name.text!r} gives no gradients. {INSTEAD}")
