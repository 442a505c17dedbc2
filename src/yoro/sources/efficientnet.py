"""EfficientNet-Lite as an ONNX graph, built from its weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx

from yoro.errors import SourceError
from yoro.sources.embedded import NETWORKS
from yoro.sources.graph_builder import ConvolutionalBuilder, Tensor, image_tensor
from yoro.sources.protocol import IMAGENET_COLOURS, Reading
from yoro.sources.quantised import QuantisedBuilder

EPSILON = 1e-3  # of the batch norms; 1e-5 would move the logits by about 2
STEP, MIDDLE = 1 / 128, 127  # of pixels
STAGE_STRIDES = (1, 2, 2, 2, 1, 2, 1)  # not stored with the weights

Array = npt.NDArray[np.generic]


class _Lite(ConvolutionalBuilder):
    """The graph of the network, layer by layer."""

    def block(self, tensor: str, index: int, *, stride: int, residual: bool) -> str:
        """Expand, filter in depth, project; block 0 has nothing to expand."""
        name, before = f"_blocks.{index}", tensor
        if f"{name}._expand_conv.weight" in self.weights:
            tensor = self.clip(self.convolve(tensor, f"{name}._expand_conv", f"{name}._bn0"))
        tensor = self.clip(self.convolve(tensor, f"{name}._depthwise_conv", f"{name}._bn1", stride=stride))
        tensor = self.settle(self.convolve(tensor, f"{name}._project_conv", f"{name}._bn2"))
        return self.add(tensor, before) if residual else tensor

    def blocks(self, tensor: str) -> str:
        """All blocks; a stage begins where the projected channels change."""
        channels, stage, index = 0, -1, 0
        while (key := f"_blocks.{index}._project_conv.weight") in self.weights:
            new = len(self.weights[key]) != channels
            channels, stage = len(self.weights[key]), stage + new
            stride = STAGE_STRIDES[stage] if new else 1
            tensor = self.block(tensor, index, stride=stride, residual=not new)
            index += 1
        if stage + 1 != len(STAGE_STRIDES):
            raise SourceError(f"The weights have {stage + 1} stages; an EfficientNet-Lite has {len(STAGE_STRIDES)}.")
        return tensor

    def normalised(self, pixels: type[np.generic]) -> str:
        """(pixel - 127) / 128 in channels-first order.

        The mean stays out of the stem's bias: the zeros around the image are zeros *after* normalisation.
        """
        tensor = self.node("Transpose", "images", perm=[0, 3, 1, 2])
        if pixels is np.uint8:
            return self.node("DequantizeLinear", tensor, np.array(STEP, np.float32), np.array(MIDDLE, np.uint8))
        colours = NETWORKS["lite0"].mean, NETWORKS["lite0"].std  # the same for all of them
        mean, std = (np.array(colour, np.float32).reshape(1, 3, 1, 1) for colour in colours)
        return self.node("Div", self.node("Sub", tensor, mean), std)


class _RoundedLite(QuantisedBuilder, _Lite):
    """The same with rounded pixels."""

    def normalised(self, pixels: type[np.generic]) -> str:
        tensor = super().normalised(pixels)
        if pixels is not np.uint8:
            tensor = self.rounded(tensor, STEP, MIDDLE)
        usual = np.array(IMAGENET_COLOURS["mean"]) * 255
        return self.take_whole(tensor, STEP, (usual - MIDDLE) * STEP)


def build_graph(
    weights: Mapping[str, Array], pixels: type[np.generic], *, side: int, read: Reading, rounded: bool = False
) -> onnx.ModelProto:
    """The network from "images" (n, side, side, 3) to "responses" (n, width), `rounded` as `QuantisedBuilder` says.

    `pixels` is np.uint8, for 0 to 255, or np.float32, for [0, 1] pixel units.
    """
    lite = (_RoundedLite if rounded else _Lite)(weights, epsilon=EPSILON, same=True)
    try:
        tensor = lite.clip(lite.convolve(lite.normalised(pixels), "_conv_stem", "_bn0", stride=2))
        tensor = lite.clip(lite.convolve(lite.blocks(tensor), "_conv_head", "_bn1"))
        tensor = lite.classify(lite.node("GlobalAveragePool", tensor), "_fc", read)
    except KeyError as error:
        raise SourceError(f"The weights lack {error}: they are not an EfficientNet-Lite's.") from None
    width = len(weights["_fc.weight"]) if read == "logits" else weights["_fc.weight"].shape[1]
    return lite.finish(tensor, "efficientnet-lite", image_tensor(side, pixels), Tensor("responses", ("n", width)))
