"""8-bit quantisation of convolutional networks, calibrated from the weights alone: no images are needed.

A batch norm says how its output is spread over the images that the network was trained on. That gives the ranges, and
what rounding the weights adds to an output on average, which the bias takes back (Nagel et al. 2019). So no images are
needed, and the same weights give the same graph everywhere. Weights have six bits and a sign: then no processor's sums
of products overflow, and all of them answer alike.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Self

import numpy as np
import onnx

from yoro.sources.graph_builder import CLIPPED, ConvolutionalBuilder, Numbers

MOST_WEIGHT = 63
MOST_BIAS = 2**30
MOST = 255
DEVIATIONS = 4  # within which outputs are told apart


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of every channel, and whether it is clipped to an activation's range."""

    mean: Numbers
    deviation: Numbers
    clipped: bool = False

    def __add__(self, other: Self) -> Spread:
        return Spread(self.mean + other.mean, np.hypot(self.deviation, other.deviation))

    @property
    def range(self) -> tuple[float, float]:
        """Where all channels lie; zero is among it."""
        low = min(0.0, float((self.mean - DEVIATIONS * self.deviation).min()))
        high = max(0.0, float((self.mean + DEVIATIONS * self.deviation).max()))
        return (0.0, min(high, CLIPPED)) if self.clipped else (low, high)

    @property
    def expected(self) -> Numbers:
        """The mean of every channel, of a normal distribution that may be clipped."""
        if not self.clipped:
            return self.mean
        from scipy.special import ndtr  # which takes long to import, and only 8-bit arithmetic needs it

        deviation = np.maximum(self.deviation, 1e-9)
        low, high = -self.mean / deviation, (CLIPPED - self.mean) / deviation
        density: Numbers = (np.exp(-(low**2) / 2) - np.exp(-(high**2) / 2)) / np.sqrt(2 * np.pi)
        inside: Numbers = ndtr(high) - ndtr(low)
        mean: Numbers = self.mean * inside + deviation * density + CLIPPED * (1 - ndtr(high))
        return mean


@dataclass
class QuantisedBuilder(ConvolutionalBuilder):
    """Builds the same network with roundings between its layers, which runtimes fuse into them."""

    spreads: dict[str, Spread] = field(default_factory=dict)
    scales: dict[str, float] = field(default_factory=dict)  # of tensors that are whole numbers

    def convolve(self, tensor: str, layer: str, norm: str, *, stride: int = 1) -> str:
        made = super().convolve(tensor, layer, norm, stride=stride)
        self.spreads[made] = Spread(self._norm(norm, "bias"), np.abs(self._norm(norm, "weight")))
        return made

    def clip(self, tensor: str) -> str:
        before = self.spreads[tensor]
        made = super().clip(tensor)
        self.spreads[made] = Spread(before.mean, before.deviation, clipped=True)
        return self.settle(made)

    def add(self, one: str, other: str) -> str:
        made = super().add(one, other)
        self.spreads[made] = self.spreads[one] + self.spreads[other]
        return self.settle(made)

    def settle(self, tensor: str) -> str:
        low, high = self.spreads[tensor].range
        scale = (high - low) / MOST
        made = self.rounded(tensor, scale, round(-low / scale))
        self.spreads[made], self.scales[made] = self.spreads[tensor], scale
        return made

    def rounded(self, tensor: str, scale: float, zero: int) -> str:
        """The tensor in steps of the scale, which stand for the whole numbers of a byte, `zero` for none."""
        steps = np.array(scale, np.float32), np.array(zero, np.uint8)
        return self.node("DequantizeLinear", self.node("QuantizeLinear", tensor, *steps), *steps)

    def take_whole(self, tensor: str, scale: float, mean: Numbers) -> str:
        """The tensor itself, known to be in steps of the scale, with such a mean."""
        self.spreads[tensor], self.scales[tensor] = Spread(mean, np.zeros_like(mean)), scale
        return tensor

    def _layer_constants(self, tensor: str, kernel: Numbers, bias: Numbers) -> tuple[str, str]:
        most = np.abs(kernel).max(axis=(1, 2, 3))
        step = self.scales[tensor]
        least = np.maximum(np.abs(bias) / (step * MOST_BIAS), 1e-12)  # a channel of nearly nothing but its bias
        scales = np.maximum(most / MOST_WEIGHT, least).astype(np.float32)
        steps = scales.astype(np.float64)
        whole = np.rint(kernel / steps[:, None, None, None])
        added = (whole * steps[:, None, None, None] - kernel).sum(axis=(2, 3))
        expected = self.spreads[tensor].expected
        bias = bias - (added[:, 0] * expected if added.shape[1] == 1 else added @ expected)
        products = np.float32(step) * scales
        return (
            self._dequantised(whole.astype(np.int8), scales),
            self._dequantised(np.rint(bias / products.astype(np.float64)).astype(np.int32), products),
        )

    def _dequantised(self, whole: np.ndarray, scales: np.ndarray) -> str:
        return self.node("DequantizeLinear", whole, scales, np.zeros(len(scales), whole.dtype), axis=0)


def read_rounded(model: onnx.ModelProto) -> onnx.ModelProto:
    """The graph, changed so that whatever takes a tensor that is also rounded takes it rounded.

    A convolution can be fused with the rounding of its output only if nothing takes the output before.
    """
    users: dict[str, list[onnx.NodeProto]] = defaultdict(list)
    for node in model.graph.node:
        for name in node.input:
            users[name].append(node)
    for rounding in model.graph.node:
        if rounding.op_type == "QuantizeLinear":
            before, (after,) = rounding.input[0], users[rounding.output[0]]
            for node in users[before]:
                if node is not rounding:
                    node.input[:] = [after.output[0] if name == before else name for name in node.input]
    return model
