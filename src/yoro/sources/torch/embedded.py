"""The embedded networks in torch, for training a prompt: timm's and torchvision's with the same weights, and ConSE."""

from __future__ import annotations

from dataclasses import replace

import timm
import torch
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torchvision import models

from yoro.errors import SourceError
from yoro.sources.conse import BACKBONE, ConseParts, read_conse
from yoro.sources.embedded import imagenet_names, read_embedded
from yoro.sources.names import SourceName
from yoro.sources.protocol import Reading
from yoro.sources.torch.network import Network, last_linear
from yoro.sources.torch_file import Weights


class _Conse(torch.nn.Module):  # type: ignore[misc]  # torch is not read by the checker
    """Logits of the classifier to the unit mean of the vectors of its class names."""

    def __init__(self, classifier: torch.nn.Module, parts: ConseParts) -> None:
        super().__init__()
        self.classifier, self.temperature = classifier, parts.temperature
        self.register_buffer("vectors", torch.from_numpy(parts.vectors))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        probabilities = torch.softmax(self.classifier(pixels) / self.temperature, dim=1)
        return torch.nn.functional.normalize(probabilities @ self.vectors, dim=1)


def conse_network(name: SourceName, read: Reading) -> Network:
    """The image tower of `embedded:conse`; equal to its graph to rounding."""
    parts = read_conse(name)
    classifier = embedded_network(SourceName(name.text, "embedded", BACKBONE), "logits")
    return Network(_Conse(classifier.module, parts), replace(parts.identity, read=read), None)


def embedded_network(name: SourceName, read: Reading) -> Network:
    """An embedded classifier as a torch network whose batch norms are folded into its convolutions."""
    weights, identity = read_embedded(name, read)
    if name.rest == "mobilenet-v2":
        module = models.mobilenet_v2(weights=None)
    else:
        module = timm.create_model(f"tf_efficientnet_{name.rest}", pretrained=False)
    _load(module, weights, name)
    _fold(module)
    if read == "features":
        module.set_submodule(last_linear(module), torch.nn.Identity())
    return Network(module, identity, imagenet_names() if read == "logits" else None)


def _load(module: torch.nn.Module, weights: Weights, name: SourceName) -> None:
    """Put the weights into the module: a file may name the layers otherwise, but has the same ones in order."""
    state = module.state_dict()
    theirs = [(key.rpartition(".")[2], tuple(value.shape)) for key, value in state.items()]
    ours = [(key.rpartition(".")[2], value.shape) for key, value in weights.items()]
    if ours != theirs:
        raise SourceError(f"{name.text!r}: the installed weights do not fit the library's network of that name.")
    module.load_state_dict(dict(zip(state, map(torch.from_numpy, weights.values()), strict=True)))


def _fold(module: torch.nn.Module) -> None:
    """Fold each norm into the convolution before it; what is left of one of timm's norms is its activation."""
    module.eval()
    kinds = torch.nn.Conv2d, torch.nn.BatchNorm2d
    layers = [(name, layer) for name, layer in module.named_modules() if isinstance(layer, kinds)]
    for (convolution, before), (norm, after) in zip(layers[::2], layers[1::2], strict=True):
        module.set_submodule(convolution, fuse_conv_bn_eval(before, after))
        module.set_submodule(norm, getattr(after, "act", torch.nn.Identity()))
