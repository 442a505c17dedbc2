"""Labelled images in any order and view, decoded ahead in threads, or once for all epochs."""

from __future__ import annotations

import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from yoro.data.decoding import decode, decode_whole
from yoro.data.examples import Example
from yoro.data.geometry import Geometry, Looks
from yoro.environment import cores
from yoro.mappings.batches import class_codes
from yoro.model.metrics import refuse_strangers

AHEAD = 2  # batches decoded or being decoded while the caller works on one
PART = 8  # images that a thread decodes at a time
SHARE = 0.5  # of the free disk space that decoded images may take

Pixels = NDArray[np.uint8]
Codes = NDArray[np.int64]
Order = NDArray[np.intp] | None  # indices of images; None: as they come


@dataclass(frozen=True)
class LabelledImages:
    """Readable examples, with the class names that their labels index."""

    examples: Sequence[Example]
    classes: tuple[str, ...]
    geometry: Geometry

    def __post_init__(self) -> None:
        refuse_strangers({example.label or "" for example in self.examples}, self.classes)

    def __len__(self) -> int:
        return len(self.examples)

    @cached_property
    def codes(self) -> Codes:
        return class_codes((example.label or "" for example in self.examples), self.classes).astype(np.int64)

    def batches(
        self, batch_size: int, *, order: Order = None, looks: Looks | None = None, pool: Executor | None = None
    ) -> Iterator[tuple[Pixels, Codes]]:
        """Pixels (batch, side, side, 3) and class indices; an image that has become unreadable is an error.

        Threads (of `pool`, if given) decode ahead; at most three batches are held.
        """
        for part, pixels in self._ahead(order, batch_size, partial(self._seen, looks), pool):
            yield np.stack(pixels), self.codes[part]

    def decoded_once(self) -> LabelledImages:
        """The same images, every pixel decoded into a memory-mapped file that vanishes with them.

        Images that are decoded at reduced scale, and more than the disk has room for, stay as they are.
        """
        return self if self.geometry.reduced else self._kept(self.whole_batches(8 * PART))

    def seen_once(self) -> LabelledImages:
        """The same images as the squares that are seen of them whole, kept as `decoded_once` keeps them."""
        return self._kept(self._ahead(None, 8 * PART, partial(self._seen, None), None))

    def _kept(self, batches: Iterator[tuple[NDArray[np.intp], list[Pixels]]]) -> LabelledImages:
        """The same images with these pixels, in a memory-mapped file; as they are if the disk has no room."""
        if not len(self):
            return self
        free = shutil.disk_usage(tempfile.gettempdir()).free
        shapes: list[tuple[int, ...]] = []
        with tempfile.TemporaryFile() as file:
            for _, pixels in batches:
                for image in pixels:
                    file.write(image.tobytes())
                    shapes.append(image.shape)
                if file.tell() / len(shapes) * len(self) > SHARE * free:
                    return self
            file.flush()
            flat = np.memmap(file, np.uint8, mode="r")
        ends = np.cumsum([np.prod(shape) for shape in shapes])
        views = [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]
        kept = [replace(example, image=view) for example, view in zip(self.examples, views, strict=True)]
        return replace(self, examples=kept)

    def whole_batches(
        self, batch_size: int, order: Order = None, pool: Executor | None = None
    ) -> Iterator[tuple[NDArray[np.intp], list[Pixels]]]:
        """Indices of images, and every pixel (height, width, 3) of each."""
        return self._ahead(order, batch_size, self._whole, pool)

    def _whole(self, index: int) -> Pixels:
        example = self.examples[index]
        return decode_whole(example.image, self.geometry, name=example.name)

    def _ahead(
        self, order: Order, batch_size: int, work: Callable[[int], Pixels], pool: Executor | None
    ) -> Iterator[tuple[NDArray[np.intp], list[Pixels]]]:
        """The work on each image, in batches, done ahead in threads."""
        indices = np.arange(len(self)) if order is None else order
        parts = [indices[start : start + batch_size] for start in range(0, len(indices), batch_size)]
        threads = pool or ThreadPoolExecutor(max(1, cores() // 2), thread_name_prefix="yoro-views")
        waiting: deque[tuple[NDArray[np.intp], list[Future[list[Pixels]]]]] = deque()
        try:
            for number in range(len(parts) + AHEAD):
                if number < len(parts):
                    part = parts[number]
                    pieces = [part[start : start + PART].tolist() for start in range(0, len(part), PART)]
                    waiting.append((part, [threads.submit(list, map(work, piece)) for piece in pieces]))
                if number >= AHEAD:
                    part, done = waiting.popleft()
                    yield part, [result for piece in done for result in piece.result()]
        finally:
            for _, done in waiting:
                for piece in done:
                    piece.cancel()
            if threads is not pool:
                threads.shutdown()

    def _seen(self, looks: Looks | None, index: int) -> Pixels:
        example = self.examples[index]
        return decode(example.image, self.geometry, name=example.name, look=looks(index) if looks else None)
