"""Whether the weights of a source lie in the caches of this machine; nothing is fetched."""

from __future__ import annotations

from pathlib import Path

import torch

from yoro.sources.names import SourceName

FILES = ("model.safetensors", "pytorch_model.bin", "open_clip_model.safetensors", "open_clip_pytorch_model.bin")


def weights_here(name: SourceName) -> bool:
    """Whether a run would find the weights; True for a name that only the library itself can refuse."""
    found = {"timm": _timm, "torchvision": _torchvision, "open_clip": _open_clip}[name.prefix](name.rest)
    return not found or any(_in_hub(place) if kind == "hub" else _in_cache(place) for kind, place in found)


def _timm(rest: str) -> list[tuple[str, str]]:
    from timm.models import get_pretrained_cfg

    config = get_pretrained_cfg(rest)
    return [] if config is None else _places(config.hf_hub_id, config.url)


def _torchvision(rest: str) -> list[tuple[str, str]]:
    from torchvision.models import get_model_weights

    architecture, _, tag = rest.partition("/")
    try:
        known = get_model_weights(architecture)
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
    """Whether Hugging Face's cache has a file of weights of a repository."""
    from huggingface_hub import try_to_load_from_cache

    owner, _, rest = repository.partition("/")
    identity, _, file = rest.partition("/")
    files = [file] if file else FILES
    return any(isinstance(try_to_load_from_cache(f"{owner}/{identity}", each), str) for each in files)


def _in_cache(address: str) -> bool:
    """Whether torch's cache, or CLIP's, has the file of an address."""
    name = address.rpartition("/")[2]
    folders = (Path(torch.hub.get_dir(), "checkpoints"), Path("~/.cache/clip").expanduser())
    return any((folder / name).is_file() for folder in folders)
