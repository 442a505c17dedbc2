"""Batches of decoded images, in order, decoded beside the caller's own work."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence

import numpy as np

from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.data.processes import Decoded, DecodingProcess, decode_all, lent, sendable
from yoro.environment import cores
from yoro.errors import InputError

DEPTH = 2  # batches asked of each worker ahead of the caller: one being decoded, one ready
MOST_WORKERS = 16


def default_workers() -> int:
    """One decoding process for each core this process may use, up to 16."""
    return min(cores(), MOST_WORKERS)


def load(
    examples: Sequence[Example], geometry: Geometry, *, batch_size: int = 64, workers: int | None = None
) -> Generator[Decoded, None, None]:
    """Batches of consecutive examples, whose positions are those among all; broken files are reported, never raised.

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


def _here(examples: Sequence[Example], ranges: list[range], geometry: Geometry) -> Generator[Decoded, None, None]:
    for numbers in ranges:
        yield _taken(examples, list(numbers), geometry)


def _taken(examples: Sequence[Example], indices: list[int], geometry: Geometry) -> Decoded:
    """Some of the examples, decoded in this process."""
    chosen = [examples[index] for index in indices]
    decoded = decode_all([example.image for example in chosen], [example.name for example in chosen], geometry)
    return decoded.placed(indices)


def _ahead(
    examples: Sequence[Example], ranges: list[range], geometry: Geometry, count: int
) -> Generator[Decoded, None, None]:
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


def _receive(process: DecodingProcess, examples: Sequence[Example], numbers: range, geometry: Geometry) -> Decoded:
    """One batch: files from the process, pixels in memory taken here."""
    files = [index for index in numbers if sendable(examples[index].image)]
    kept = [index for index in numbers if not sendable(examples[index].image)]
    parts = [process.answer().placed(files)] if files else []
    parts += [_taken(examples, kept, geometry)] if kept else []
    return parts[0] if len(parts) == 1 else _merge(*parts)


def _merge(first: Decoded, second: Decoded) -> Decoded:
    """Two parts of one batch in the order of their positions."""
    good, digests = first.good + second.good, first.digests + second.digests
    order = sorted(range(len(good)), key=good.__getitem__)
    pixels = np.concatenate([first.pixels, second.pixels])[order]
    failures = sorted(first.failures + second.failures)
    return Decoded([good[i] for i in order], [digests[i] for i in order], failures, pixels)
