"""Several networks as one source: each image is decoded once, and each network sees it at its own size.

The canvas is that of the network with the largest input; the others see it resized, by the same operator here as in an
exported graph. Responses stand side by side, and a reading is named by its network: "lite0/features".
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np
import onnx
from onnx import compose, helper, version_converter

from yoro import limits
from yoro.discriminant.readings import Layout
from yoro.errors import SourceError, explaining
from yoro.sources.graph_builder import GraphBuilder, Tensor, image_tensor, opset_of
from yoro.sources.names import SEPARATOR, short_names
from yoro.sources.protocol import Identity, Images, Responses, ResponseSource, check_images, layout_of
from yoro.sources.runtime import open_session, run_session

if TYPE_CHECKING:
    import onnxruntime

RESIZE_OPSET = 18  # the first whose Resize averages over the pixels that it leaves out


class Ensemble(ResponseSource):
    """Networks that read the same images; those that are `silent` are not run, and their responses are zeros."""

    class_names: list[str] | None = None

    def __init__(self, members: Sequence[ResponseSource], threads: int | None = None) -> None:
        if len(members) > limits.NETWORKS:
            raise SourceError(f"{len(members)} networks were named; at most {limits.NETWORKS} are combined.")
        self.members, self._threads = tuple(members), threads
        self.name = SEPARATOR.join(member.name for member in members)
        self.networks = short_names([member.name for member in members])
        self.side = max(member.side for member in members)
        self.mean, self.std = members[0].mean, members[0].std
        self.preferred_batch = max(member.preferred_batch for member in members)
        self.concurrent = all(member.concurrent for member in members)
        self.silent: frozenset[str] = frozenset()
        self.layout: Layout = Layout(
            tuple(
                replace(reading, name=f"{network}/{reading.name}")
                for network, member in zip(self.networks, members, strict=True)
                for reading in layout_of(member).readings
            )
        )
        self.width = self.layout.width
        self._resizing: dict[int, onnxruntime.InferenceSession] = {}

    @property
    def notes(self) -> Sequence[str]:
        return [note for member in self.members for note in member.notes]

    def prepare(self, pixels: type[np.generic]) -> None:
        for network, member in zip(self.networks, self.members, strict=True):
            if network not in self.silent:
                member.prepare(pixels if member.side == self.side else np.float32)  # resized in single precision

    def outcome(self) -> str:
        return " ".join(filter(None, (member.outcome() for member in self.members)))

    def member(self, network: str) -> ResponseSource:
        return self.members[self.networks.index(network)]

    def only(self, networks: Collection[str]) -> Self:
        chosen = copy(self)
        chosen.silent = frozenset(self.networks) - set(networks)
        return chosen

    def called(self, networks: Sequence[str]) -> Self:
        """The same networks by other names, those that a model has recorded."""
        named = copy(self)
        named.networks, named.layout = list(networks), self.layout.called(networks)
        return named

    def respond(self, images: Images) -> Responses:
        check_images(images, self.side)
        out = np.zeros((len(images), self.width), np.float32)
        start, resized = 0, {self.side: images}
        for network, member in zip(self.networks, self.members, strict=True):
            if network not in self.silent and len(images):
                if member.side not in resized:
                    resized[member.side] = self._resized(images, member.side)
                out[:, start : start + member.width] = member.respond(resized[member.side])
            start += member.width
        return out

    def _resized(self, images: Images, side: int) -> Images:
        if side not in self._resizing:
            self._resizing[side] = open_session(_resize_graph(self.side, side), self._threads, self.name)
        pixels = images.astype(np.float32) / np.float32(255) if images.dtype == np.uint8 else images
        return np.asarray(run_session(self._resizing[side], pixels, self.name), dtype=np.float32)

    def describe(self) -> dict[str, object]:
        members = [member.describe() for member in self.members]
        digest = hashlib.sha256("\n".join(str(one["digest"]) for one in members).encode()).hexdigest()
        licence = ", ".join(dict.fromkeys(str(one["licence"]) for one in members if one.get("licence")))
        read = "all" if any(one["read"] == "all" for one in members) else str(members[0]["read"])
        whole = Identity(self.name, read, self.side, self.mean, self.std, digest, licence or None, "networks")
        return whole.as_dict() | {"networks": members}

    def onnx_model(self) -> onnx.ModelProto:
        """One graph of the networks that are not silent."""
        graphs = [
            None if network in self.silent else member.onnx_model()
            for network, member in zip(self.networks, self.members, strict=True)
        ]
        opset = max([RESIZE_OPSET, *(opset_of(graph) for graph in graphs if graph is not None)])
        joined, parts = GraphBuilder(prefix="networks_"), []
        inner = []
        for i, (member, graph) in enumerate(zip(self.members, graphs, strict=True)):
            if graph is None:
                parts.append(_zeros(joined, member.width))
                continue
            prefix = f"network{i}/"
            graph = compose.add_prefix(_converted(graph, opset, member.name), prefix)
            seen = "images" if member.side == self.side else _resize(joined, "images", self.side, member.side)
            joined.rename(seen, f"{prefix}images")
            parts.append(f"{prefix}responses")
            inner.append(graph)
        model = helper.make_model(
            helper.make_graph(
                [
                    *joined.nodes,
                    *(node for graph in inner for node in graph.graph.node),
                    helper.make_node("Concat", parts, ["responses"], axis=1),
                ],
                "networks",
                [image_tensor(self.side, np.float32).info],
                [Tensor("responses", ("n", self.width)).info],
                [*joined.constants, *(tensor for graph in inner for tensor in graph.graph.initializer)],
            ),
            opset_imports=_opsets(inner),
            ir_version=max(graph.ir_version for graph in inner),
            producer_name="yoro",
        )
        model.functions.extend(function for graph in inner for function in graph.functions)
        return model


def _opsets(graphs: Sequence[onnx.ModelProto]) -> list[onnx.OperatorSetIdProto]:
    versions: dict[str, int] = {}
    for graph in graphs:
        for item in graph.opset_import:
            versions[item.domain] = max(versions.get(item.domain, 0), item.version)
    return [helper.make_opsetid(domain, version) for domain, version in versions.items()]


def _converted(graph: onnx.ModelProto, opset: int, name: str) -> onnx.ModelProto:
    """The graph in another version of ONNX's operators, so that graphs can stand in one file."""
    if opset_of(graph) == opset:
        return graph
    said = f"{name!r} has ONNX operators of version {opset_of(graph)} and cannot be joined with networks of {opset}"
    with explaining(SourceError, said, f"Export it again with opset {opset}."):
        return version_converter.convert_version(graph, opset)


def _zeros(builder: GraphBuilder, width: int) -> str:
    """Zeros (n, width), for a network that is not run."""
    zero, one, columns = (np.array([number], np.int64) for number in (0, 1, width))
    count = builder.node("Slice", builder.node("Shape", "images"), zero, one)
    return builder.node("ConstantOfShape", builder.node("Concat", count, columns, axis=0))


def _resize(builder: GraphBuilder, tensor: str, side: int, smaller: int) -> str:
    """Images (n, smaller, smaller, 3): bilinear, with antialiasing as in decoding."""
    first = builder.node("Transpose", tensor, perm=[0, 3, 1, 2])
    scales = np.array([1, 1, smaller / side, smaller / side], np.float32)
    sized = builder.node("Resize", first, "", scales, mode="linear", antialias=1)
    return builder.node("Transpose", sized, perm=[0, 2, 3, 1])


def _resize_graph(side: int, smaller: int) -> onnx.ModelProto:
    builder = GraphBuilder(opset=RESIZE_OPSET)
    result = Tensor("resized", ("n", smaller, smaller, 3))
    return builder.finish(_resize(builder, "images", side, smaller), "resize", image_tensor(side, np.float32), result)
