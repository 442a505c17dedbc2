"""Torch networks turned into ONNX graphs, once, and checked against torch before they are trusted."""

from __future__ import annotations

import hashlib
import io
import logging
import warnings
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import torch

from yoro.errors import SourceError, explaining
from yoro.sources.cache import cache_directory, write_atomically
from yoro.sources.graph_builder import GraphInput, with_preprocessing
from yoro.sources.protocol import Identity, Responses
from yoro.sources.runtime import GraphSource
from yoro.sources.sample_photos import real_photos

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yoro.sources.torch.network import TorchSource

OPSET = 18
LARGEST_DIFFERENCE = 1e-4  # of the export against torch, relative to the largest response
CACHE_FORMAT = 1  # raise it when the export changes


def as_graph(source: TorchSource, *, threads: int | None) -> GraphSource:
    """The same source run by ONNX Runtime on the CPU, exported or cached, and compared with torch on real photos.

    A cached graph that is broken or gives other numbers is exported again.
    """
    identity, module = source._identity, source._module
    photos = real_photos(identity.side)
    expected = source.respond(photos)
    path = cached_path(identity, module)
    build = partial(_read_graph, path, identity, source.width)

    def trial() -> tuple[GraphSource, float]:
        graph = GraphSource(identity, build, width=source.width, class_names=source.class_names, threads=threads)
        return graph, relative_difference(graph.respond(photos), expected)

    if path.is_file():
        with suppress(SourceError):  # a broken file in the cache
            graph, difference = trial()
            if difference < LARGEST_DIFFERENCE:
                return graph
    write_atomically(path, export_graph(module, identity))
    graph, difference = trial()
    if difference < LARGEST_DIFFERENCE:
        return graph
    path.unlink(missing_ok=True)
    raise SourceError(
        f"{identity.name!r}: its ONNX export differs from torch by {difference:.1e} of the largest response on real "
        f"photos; less than {LARGEST_DIFFERENCE:.0e} was expected. Its numbers on the CPU could not be trusted."
    )


def cached_path(identity: Identity, module: torch.nn.Module) -> Path:
    """Where the export is kept: a digest of everything that it depends on."""
    parts = (CACHE_FORMAT, OPSET, torch.__version__, identity.digest, identity.read, identity.side, str(module))
    return cache_directory() / "exports" / f"{hashlib.sha256(repr(parts).encode()).hexdigest()}.onnx"


def export_graph(module: torch.nn.Module, identity: Identity) -> bytes:
    """The module from normalised (n, 3, side, side) to (n, width), with a dynamic batch."""
    example = torch.zeros(2, 3, identity.side, identity.side)
    batch = torch.export.Dim("n", min=1, max=65536)
    with (
        explaining(SourceError, f"{identity.name!r} cannot be exported to ONNX"), quiet_logging(),
        warnings.catch_warnings(), redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()),
    ):  # fmt: skip
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            module,
            (example,),
            input_names=["inner"],
            output_names=["outer"],
            dynamic_shapes=({0: batch},),
            opset_version=OPSET,
            dynamo=True,
            verbose=False,
        )
    if program is None:
        raise SourceError(f"{identity.name!r} cannot be exported to ONNX: torch gave no graph.")
    data: bytes = program.model_proto.SerializeToString()
    return data


def relative_difference(responses: Responses, expected: Responses) -> float:
    """Largest absolute difference over the largest absolute response; infinity if anything is not finite."""
    if not (np.isfinite(responses).all() and np.isfinite(expected).all()):
        return float("inf")
    scale = float(np.abs(expected).max())
    return float(np.abs(responses - expected).max()) / (scale or 1.0)  # all zeros must be met by zeros


def _read_graph(path: Path, identity: Identity, width: int, pixels: type[np.generic]) -> onnx.ModelProto:
    form = GraphInput(
        "inner", "outer", identity.side, channels_first=True, takes_bytes=False, mean=identity.mean, std=identity.std
    )
    with explaining(SourceError, f"The cached export {str(path)!r} cannot be read", "Delete it and try again."):
        return with_preprocessing(onnx.load(path), form, pixels, width)


@contextmanager
def quiet_logging() -> Iterator[None]:
    """Log errors only, while libraries report their progress."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(level)
