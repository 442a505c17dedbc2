"""timm's networks: `timm:NAME` from the hub, `timm:NAME?weights=FILE` from a local file."""

from __future__ import annotations

from collections.abc import Sequence

import timm
import torch
from timm.data import resolve_model_data_config

from yoro.errors import SourceError, did_you_mean
from yoro.sources.contract import Colour, Reading
from yoro.sources.imagenet import imagenet_names
from yoro.sources.names import SourceName, check_options, colour_option, side_option
from yoro.sources.runtime import GraphSource
from yoro.sources.torch.network import (
    Network,
    TorchSource,
    count_classes,
    load_state,
    open_network,
    read_state,
    state_digest,
)

OPTIONS = ("weights", "mean", "std", "side")
LICENCES = {"apache-2.0": "Apache-2.0", "cc-by-nc-4.0": "CC-BY-NC-4.0", "mit": "MIT", "bsd-3-clause": "BSD-3-Clause"}


def open_timm(name: SourceName, *, read: Reading, device: str, threads: int | None) -> TorchSource | GraphSource:
    """Open a timm network, frozen, read at its logits or at its pooled features."""
    return open_network(name, timm_network(name, read), read=read, device=device, threads=threads)


def timm_network(name: SourceName, read: Reading) -> Network:
    """The torch network of that name, and what is known of it."""
    check_options(name, OPTIONS)
    if not timm.is_model(name.rest.partition(".")[0]):
        guess = did_you_mean(
            f"timm:{name.rest}", (f"timm:{item}" for item in timm.list_models()), most=3, alike=0.6, else_all=False
        )
        raise SourceError(f"{name.text!r}: timm knows no network {name.rest!r}. {guess}")
    module = _from_file(name) if "weights" in name.options else _from_hub(name)
    config = resolve_model_data_config(module)
    digest = state_digest(module.state_dict())
    from_hub = "weights" not in name.options
    known = read == "logits" and from_hub and module.num_classes == 1000
    licence = module.pretrained_cfg.get("license") if from_hub else None  # nothing is known of a local file
    if "_wsl_ig1b" in name.rest:
        licence = "cc-by-nc-4.0"  # Instagram weights, fine-tuned on ImageNet: not for commercial use
    if read == "features":
        module.reset_classifier(0)  # leaves the pooled features
    return Network(
        module,
        digest,
        side_option(name, int(config["input_size"][-1])),
        colour_option(name, "mean", _colour(config["mean"])),
        colour_option(name, "std", _colour(config["std"])),
        LICENCES.get(str(licence).lower(), licence),
        imagenet_names() if known else None,
    )


def _from_file(name: SourceName) -> torch.nn.Module:
    """The network with as many classes as the local weights have."""
    state = read_state(name.options["weights"], name)
    module = _create(name)
    classes = count_classes(module, state)
    if classes is not None and classes != module.num_classes:
        module = _create(name, num_classes=classes)
    load_state(module, state, name)
    return module


def _create(name: SourceName, **arguments: int) -> torch.nn.Module:
    try:
        module: torch.nn.Module = timm.create_model(name.rest, pretrained=False, **arguments)
    except (RuntimeError, ValueError) as error:
        raise SourceError(f"{name.text!r}: timm cannot make it: {error}") from error
    return module


def _from_hub(name: SourceName) -> torch.nn.Module:
    try:
        module: torch.nn.Module = timm.create_model(name.rest, pretrained=True)
    except Exception as error:  # whatever the network, the hub and the disk can raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise SourceError(
            f"{name.text!r}: its weights cannot be fetched ({type(error).__name__}: {reason}). "
            f"Point to a local file: timm:{name.rest}?weights=FILE.safetensors"
        ) from error
    return module


def _colour(values: Sequence[float]) -> Colour:
    red, green, blue = values
    return float(red), float(green), float(blue)
