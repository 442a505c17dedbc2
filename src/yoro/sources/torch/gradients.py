"""Sources that give gradients: a frozen torch network from pixels to responses, to train a prompt through."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import torch

from yoro.errors import SourceError, explaining
from yoro.sources.open import torch_network
from yoro.sources.protocol import Colour, check_reading
from yoro.sources.torch.network import TorchSource, choose_device

if TYPE_CHECKING:
    import onnx


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
        said = f"{self.name!r} does not take a canvas of {self.side}"
        with explaining(SourceError, said, "Leave the canvas as the source has it."):
            return super()._probe()


def open_differentiable(name: str, *, read: str = "logits", device: str = "auto", side: int | None = None) -> Twin:
    """Open a source by name for training; `side` asks for another canvas than its own.

    A source that cannot give gradients is a SourceError that says why and what to use instead.
    """
    network = torch_network(name, check_reading(read), side)[1]
    return Twin(network, choose_device(device))
