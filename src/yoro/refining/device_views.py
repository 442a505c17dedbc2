"""Views cut out and resized on the device that trains: a batch at a time, as matrix products.

The arithmetic is Pillow's (antialiased, eight bits after each of two passes), so that pixels differ by rounding alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor

import numpy as np
import torch

from yoro.data.geometry import Geometry, Looks, View
from yoro.refining.images import Codes, LabelledImages, Order, Pixels

AT_ONCE = 32  # images of a batch that are resized together: padded to the largest, they take 4 bytes a value

Kernel = tuple[float, Callable[[torch.Tensor], torch.Tensor]]  # half its width, and its value at a distance
Span = tuple[int, int]  # first pixel, and how many


def _bicubic(x: torch.Tensor) -> torch.Tensor:
    near, far = (1.5 * x - 2.5) * x * x + 1.0, ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0
    return torch.where(x < 1.0, near, far)


KERNELS: dict[str, Kernel] = {"bilinear": (1.0, lambda x: 1.0 - x), "bicubic": (2.0, _bicubic)}


class DeviceImages:
    """`LabelledImages` whose batches are made on a device: pixels (batch, side, side, 3), uint8, and class indices."""

    def __init__(self, images: LabelledImages, device: torch.device) -> None:
        self._images, self._device = images, device
        self.geometry = images.geometry

    def __len__(self) -> int:
        return len(self._images)

    def batches(
        self, batch_size: int, *, order: Order = None, looks: Looks | None = None, pool: Executor | None = None
    ) -> Iterator[tuple[torch.Tensor, Codes]]:
        """As `LabelledImages.batches`; images that are seen whole come from there, with the very same pixels."""
        if looks is None:
            for pixels, codes in self._images.batches(batch_size, order=order, pool=pool):
                yield torch.from_numpy(pixels).to(self._device, non_blocking=True), codes
            return
        for indices, images in self._images.whole_batches(batch_size, order, pool):
            sizes = [(image.shape[1], image.shape[0]) for image in images]
            views = [looks(i)(size, self.geometry) for i, size in zip(indices.tolist(), sizes, strict=True)]
            parts = [
                resized(images[start : start + AT_ONCE], views[start : start + AT_ONCE], self.geometry, self._device)
                for start in range(0, len(images), AT_ONCE)
            ]
            yield torch.cat(parts), self._images.codes[indices]


def resized(
    images: Sequence[Pixels], views: Sequence[View], geometry: Geometry, device: torch.device | str
) -> torch.Tensor:
    """Views (n, side, side, 3), uint8, of images (height, width, 3) of any sizes."""
    side, kernel = geometry.side, KERNELS[geometry.interpolation]
    sizes = [(image.shape[1], image.shape[0]) for image in images]
    across, down = (max(lengths) for lengths in zip(*sizes, strict=True))
    padded = np.zeros((len(images), down, across, 3), np.uint8)
    for place, image in zip(padded, images, strict=True):
        place[: image.shape[0], : image.shape[1]] = image
    pixels = torch.from_numpy(padded).to(device, non_blocking=True).permute(0, 3, 1, 2).float()
    firsts = [view.first or size for view, size in zip(views, sizes, strict=True)]
    if firsts != sizes:
        pixels = _resample(pixels, [(0, size[0]) for size in sizes], [first[0] for first in firsts], kernel, 3)
        pixels = _resample(pixels, [(0, size[1]) for size in sizes], [first[1] for first in firsts], kernel, 2)
    pixels = _resample(pixels, [(view.left, view.width) for view in views], [side] * len(views), kernel, 3)
    pixels = _resample(pixels, [(view.top, view.height) for view in views], [side] * len(views), kernel, 2)
    mirrored = torch.tensor([view.mirrored for view in views]).to(device, non_blocking=True)
    shown = torch.where(mirrored[:, None, None, None], pixels.flip(3), pixels)
    return shown.byte().permute(0, 2, 3, 1)


def _resample(
    pixels: torch.Tensor, spans: Sequence[Span], lengths: Sequence[int], kernel: Kernel, axis: int
) -> torch.Tensor:
    """Images (n, 3, height, width) with a span of one axis resized to a length, beyond which there are zeros."""
    device, (half, value) = pixels.device, kernel
    start, count, length = (
        torch.tensor(numbers, dtype=torch.float64).to(device, torch.float32, non_blocking=True)[:, None, None]
        for numbers in (*zip(*spans, strict=True), tuple(lengths))
    )
    source = torch.arange(pixels.shape[axis], device=device) + 0.5 - start  # (n, 1, size), from the start of the span
    target = torch.arange(max(lengths), device=device)[None, :, None] + 0.5
    scale = count / length
    spread = scale.clamp(min=1.0)
    distance = (source - target * scale).abs() / spread
    seen = (distance < half) & (source > 0) & (source < count) & (target < length)
    weights = torch.where(seen, value(distance), 0.0)
    weights = weights / weights.sum(dim=2, keepdim=True).clamp(min=1e-12)
    rule = "nchw,now->ncho" if axis == 3 else "nchw,noh->ncow"
    return torch.einsum(rule, pixels, weights).add(0.5).floor().clamp(0, 255)
