"""The model zoos: networks of timm and torchvision by name, and whether weights are cached on this machine.

`timm:NAME` and `torchvision:NAME/WEIGHTS` come from the hub, `timm:NAME?weights=FILE` and
`torchvision:NAME?weights=FILE` from a local file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import timm
import torch
from timm.data import resolve_model_data_config
from torchvision import models

from yoro.errors import SourceError, did_you_mean, explaining
from yoro.sources.embedded import imagenet_names
from yoro.sources.names import SourceName, check_options
from yoro.sources.protocol import IMAGENET_COLOURS, Identity, Reading, as_colour
from yoro.sources.torch.network import OPTIONS, Network, last_linear, load_network, state_digest, with_options
from yoro.sources.weight_caches import is_cached, need_weights

LICENCES = {"apache-2.0": "Apache-2.0", "cc-by-nc-4.0": "CC-BY-NC-4.0", "mit": "MIT", "bsd-3-clause": "BSD-3-Clause"}
TORCHVISION_LICENCE = "BSD-3-Clause (torchvision); the weights were trained on ImageNet"


def timm_network(name: SourceName, read: Reading) -> Network:
    """The torch network of that name, frozen, read at its logits or at its pooled features."""
    check_options(name, OPTIONS)
    if not timm.is_model(name.rest.partition(".")[0]):
        raise _unknown(name, name.rest, timm.list_models())
    fetch = partial(_fetched, name, partial(timm.create_model, name.rest, pretrained=True))
    module = load_network(name, partial(_create_timm, name), fetch, "FILE.safetensors")
    config, licence = resolve_model_data_config(module), module.pretrained_cfg.get("license")
    if module.num_classes == 0:
        read = "features"  # all that a network without a classifier gives
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


def _fetched(name: SourceName, fetch: Callable[[], torch.nn.Module]) -> torch.nn.Module:
    with weights_at_hand(name):
        return fetch()


def _create_timm(name: SourceName, **arguments: int) -> torch.nn.Module:
    with explaining(SourceError, f"{name.text!r}: timm cannot create it"):
        return timm.create_model(name.rest, pretrained=False, **arguments)


def torchvision_network(name: SourceName, read: Reading) -> Network:
    """The torch network of that name, frozen, read at its logits or before its last linear layer."""
    check_options(name, OPTIONS)
    architecture, _, tag = name.rest.partition("/")
    weights = _weights(architecture, tag, name)
    untrained = {"init_weights": False} if architecture in ("googlenet", "inception_v3") else {}
    module = load_network(
        name,
        partial(models.get_model, architecture, weights=None, **untrained),
        partial(_fetched, name, partial(models.get_model, architecture, weights=weights, progress=False)),
        "FILE.pth",
    )
    transform = weights.transforms()
    mean, std = (as_colour(getattr(transform, key, IMAGENET_COLOURS[key])) for key in ("mean", "std"))
    side = int(getattr(transform, "crop_size", [224])[0])
    identity = Identity(name.text, read, side, mean, std, state_digest(module.state_dict()), TORCHVISION_LICENCE)
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
        raise _unknown(name, architecture, known)
    choices: Mapping[str, models.WeightsEnum] = models.get_model_weights(architecture).__members__
    if (tag or "DEFAULT") not in choices:
        raise SourceError(f"{name.text!r}: {architecture} has no weights {tag!r}; choose one of {', '.join(choices)}.")
    return choices[tag or "DEFAULT"]


def _unknown(name: SourceName, network: str, known: Iterable[str]) -> SourceError:
    names = (f"{name.prefix}:{item}" for item in known)
    guess = did_you_mean(f"{name.prefix}:{network}", names, most=3, alike=0.6, else_all=False)
    return SourceError(f"{name.text!r}: unknown {name.prefix} network {network!r}. {guess}")


def network_names() -> list[str]:
    """Every network of timm and torchvision as a source name."""
    mine = [f"timm:{name}" for name in timm.list_models()]
    return [*mine, *(f"torchvision:{name}" for name in models.list_models(module=models))]


def weights_cached(name: SourceName) -> bool:
    """Whether the weights are in a cache of this machine; True for a name that only the library can refuse."""
    found = weight_places(name)
    return not found or is_cached(found)


@contextmanager
def weights_at_hand(name: SourceName) -> Iterator[None]:
    """Where weights are fetched: from a cache alone if no hub answers; an error at once if they are in none."""
    from huggingface_hub import constants

    found, online = weight_places(name), constants.HF_HUB_OFFLINE
    away = need_weights(name.text, found) if found else []
    constants.HF_HUB_OFFLINE = online or bool(away)
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = online


def weight_places(name: SourceName) -> list[str]:
    """Where the library finds the weights: a repository of Hugging Face, a URL; none for a name it does not know."""
    return [place for place in PLACES[name.prefix](name.rest) if place]


def _timm(rest: str) -> list[str | None]:
    config = timm.models.get_pretrained_cfg(rest)
    return [] if config is None else [config.hf_hub_id, config.url]


def _torchvision(rest: str) -> list[str | None]:
    architecture, _, tag = rest.partition("/")
    try:
        known = models.get_model_weights(architecture)
    except ValueError:
        return []
    weights = known.__members__.get(tag or "DEFAULT")
    return [] if weights is None else [weights.url]


def _open_clip(rest: str) -> list[str | None]:
    from open_clip.pretrained import get_pretrained_cfg

    config = get_pretrained_cfg(*rest.split("/", 1)) if "/" in rest else {}
    return [config.get("hf_hub"), config.get("url")]


PLACES = {"timm": _timm, "torchvision": _torchvision, "open_clip": _open_clip}
