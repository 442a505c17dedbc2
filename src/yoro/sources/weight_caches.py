"""Weights of model hubs on this machine, and whether a hub can be reached; nothing heavy is imported."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from yoro.errors import SourceError

FILES = ("model.safetensors", "pytorch_model.bin", "open_clip_model.safetensors", "open_clip_pytorch_model.bin")
HUB = "https://huggingface.co"
PROXIES = ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY")
PATIENCE = 5.0  # seconds that a host has to answer


def is_cached(places: Sequence[str]) -> bool:
    """Whether one of several places is cached: a repository of Hugging Face ("owner/name"), or the URL of a file."""
    return any(_in_cache(place) if "://" in place else _in_hub(place) for place in places)


def unreachable(places: Sequence[str]) -> list[str]:
    """The hosts of these places, if none of them answers; behind a proxy that is not known, and none is named."""
    if any(os.environ.get(name) for name in PROXIES):
        return []
    hub = os.environ.get("HF_ENDPOINT", HUB)
    hosts = dict.fromkeys(urlsplit(place if "://" in place else hub).netloc for place in places)
    return [] if any(map(_answers, hosts)) else list(hosts)


def need_weights(name: str, places: Sequence[str]) -> list[str]:
    """The hosts of a source's weights that do not answer, none being needed; an error at once if they are needed.

    A hub's own client would ask for minutes before it gave up.
    """
    away = unreachable(places)
    if away and not is_cached(places):
        bare = name.partition("?")[0].partition("/")[0]
        raise SourceError(
            f"{name!r}: its weights are not on this machine, and {' and '.join(away)} cannot be reached. Connect once "
            f"to download them, give a file ({bare}?weights=FILE), or use a backbone that is here, such as "
            "embedded:lite0; `yoro models` lists them."
        )
    return away


def _answers(host: str) -> bool:
    """Whether a host takes a connection; a name that is never resolved counts as no."""
    found = list[bool]()
    name, _, port = host.partition(":")

    def connect() -> None:
        try:
            socket.create_connection((name, int(port or 443)), timeout=PATIENCE).close()
        except Exception:  # OSError, or what a guard over sockets raises: either way it cannot be reached
            return
        found.append(True)

    trial = threading.Thread(target=connect, daemon=True)
    trial.start()
    trial.join(PATIENCE)
    return bool(found)


def _in_hub(repository: str) -> bool:
    """Whether Hugging Face's cache has the weights of a repository "owner/name", or its file "owner/name/file"."""
    owner, _, rest = repository.partition("/")
    name, _, file = rest.partition("/")
    snapshots = hub_cache() / f"models--{owner}--{name}" / "snapshots"
    return any((folder / each).is_file() for folder in snapshots.glob("*") for each in ([file] if file else FILES))


def hub_cache() -> Path:
    """Where Hugging Face's clients keep what they download; not created here."""
    variables = os.environ
    home = variables.get("HF_HOME") or Path(variables.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface"
    chosen = variables.get("HF_HUB_CACHE") or variables.get("HUGGINGFACE_HUB_CACHE") or Path(home) / "hub"
    return Path(chosen).expanduser()


def _in_cache(address: str) -> bool:
    """Whether torch's or CLIP's cache has the file of a URL."""
    home = os.environ.get("TORCH_HOME") or Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "torch"
    folders = (Path(home) / "hub" / "checkpoints", Path("~/.cache/clip"))
    name = address.rpartition("/")[2]
    return any((folder.expanduser() / name).is_file() for folder in folders)
