"""The embedded networks in torch, for training a prompt: timm's EfficientNet-Lite with the same weights, and ConSE."""

from __future__ import annotations

from dataclasses import replace

import timm
import torch
from torch.nn.utils.fusion import fuse_conv_bn_eval

from yoro.errors import SourceError
from yoro.sources.conse import BACKBONE, ConseParts, read_conse
from yoro.sources.efficientnet import MEAN, STD
from yoro.sources.embedded import LICENCE, check_embedded, imagenet_names, read_embedded
from yoro.sources.names import SourceName
from yoro.sources.protocol import Identity, Reading
from yoro.sources.torch.network import Network
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
    classifier = lite_network(SourceName(name.text, "embedded", BACKBONE), "logits")
    identity = replace(classifier.identity, read=read, digest=parts.digest)
    return Network(_Conse(classifier.module, parts), identity, None)


def lite_network(name: SourceName, read: Reading) -> Network:
    """`embedded:lite0|1|2` as a torch network whose batch norms are folded into its convolutions."""
    side = check_embedded(name)
    weights, digest = read_embedded(name)
    module = timm.create_model(f"tf_efficientnet_{name.rest}", pretrained=False)
    _load(module, weights, name)
    _fold(module)
    if read == "features":
        module.reset_classifier(0)
    names = imagenet_names() if read == "logits" else None
    return Network(module, Identity(name.text, read, side, MEAN, STD, digest, LICENCE), names)


def _load(module: torch.nn.Module, weights: Weights, name: SourceName) -> None:
    """Put the weights into the module: the file has other names of layers than timm, but the same layers in order."""
    state = module.state_dict()
    theirs = [(key.rpartition(".")[2], tuple(value.shape)) for key, value in state.items()]
    ours = [(key.rpartition(".")[2], value.shape) for key, value in weights.items()]
    if ours != theirs:
        raise SourceError(f"{name.text!r}: the installed weights do not fit timm's network of that name.")
    module.load_state_dict(dict(zip(state, map(torch.from_numpy, weights.values()), strict=True)))


def _fold(module: torch.nn.Module) -> None:
    """Fold each norm into the convolution before it; what is left of the norm is its activation."""
    module.eval()
    kinds = torch.nn.Conv2d, torch.nn.BatchNorm2d
    layers = [(name, layer) for name, layer in module.named_modules() if isinstance(layer, kinds)]
    for (convolution, before), (norm, after) in zip(layers[::2], layers[1::2], strict=True):
        module.set_submodule(convolution, fuse_conv_bn_eval(before, after))
        module.set_submodule(norm, after.act)
