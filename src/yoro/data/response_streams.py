"""Data of any kind as one traversal of response batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from yoro.data.parquet_files import ParquetResponses
from yoro.data.responses import ROWS, ResponseBatch, ResponseFile, checked_labels
from yoro.data.row_files import response_places
from yoro.errors import InputError, OnePassError
from yoro.mappings.batches import check_batch, refuse_non_finite, row_digests

ResponseData = str | Path | list[str] | ArrayLike | tuple[ArrayLike, ArrayLike]


class ResponseStream:
    """Batches that can be traversed once: the promise of one pass is kept by refusing a second.

    `produce` is called with the stream itself, so that it can note what it passed over.
    """

    def __init__(self, produce: Callable[[ResponseStream], Iterator[ResponseBatch]], total: int | None = None) -> None:
        self.total = total
        self.images = 0  # handed out so far
        self.position = 0  # examples dealt with so far, those that could not be read among them
        self.skipped: list[tuple[str, str]] = []  # names of what could not be read, with the reason
        self._produce, self._begun = produce, False

    def __iter__(self) -> Iterator[ResponseBatch]:
        if self._begun:
            raise OnePassError("The data can be read only once; keep what you need.")
        self._begun = True
        for batch in self._produce(self):
            refuse_non_finite(batch.responses, batch.names)
            self.images += len(batch)
            yield batch

    def shown(self, what: str, progress: bool) -> Iterator[ResponseBatch]:
        """The batches with a bar on stderr: rate and time left; it stays silent in logs."""
        with tqdm(total=self.total, desc=what, unit="img", disable=None if progress else True, leave=False) as bar:
            for batch in self:
                yield batch
                bar.update(len(batch))


@dataclass(frozen=True)
class Collected:
    """A whole stream in memory: responses (n, width), with labels and group names ("" for none), (n,) each."""

    responses: NDArray[np.floating]
    labels: NDArray[np.str_]
    groups: tuple[str, ...]
    names: tuple[str, ...]
    digests: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[np.intp]) -> Collected:
        groups, names, digests = (tuple(c[i] for i in rows.tolist()) for c in (self.groups, self.names, self.digests))
        return Collected(self.responses[rows], self.labels[rows], groups, names, digests)

    def batch(self) -> ResponseBatch:
        labels, groups, names = self.labels.tolist(), list(self.groups), list(self.names)
        return ResponseBatch(self.responses, labels, groups, list(self.digests), names)


def collect(stream: ResponseStream, what: str, *, width: int = 0, progress: bool = False) -> Collected:
    """All of a labelled stream; `width` is that of an empty one."""
    batches = list(stream.shown(what, progress))
    return Collected(
        np.concatenate([batch.responses for batch in batches]) if batches else np.empty((0, width), dtype=np.float32),
        np.array([label for batch in batches for label in batch.labels or []], dtype=np.str_),
        tuple(group for batch in batches for group in batch.groups or [""] * len(batch)),
        tuple(name for batch in batches for name in batch.names),
        tuple(digest for batch in batches for digest in batch.digests),
    )


def is_response_data(data: object) -> bool:
    """Whether data are responses already: an .npz or Parquet file of them, an array, or an array with labels."""
    if isinstance(data, str | Path) and Path(data).suffix.lower() == ".npz":
        return True
    if isinstance(data, str | Path | list) and response_places(data) is not None:
        return True
    first = data[0] if isinstance(data, tuple) and len(data) == 2 else data
    return isinstance(first, np.ndarray) and first.ndim == 2 and first.dtype.kind == "f"


def open_response_file(data: object, *, labelled: bool = True) -> ResponseFile | ParquetResponses | None:
    """The files of responses that data name; None if they are arrays."""
    if not isinstance(data, str | Path | list):
        return None
    places = response_places(data)
    if places is not None:
        return ParquetResponses(places, labelled=labelled)
    return None if isinstance(data, list) else ResponseFile(data, labelled=labelled)


def identity_of(data: object) -> dict[str, object] | None:
    """Where responses come from, if they are in a file that says so."""
    if not isinstance(data, str | Path | list) or not is_response_data(data):
        return None
    file = open_response_file(data, labelled=False)
    if file is None:
        return None
    with file:
        return file.identity


def open_responses(data: ResponseData, *, labelled: bool) -> ResponseStream:
    """A stream of a response file, of (responses, labels), or of bare responses where labels are not needed."""
    file = open_response_file(data, labelled=labelled)
    if file is not None:
        return ResponseStream(lambda _: _closing(file), len(file))
    if isinstance(data, tuple):
        batch = check_batch(*data)
        _refuse_fractions(np.asarray(data[1]))
        refuse_non_finite(batch.responses)
        labels = checked_labels(batch.labels, "The data given").tolist()
        return ResponseStream(lambda _: _slices(batch.responses, labels), len(labels))
    if labelled:
        raise InputError("Labels are needed: give (responses, labels), or a response file that has both.")
    values = np.asarray(data)
    responses = check_batch(values, np.zeros(len(values), dtype=np.intp)).responses
    refuse_non_finite(responses)
    return ResponseStream(lambda _: _slices(responses, None), len(responses))


def _refuse_fractions(labels: NDArray[np.generic]) -> None:
    """Raise if labels are numbers that need not be whole; those of a column with gaps become such in some tables."""
    odd = [label for label in labels.tolist() if isinstance(label, float)] if labels.dtype.kind in "fO" else []
    if odd:
        raise InputError(f"A label is {odd[0]!r}; expected text or an integer.")


def _closing(file: ResponseFile | ParquetResponses) -> Iterator[ResponseBatch]:
    with file:
        yield from file.batches()


def _slices(responses: NDArray[np.floating], labels: list[str] | None) -> Iterator[ResponseBatch]:
    for start in range(0, len(responses), ROWS):
        block = responses[start : start + ROWS]
        names = [f"row {i}" for i in range(start, start + len(block))]
        yield ResponseBatch(block, labels and labels[start : start + ROWS], None, row_digests(block), names)
