"""The embedded networks in torch, for training a prompt: timm's EfficientNet-Lite with the same weights, and ConSE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import timm
import torch
from torch.nn.utils.fusion import fuse_conv_bn_eval

from yoro.errors import SourceError
from yoro.sources.conse import BACKBONE, ConseParts, read_conse
from yoro.sources.contract import Reading
from yoro.sources.efficientnet import MEAN, STD
from yoro.sources.embedded import LICENCE, check_embedded, imagenet_names, read_embedded
from yoro.sources.names import SourceName
from yoro.sources.torch.network import Network
from yoro.sources.torch_file import Weights

NORM = ("weight", "bias", "running_mean", "running_var")


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


def conse_network(name: SourceName, _: Reading) -> Network:
    """The image tower of `embedded:conse`; equal to its graph to rounding."""
    parts = read_conse(name)
    network = lite_network(SourceName(name.text, "embedded", BACKBONE), "logits")
    return replace(network, module=_Conse(network.module, parts), digest=parts.digest, class_names=None)


def lite_network(name: SourceName, read: Reading) -> Network:
    """`embedded:lite0|1|2` as a torch network whose batch norms are folded into its convolutions."""
    side = check_embedded(name)
    weights, digest = read_embedded(name)
    module = timm.create_model(f"tf_efficientnet_{name.rest}", pretrained=False)
    pairs = list(_pairs(module))
    state = {
        f"{theirs}.{part}": torch.from_numpy(weights[f"{ours}.{part}"])
        for theirs, ours in pairs
        for part in (("weight",) if "conv" in theirs.rpartition(".")[2] else NORM)
    }
    state |= {f"classifier.{part}": torch.from_numpy(weights[f"_fc.{part}"]) for part in ("weight", "bias")}
    _load(module, state, weights, name)
    _fold(module, [theirs for theirs, _ in pairs])
    if read == "features":
        module.reset_classifier(0)
    names = imagenet_names() if read == "logits" else None
    return Network(module, digest, side, MEAN, STD, LICENCE, names)


def _pairs(module: torch.nn.Module) -> Iterator[tuple[str, str]]:
    """Names of every convolution and norm, timm's and the file's; each convolution right before its norm."""
    yield from (("conv_stem", "_conv_stem"), ("bn1", "_bn0"))
    index = 0
    for stage, blocks in enumerate(module.blocks):
        for number in range(len(blocks)):
            theirs, ours = f"blocks.{stage}.{number}", f"_blocks.{index}"
            # The first block has nothing to expand: timm then counts its norms from one convolution later.
            layers = (
                ("_depthwise_conv", "_project_conv")
                if index == 0
                else ("_expand_conv", "_depthwise_conv", "_project_conv")
            )
            convolutions = ("conv_dw", "conv_pw") if index == 0 else ("conv_pw", "conv_dw", "conv_pwl")
            first = 3 - len(layers)  # the file's norm of the first of them
            for place, (convolution, layer) in enumerate(zip(convolutions, layers, strict=True)):
                yield f"{theirs}.{convolution}", f"{ours}.{layer}"
                yield f"{theirs}.bn{place + 1}", f"{ours}._bn{place + first}"
            index += 1
    yield from (("conv_head", "_conv_head"), ("bn2", "_bn1"))


def _load(module: torch.nn.Module, state: dict[str, torch.Tensor], weights: Weights, name: SourceName) -> None:
    """Put the weights into the module; all of both must be used, but for counters of batches."""
    missing, unexpected = module.load_state_dict(state, strict=False)
    lacking = [key for key in missing if not key.endswith("num_batches_tracked")]
    used = sum(not key.endswith("num_batches_tracked") for key in weights)
    if lacking or unexpected or used != len(state):
        raise SourceError(f"{name.text!r}: the installed weights do not fit timm's network of that name.")


def _fold(module: torch.nn.Module, names: list[str]) -> None:
    """Fold each norm into the convolution before it; what is left of the norm is its activation."""
    module.eval()
    for convolution, norm in zip(names[::2], names[1::2], strict=True):
        before, after = module.get_submodule(convolution), module.get_submodule(norm)
        module.set_submodule(convolution, fuse_conv_bn_eval(before, after))
        module.set_submodule(norm, after.act)
