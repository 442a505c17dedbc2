"""`embedded:conse` in torch, for training a prompt through it."""

from __future__ import annotations

from dataclasses import replace

import torch

from yoro.sources.conse import BACKBONE, ConseParts, read_conse
from yoro.sources.names import SourceName
from yoro.sources.torch.embedded import lite_network
from yoro.sources.torch.network import Network


class _Conse(torch.nn.Module):  # type: ignore[misc]  # torch is not read by the checker
    """Logits of the classifier to the unit mean of the vectors of its class names."""

    def __init__(self, classifier: torch.nn.Module, parts: ConseParts) -> None:
        super().__init__()
        self.classifier, self.temperature = classifier, parts.temperature
        self.register_buffer("vectors", torch.from_numpy(parts.vectors))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """See the class."""
        probabilities = torch.softmax(self.classifier(pixels) / self.temperature, dim=1)
        return torch.nn.functional.normalize(probabilities @ self.vectors, dim=1)


def conse_network(name: SourceName) -> Network:
    """The image tower of `embedded:conse`; equal to its graph to rounding."""
    parts = read_conse(name)
    network = lite_network(SourceName(name.text, "embedded", BACKBONE), "logits")
    return replace(network, module=_Conse(network.module, parts), digest=parts.digest, class_names=None)
