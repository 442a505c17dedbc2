"""The model zoos timm, torchvision and open_clip: their networks by name, and whether weights are cached here."""

from __future__ import annotations

from pathlib import Path

import timm
import torch
from torchvision import models

from yoro.sources.names import SourceName

FILES = ("model.safetensors", "pytorch_model.bin", "open_clip_model.safetensors", "open_clip_pytorch_model.bin")


def network_names() -> list[str]:
    """Every network of timm and torchvision as a source name."""
    mine = [f"timm:{name}" for name in timm.list_models()]
    return [*mine, *(f"torchvision:{name}" for name in models.list_models(module=models))]


def weights_cached(name: SourceName) -> bool:
    """Whether the weights are in a cache of this machine; True for a name that only the library can refuse."""
    found = {"timm": _timm, "torchvision": _torchvision, "open_clip": _open_clip}[name.prefix](name.rest)
    return not found or any(_in_hub(place) if kind == "hub" else _in_cache(place) for kind, place in found)


def _timm(rest: str) -> list[tuple[str, str]]:
    config = timm.models.get_pretrained_cfg(rest)
    return [] if config is None else _places(config.hf_hub_id, config.url)


def _torchvision(rest: str) -> list[tuple[str, str]]:
    architecture, _, tag = rest.partition("/")
    try:
        known = models.get_model_weights(architecture)
    except ValueError:
        return []
    weights = known.__members__.get(tag or "DEFAULT")
    return [] if weights is None else [("file", weights.url)]


def _open_clip(rest: str) -> list[tuple[str, str]]:
    from open_clip.pretrained import get_pretrained_cfg

    config = get_pretrained_cfg(*rest.split("/", 1)) if "/" in rest else {}
    return _places(config.get("hf_hub"), config.get("url"))


def _places(repository: str | None, address: str | None) -> list[tuple[str, str]]:
    return [(kind, place) for kind, place in (("hub", repository), ("file", address)) if place]


def _in_hub(repository: str) -> bool:
    """Whether Hugging Face's cache has the weights of a repository."""
    from huggingface_hub import try_to_load_from_cache

    owner, _, rest = repository.partition("/")
    identity, _, file = rest.partition("/")
    files = [file] if file else FILES
    return any(isinstance(try_to_load_from_cache(f"{owner}/{identity}", each), str) for each in files)


def _in_cache(address: str) -> bool:
    """Whether torch's or CLIP's cache has the file of an address."""
    name = address.rpartition("/")[2]
    folders = (Path(torch.hub.get_dir(), "checkpoints"), Path("~/.cache/clip").expanduser())
    return any((folder / name).is_file() for folder in folders)
