"""Responses that several cells share, cached on disk file by file, so that an interruption costs at most one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.data.response_streams import ResponseStream
from yoro.data.responses import ROWS, ResponseBatch
from yoro.errors import ImageError, StoreError
from yoro.files.atomic import drafted_file
from yoro.model.pipeline import Pipeline
from yoro.model.settings import Loading
from yoro.research.bench.cells import digest_of

Responses = NDArray[np.float32]


class ResponseCache:
    """Responses of the images of one dataset through one source and prompt, by the names of the images."""

    def __init__(self, folder: Path, rows: int = ROWS) -> None:
        self.folder = folder
        self._rows = rows  # in a file at most
        self._place: dict[str, tuple[int, int]] = {}  # file and row of each image
        self._responses: list[Responses] = []
        self._digests: list[list[bytes]] = []
        self._rates: list[float] = []  # seconds an image, by file
        self.seconds = 0.0  # that reading took
        for path in sorted(folder.glob("*.npz")):
            self._open(path)

    def __len__(self) -> int:
        return len(self._place)

    @property
    def seconds_an_image(self) -> float:
        """Measured time to decode one image and run the source on it."""
        return self.seconds / max(len(self), 1)

    def seconds_of(self, examples: Sequence[Example]) -> float:
        """Measured time to read these images, each by the part that it was read in."""
        return sum(self._rates[self._place[example.name][0]] for example in examples)

    def missing(self, examples: Sequence[Example]) -> list[Example]:
        """The images that are not cached yet, each once."""
        return list({example.name: example for example in examples if example.name not in self._place}.values())

    def read(self, examples: Sequence[Example], pipeline: Pipeline, loading: Loading, *, progress: bool) -> int:
        """Read the responses of images that are not cached yet, and return their number.

        An unreadable image is an error: a result without it would be a result on other data.
        """
        missing = self.missing(examples)
        for start in range(0, len(missing), self._rows):
            part = missing[start : start + self._rows]
            began = time.perf_counter()
            stream = pipeline.stream(part, loading)
            batches = list(stream.shown(f"reading {start:,} of {len(missing):,}", progress))
            if stream.skipped:
                raise ImageError(
                    f"{len(stream.skipped)} of {len(part)} images cannot be read, first: {stream.skipped[0][1]}"
                )
            self._keep(batches, time.perf_counter() - began)
        return len(missing)

    def responses(self, examples: Sequence[Example]) -> Responses:
        """Responses (n, width), in the order of the examples."""
        return np.stack([self._responses[file][row] for file, row in (self._place[e.name] for e in examples)])

    def stream(self, examples: Sequence[Example]) -> ResponseStream:
        return ResponseStream(lambda _: self._batches(examples), len(examples))

    def _batches(self, examples: Sequence[Example]) -> Iterator[ResponseBatch]:
        for start in range(0, len(examples), ROWS):
            part = examples[start : start + ROWS]
            places = [self._place[example.name] for example in part]
            yield ResponseBatch(
                self.responses(part),
                [example.label or "" for example in part],
                [example.group or "" for example in part],
                [self._digests[file][row] for file, row in places],
                [example.name for example in part],
            )

    def _keep(self, batches: Sequence[ResponseBatch], seconds: float) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        names = [name for batch in batches for name in batch.names]
        path = self.folder / f"{digest_of(names)}.npz"  # whoever reads these images writes this file
        digests = b"".join(digest for batch in batches for digest in batch.digests)
        with drafted_file(path) as draft, draft.open("wb") as file:
            np.savez(
                file,
                responses=np.concatenate([batch.responses for batch in batches]).astype(np.float32),
                names=np.array(names, dtype=np.str_),
                digests=np.frombuffer(digests, np.uint8).reshape(len(names), -1),
                seconds=np.float64(seconds),
            )
        self._open(path)

    def _open(self, path: Path) -> None:
        try:
            with np.load(path, allow_pickle=False) as archive:
                responses, names = archive["responses"], archive["names"].tolist()
                digests, seconds = [row.tobytes() for row in archive["digests"]], float(archive["seconds"])
            if responses.ndim != 2 or not len(responses) == len(names) == len(digests):
                raise ValueError("its parts do not match")
        except (OSError, ValueError, KeyError, EOFError) as error:
            raise StoreError(f"'{path}' is damaged ({error}). Delete it, and the images will be read again.") from None
        for row, name in enumerate(names):
            self._place[name] = len(self._responses), row
        self._responses.append(responses)
        self._digests.append(digests)
        self._rates.append(seconds / max(len(names), 1))
        self.seconds += seconds
