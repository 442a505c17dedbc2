"""torchvision's classifiers: `torchvision:NAME/WEIGHTS`, or `torchvision:NAME?weights=FILE`."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torchvision import models

from yoro.errors import SourceError, did_you_mean
from yoro.sources.contract import IMAGENET_MEAN, IMAGENET_STD, Colour, Reading
from yoro.sources.imagenet import imagenet_names
from yoro.sources.names import SourceName, check_options, colour_option, side_option
from yoro.sources.runtime import GraphSource
from yoro.sources.torch.network import (
    Network,
    TorchSource,
    count_classes,
    last_linear,
    load_state,
    open_network,
    read_state,
    state_digest,
)

OPTIONS = ("weights", "mean", "std", "side")


def open_torchvision(name: SourceName, *, read: Reading, device: str, threads: int | None) -> TorchSource | GraphSource:
    """Open a torchvision classifier, frozen, read at its logits or before its last linear layer."""
    return open_network(name, torchvision_network(name, read), read=read, device=device, threads=threads)


def torchvision_network(name: SourceName, read: Reading) -> Network:
    """The torch network of that name, and what is known of it."""
    check_options(name, OPTIONS)
    architecture, _, tag = name.rest.partition("/")
    weights = _weights(architecture, tag, name)
    module = _from_file(architecture, name) if "weights" in name.options else _from_hub(architecture, weights, name)
    transform = weights.transforms()
    mean: Colour = tuple(getattr(transform, "mean", IMAGENET_MEAN))
    std: Colour = tuple(getattr(transform, "std", IMAGENET_STD))
    crop = getattr(transform, "crop_size", [224])
    digest = state_digest(module.state_dict())
    known = read == "logits" and "weights" not in name.options and len(weights.meta.get("categories", ())) == 1000
    if read == "features":
        _drop_classifier(module, name)
    return Network(
        module,
        digest,
        side_option(name, int(crop[0])),
        colour_option(name, "mean", mean),
        colour_option(name, "std", std),
        None if "weights" in name.options else "BSD-3-Clause (torchvision); the weights were trained on ImageNet",
        imagenet_names() if known else None,
    )


def _weights(architecture: str, tag: str, name: SourceName) -> models.WeightsEnum:
    """The named set of weights; torchvision's default one if none is named."""
    known = models.list_models(module=models)
    if architecture not in known:
        guess = did_you_mean(
            f"torchvision:{architecture}", (f"torchvision:{item}" for item in known), most=3, alike=0.6, else_all=False
        )
        raise SourceError(f"{name.text!r}: torchvision knows no classifier {architecture!r}. {guess}")
    choices: Mapping[str, models.WeightsEnum] = models.get_model_weights(architecture).__members__
    if (tag or "DEFAULT") not in choices:
        raise SourceError(f"{name.text!r}: {architecture} has the weights {', '.join(choices)}, not {tag!r}.")
    return choices[tag or "DEFAULT"]


def _from_file(architecture: str, name: SourceName) -> torch.nn.Module:
    """The network with as many classes as the local weights have."""
    state = read_state(name.options["weights"], name)
    arguments = {"init_weights": False} if architecture in ("googlenet", "inception_v3") else {}
    module: torch.nn.Module = models.get_model(architecture, weights=None, **arguments)
    classes = count_classes(module, state)
    if classes is not None and classes != 1000:
        module = models.get_model(architecture, weights=None, num_classes=classes, **arguments)
    load_state(module, state, name)
    return module


def _from_hub(architecture: str, weights: models.WeightsEnum, name: SourceName) -> torch.nn.Module:
    try:
        module: torch.nn.Module = models.get_model(architecture, weights=weights, progress=False)
    except Exception as error:  # whatever the network, the hub and the disk can raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SourceError(
            f"{name.text!r}: its weights cannot be fetched ({type(error).__name__}: {reason}). "
            f"Point to a local file: torchvision:{name.rest}?weights=FILE.pth"
        ) from error
    return module


def _drop_classifier(module: torch.nn.Module, name: SourceName) -> None:
    """Let the network answer with what its last linear layer reads."""
    path = last_linear(module)
    if path is None:
        raise SourceError(f"{name.text!r} ends in no linear layer, so it has no features to read. Read its logits.")
    parent, _, leaf = path.rpartition(".")
    setattr(module.get_submodule(parent), leaf, torch.nn.Identity())
