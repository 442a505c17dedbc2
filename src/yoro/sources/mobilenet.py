"""MobileNetV2 of torchvision as an ONNX graph, built from its weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx

from yoro.errors import SourceError
from yoro.sources.graph_builder import ConvolutionalBuilder
from yoro.sources.protocol import Reading

HALVING = (2, 4, 7, 14)  # blocks of stride 2, which is not stored with the weights
BLOCKS = 17


class _MobileNet(ConvolutionalBuilder):
    def block(self, tensor: str, index: int) -> str:
        """Expand, filter in depth, project; block 1 has nothing to expand. Equal channels are added."""
        name, before = f"features.{index}.conv", tensor
        last = 2 if index > 1 else 1
        for step in range(last):
            stride = 2 if index in HALVING and step == last - 1 else 1
            tensor = self.clip(self.convolve(tensor, f"{name}.{step}.0", f"{name}.{step}.1", stride=stride))
        tensor = self.convolve(tensor, f"{name}.{last}", f"{name}.{last + 1}")
        entering = self.weights[f"{name}.0.0.weight"].shape[1]
        residual = index > 1 and index not in HALVING and entering == len(self.weights[f"{name}.{last}.weight"])
        return self.node("Add", before, tensor) if residual else tensor


def build_graph(
    weights: Mapping[str, npt.NDArray[np.generic]], pixels: type[np.generic], *, side: int, read: Reading
) -> onnx.ModelProto:
    """The network from "images" (n, side, side, 3) to "responses" (n, width); pixels as in `with_preprocessing`."""
    network = _MobileNet(weights)
    try:
        tensor = network.clip(network.convolve("pixels", "features.0.0", "features.0.1", stride=2))
        for index in range(1, BLOCKS + 1):
            tensor = network.block(tensor, index)
        tensor = network.clip(network.convolve(tensor, f"features.{BLOCKS + 1}.0", f"features.{BLOCKS + 1}.1"))
        tensor = network.classify(network.node("GlobalAveragePool", tensor), "classifier.1", read)
        width = weights["classifier.1.weight"].shape[0 if read == "logits" else 1]
    except KeyError as error:
        raise SourceError(f"The weights lack {error}: they are not a MobileNetV2's.") from None
    return network.finish_from("pixels", tensor, "mobilenet-v2", side, width, pixels)
