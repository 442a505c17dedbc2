"""Labelled images in any order and view, decoded ahead in threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from yoro.data.decoding import decode
from yoro.data.examples import Example
from yoro.data.geometry import Geometry, Looks
from yoro.environment import cores
from yoro.mappings.batches import class_codes
from yoro.model.metrics import refuse_strangers

AHEAD = 2  # batches decoded or being decoded while the caller works on one
PART = 8  # images that a thread decodes at a time

Pixels = NDArray[np.uint8]
Codes = NDArray[np.int64]


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
        """Index of each image's class, (n,)."""
        return class_codes((example.label or "" for example in self.examples), self.classes).astype(np.int64)

    def batches(
        self,
        batch_size: int,
        *,
        order: NDArray[np.intp] | None = None,
        looks: Looks | None = None,
        pool: Executor | None = None,
    ) -> Iterator[tuple[Pixels, Codes]]:
        """Pixels (batch, side, side, 3) and class indices; an image that has become unreadable is an error.

        Threads (of `pool`, if given) decode ahead; at most three batches are held.
        """
        indices = np.arange(len(self)) if order is None else order
        parts = [indices[start : start + batch_size] for start in range(0, len(indices), batch_size)]
        threads = pool or ThreadPoolExecutor(max(1, cores() // 2), thread_name_prefix="yoro-views")
        waiting: deque[tuple[NDArray[np.intp], list[Future[list[Pixels]]]]] = deque()
        try:
            for number in range(len(parts) + AHEAD):
                if number < len(parts):
                    part = parts[number]
                    pieces = [part[start : start + PART] for start in range(0, len(part), PART)]
                    waiting.append((part, [threads.submit(self._decode, piece, looks) for piece in pieces]))
                if number >= AHEAD:
                    part, decoded = waiting.popleft()
                    yield np.stack([image for piece in decoded for image in piece.result()]), self.codes[part]
        finally:
            for _, decoded in waiting:
                for piece in decoded:
                    piece.cancel()
            if threads is not pool:
                threads.shutdown()

    def _decode(self, indices: NDArray[np.intp], looks: Looks | None) -> list[Pixels]:
        chosen = [(self.examples[i], looks(i) if looks else None) for i in indices.tolist()]
        return [decode(example.image, self.geometry, name=example.name, look=look) for example, look in chosen]
