"""torchvision's classifiers: `torchvision:NAME/WEIGHTS`, or `torchvision:NAME?weights=FILE`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import torch
from torchvision import models

from yoro.errors import SourceError, did_you_mean
from yoro.sources.embedded import imagenet_names
from yoro.sources.names import SourceName, check_options
from yoro.sources.protocol import IMAGENET_COLOURS, Identity, Reading, as_colour
from yoro.sources.torch.network import OPTIONS, Network, last_linear, load_network, state_digest, with_options

LICENCE = "BSD-3-Clause (torchvision); the weights were trained on ImageNet"


def torchvision_network(name: SourceName, read: Reading) -> Network:
    """The torch network of that name, frozen, read at its logits or before its last linear layer."""
    check_options(name, OPTIONS)
    architecture, _, tag = name.rest.partition("/")
    weights = _weights(architecture, tag, name)
    untrained = {"init_weights": False} if architecture in ("googlenet", "inception_v3") else {}
    module = load_network(
        name,
        partial(models.get_model, architecture, weights=None, **untrained),
        partial(models.get_model, architecture, weights=weights, progress=False),
        "FILE.pth",
    )
    transform = weights.transforms()
    mean, std = (as_colour(getattr(transform, key, IMAGENET_COLOURS[key])) for key in ("mean", "std"))
    side = int(getattr(transform, "crop_size", [224])[0])
    identity = Identity(name.text, read, side, mean, std, state_digest(module.state_dict()), LICENCE)
    names = imagenet_names() if len(weights.meta.get("categories", ())) == 1000 else None
    if read == "features":
        layer = last_linear(module)
        if layer is None:
            raise SourceError(
                f"{name.text!r} does not end in a linear layer, so it has no features. Use --read logits."
            )
        module.set_submodule(layer, torch.nn.Identity())  # leaves the input of the last linear layer
    return with_options(Network(module, identity, names), name)


def _weights(architecture: str, tag: str, name: SourceName) -> models.WeightsEnum:
    """The named set of weights; torchvision's default one if none is named."""
    known = models.list_models(module=models)
    if architecture not in known:
        guess = did_you_mean(
            f"torchvision:{architecture}", (f"torchvision:{item}" for item in known), most=3, alike=0.6, else_all=False
        )
        raise SourceError(f"{name.text!r}: unknown torchvision classifier {architecture!r}. {guess}")
    choices: Mapping[str, models.WeightsEnum] = models.get_model_weights(architecture).__members__
    if (tag or "DEFAULT") not in choices:
        raise SourceError(f"{name.text!r}: {architecture} has no weights {tag!r}; choose one of {', '.join(choices)}.")
    return choices[tag or "DEFAULT"]
