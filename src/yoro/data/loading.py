"""Batches of decoded images, in order, decoded beside the caller's own work."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.data.processes import Decoded, DecodingProcess, decode_all, lent, sendable
from yoro.environment import cores
from yoro.errors import InputError

DEPTH = 2  # batches asked of each worker ahead of the caller: one being decoded, one ready
MOST_WORKERS = 16


@dataclass(frozen=True)
class Batch:
    """Consecutive examples that could be read, and those among them that could not."""

    indices: list[int]  # into the examples given to `load`, one for each image
    images: NDArray[np.uint8]  # (batch, side, side, 3)
    digests: list[str]  # of the content, one for each image
    failures: list[tuple[int, str]]  # (index, what is wrong with it)


def default_workers() -> int:
    """One decoding process for each core this process may use, up to 16."""
    return min(cores(), MOST_WORKERS)


def load(
    examples: Sequence[Example], geometry: Geometry, *, batch_size: int = 64, workers: int | None = None
) -> Generator[Batch, None, None]:
    """Batches in the order of the examples; broken files are reported in `failures`, never raised.

    `workers` processes decode ahead of the caller (None: `default_workers()`; 0: in this process). Pixels that are in
    memory already are always taken in this process. At most `DEPTH * workers` batches are held, however many examples
    there are. The processes end when the iteration ends, is closed, or this process is gone; one may stay for the next.
    """
    if batch_size < 1:
        raise InputError(f"batch_size is {batch_size}, expected at least 1.")
    count = default_workers() if workers is None else workers
    if count < 0:
        raise InputError(f"workers is {count}, expected 0 or more.")
    ranges = [range(start, min(start + batch_size, len(examples))) for start in range(0, len(examples), batch_size)]
    with_files = sum(any(sendable(examples[i].image) for i in numbers) for numbers in ranges)
    count = min(count, with_files)
    return _ahead(examples, ranges, geometry, count) if count else _here(examples, ranges, geometry)


def _here(examples: Sequence[Example], ranges: list[range], geometry: Geometry) -> Generator[Batch, None, None]:
    for numbers in ranges:
        chosen = [examples[index] for index in numbers]
        answer = decode_all([example.image for example in chosen], [example.name for example in chosen], geometry)
        yield _batch(list(numbers), answer)


def _ahead(
    examples: Sequence[Example], ranges: list[range], geometry: Geometry, count: int
) -> Generator[Batch, None, None]:
    """Batches decoded by `count` processes in turn, each with a few requests open."""
    with lent(count) as processes:
        waiting: deque[int] = deque()
        for number in range(min(DEPTH * count, len(ranges))):
            _ask(processes[number % count], examples, ranges[number], geometry)
            waiting.append(number)
        while waiting:
            number = waiting.popleft()
            process = processes[number % count]
            batch = _receive(process, examples, ranges[number], geometry)
            later = number + DEPTH * count
            if later < len(ranges):
                _ask(process, examples, ranges[later], geometry)
                waiting.append(later)
            yield batch


def _ask(process: DecodingProcess, examples: Sequence[Example], numbers: range, geometry: Geometry) -> None:
    """Request the images of a batch that are files, if there are any."""
    files = [(sent, examples[i].name) for i in numbers if (sent := sendable(examples[i].image))]
    if files:
        process.request([sent for sent, _ in files], [name for _, name in files], geometry)


def _receive(process: DecodingProcess, examples: Sequence[Example], numbers: range, geometry: Geometry) -> Batch:
    """One batch: files from the process, pixels in memory taken here."""
    files = [index for index in numbers if sendable(examples[index].image)]
    kept = [index for index in numbers if not sendable(examples[index].image)]
    parts = []
    if files:
        parts.append(_batch(files, process.answer()))
    if kept:
        chosen = [examples[index] for index in kept]
        decoded = decode_all([example.image for example in chosen], [example.name for example in chosen], geometry)
        parts.append(_batch(kept, decoded))
    return parts[0] if len(parts) == 1 else _merge(*parts)


def _batch(indices: list[int], decoded: Decoded) -> Batch:
    named = [(indices[position], message) for position, message in decoded.failures]
    return Batch([indices[position] for position in decoded.good], decoded.pixels, decoded.digests, named)


def _merge(first: Batch, second: Batch) -> Batch:
    """Two parts of one batch in the order of their indices."""
    indices = first.indices + second.indices
    digests = first.digests + second.digests
    order = sorted(range(len(indices)), key=indices.__getitem__)
    images = np.concatenate([first.images, second.images])[order]
    failures = sorted(first.failures + second.failures)
    return Batch([indices[i] for i in order], images, [digests[i] for i in order], failures)
