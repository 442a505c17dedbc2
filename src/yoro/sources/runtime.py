"""ONNX graphs run on the CPU by ONNX Runtime."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from yoro.discriminant.readings import Layout
from yoro.environment import cores, refuse_telemetry
from yoro.errors import SourceError, explaining
from yoro.sources.protocol import IdentifiedSource, Identity, Images, Reading, Responses, check_responses

if TYPE_CHECKING:
    import onnx
    import onnxruntime

LANES = 4  # batches that run side by side
BATCH_SIZE = 2  # activations of few images fit the cache: Lite0 at best 418 images a second, 356 in batches of 8


def open_session(model: onnx.ModelProto | bytes, threads: int | None, name: str) -> onnxruntime.InferenceSession:
    """A session for the graph, or the bytes of one; `threads` None means all cores."""
    refuse_telemetry()
    import onnxruntime

    if threads is not None and threads < 1:
        raise SourceError(f"{name!r}: threads must be at least 1, not {threads}.")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.inter_op_num_threads = 1
    options.log_severity_level = 4  # failures are raised; the rest is chatter about optimisations
    # Idle threads sleep instead of spinning: beside decoding workers, spinning takes the cores they need.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with explaining(SourceError, f"{name!r} cannot be run by ONNX Runtime"):
        content = model if isinstance(model, bytes) else model.SerializeToString()
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def run_session(session: onnxruntime.InferenceSession, images: npt.NDArray[np.generic], name: str) -> object:
    """The output of a graph with one input and one output."""
    with explaining(SourceError, f"{name!r} failed on images of shape {images.shape}"):
        return session.run(None, {session.get_inputs()[0].name: images})[0]


class GraphSource(IdentifiedSource):
    """A frozen ONNX graph as a response source.

    It has two forms, built when first needed: one takes uint8 pixels, one float32 in [0, 1]. The graph sees small
    batches, or exactly `batch` images where its batch size is fixed, so that memory does not grow with the number of
    images. Batches run side by side in a few lanes, which never wait for each other as threads within a graph do.
    """

    concurrent = True

    def __init__(
        self,
        identity: Identity,
        build: Callable[[type[np.generic]], onnx.ModelProto],
        *,
        width: int,
        class_names: list[str] | None = None,
        threads: int | None = None,
        batch: int | None = None,
    ) -> None:
        super().__init__(identity, class_names)
        self.width = width
        self.layout = Layout.of(width, identity.read)
        self._build = build
        self._first = ""  # what the graph gives by itself, once it is read at all layers
        total = threads or cores()
        self._lanes = min(total, LANES)
        self._threads = total // self._lanes  # of one lane
        self._batch = batch
        self._pool: ThreadPoolExecutor | None = None
        self._opening = threading.Lock()
        self._sessions: dict[type[np.generic], onnxruntime.InferenceSession] = {}
        self._made: dict[type[np.generic], onnx.ModelProto | bytes] = {}  # given away once, not built again for it

    def _ask(self, images: Images) -> Responses:
        kind: type[np.generic] = np.uint8 if images.dtype == np.uint8 else np.float32
        session = self._opened(kind)
        size = self._batch or min(BATCH_SIZE, -(-len(images) // self._lanes))
        parts = [images[start : start + size] for start in range(0, len(images), size)]
        if len(parts) == 1:
            return self._run(session, parts[0])
        with self._opening:
            self._pool = self._pool or ThreadPoolExecutor(self._lanes, thread_name_prefix="yoro-forward")
        return np.concatenate(list(self._pool.map(lambda part: self._run(session, part), parts)))

    def prepare(self, pixels: type[np.generic]) -> None:
        self._opened(pixels)

    def _opened(self, pixels: type[np.generic]) -> onnxruntime.InferenceSession:
        with self._opening:
            if pixels not in self._sessions:
                graph = self._made.pop(pixels) if pixels in self._made else self._finished(pixels)[0]
                self._sessions[pixels] = open_session(graph, self._threads, self.name)
            return self._sessions[pixels]

    def _run(self, session: onnxruntime.InferenceSession, part: Images) -> Responses:
        return check_responses(run_session(session, part, self.name), len(part), self.width, self.name)

    def onnx_model(self) -> onnx.ModelProto:
        return self._graph(np.float32)[0]

    def read_all(self, first: Reading | None = None) -> Self:
        """Read logits, features and layers side by side from now on; `first` says what the graph gives by itself."""
        self._first = first or self._identity.read
        self._identity = replace(self._identity, read="all")
        graph, self.layout = self._finished(np.uint8)
        self.width = self.layout.width
        self._sessions.clear()
        self._made = {np.uint8: graph}
        return self

    def _graph(self, pixels: type[np.generic]) -> tuple[onnx.ModelProto, Layout]:
        """The graph with all that is read, and the layout of its responses."""
        if not self._first:
            return self._build(pixels), Layout.of(self.width, self._identity.read)
        from yoro.sources.layer_outputs import with_layer_outputs

        return with_layer_outputs(self._build(pixels), self._first, self._batch)

    def _finished(self, pixels: type[np.generic]) -> tuple[onnx.ModelProto | bytes, Layout]:
        """The same, in a form that can be run."""
        return self._graph(pixels)
