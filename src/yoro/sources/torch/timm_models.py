"""timm's networks: `timm:NAME` from the hub, `timm:NAME?weights=FILE` from a local file."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import timm
import torch
from timm.data import resolve_model_data_config

from yoro.errors import SourceError, did_you_mean
from yoro.sources.embedded import imagenet_names
from yoro.sources.names import SourceName, check_options
from yoro.sources.protocol import Identity, Reading, as_colour
from yoro.sources.torch.network import OPTIONS, Network, load_network, state_digest, with_options

LICENCES = {"apache-2.0": "Apache-2.0", "cc-by-nc-4.0": "CC-BY-NC-4.0", "mit": "MIT", "bsd-3-clause": "BSD-3-Clause"}


def timm_network(name: SourceName, read: Reading) -> Network:
    """The torch network of that name, frozen, read at its logits or at its pooled features."""
    check_options(name, OPTIONS)
    if not timm.is_model(name.rest.partition(".")[0]):
        guess = did_you_mean(
            f"timm:{name.rest}", (f"timm:{item}" for item in timm.list_models()), most=3, alike=0.6, else_all=False
        )
        raise SourceError(f"{name.text!r}: unknown timm network {name.rest!r}. {guess}")
    fetch = partial(timm.create_model, name.rest, pretrained=True)
    module = load_network(name, partial(_create, name), fetch, "FILE.safetensors")
    config, licence = resolve_model_data_config(module), module.pretrained_cfg.get("license")
    identity = Identity(
        name.text,
        read,
        int(config["input_size"][-1]),
        as_colour(config["mean"]),
        as_colour(config["std"]),
        state_digest(module.state_dict()),
        LICENCES.get(str(licence).lower(), licence),
    )
    names = imagenet_names() if module.num_classes == 1000 else None
    if read == "features":
        module.reset_classifier(0)  # leaves the pooled features
    network = with_options(Network(module, identity, names), name)
    if "_wsl_ig1b" in name.rest:  # Instagram weights, fine-tuned on ImageNet: not for commercial use
        network = replace(network, identity=replace(network.identity, licence="CC-BY-NC-4.0"))
    return network


def _create(name: SourceName, **arguments: int) -> torch.nn.Module:
    try:
        return timm.create_model(name.rest, pretrained=False, **arguments)
    except (RuntimeError, ValueError) as error:
        raise SourceError(f"{name.text!r}: timm cannot create it: {error}") from error
