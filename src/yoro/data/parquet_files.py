"""Parquet files of images or of responses, on a disk or at a URL: listed by their small columns, read in order."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from yoro import limits
from yoro.data.examples import Example, Later, storable
from yoro.data.lists import COLUMNS, described
from yoro.data.remote_files import fetch, is_away, is_url, opened, stamp_of, unreadable
from yoro.data.responses import ROWS, ResponseBatch
from yoro.environment import install
from yoro.errors import InputError, YoroError, one_line
from yoro.mappings.batches import row_digests

PARQUET = (".parquet", ".pq")
IMAGE = ("image", "path", "pixels", "height", "width")  # the columns that an image is made of
LISTED = ("group", "split", "name", *COLUMNS["label"])  # the columns that say what it is
RESPONSE = "response"
IDENTITY = b"yoro.identity"  # the entry of a file's metadata that says where its responses come from
LISTED_ROWS, IMAGE_ROWS = 8192, 32  # read at once
AHEAD = 1024  # rows that are rather passed over than sought


@contextmanager
def open_parquet(place: str) -> Iterator[Any]:
    """An open Parquet file; anything else is an InputError."""
    try:
        import pyarrow as arrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"{place} is a Parquet file, and reading those needs pyarrow: {install('data')}.") from None
    damage = (arrow.ArrowException, OSError)  # by name here: a reader left open ends after the library's names are gone
    try:
        with opened(place) as stream, parquet.ParquetFile(stream) as file:
            yield file
    except YoroError:
        raise
    except Exception as error:
        if not (isinstance(error, damage) or is_away(error)):
            raise
        raise unreadable(place, error, "a Parquet file") from error


def count_rows(place: str) -> int:
    """How many rows a file has; a number that its size cannot hold is an error."""
    size = int(stamp_of(place).split()[0])
    with open_parquet(place) as file:
        count = int(file.metadata.num_rows)
    if count > size:  # even without an image, a row takes space
        raise InputError(f"{place} declares {count:,} rows and has {size:,} bytes; it is damaged.")
    return count


def read_batches(
    place: str, wanted: Collection[str], rows: int, start: int = 0, stop: int | None = None
) -> Iterator[tuple[int, Any]]:
    """Some columns of the rows from `start` to `stop`: the number of the first row, and a batch of up to `rows`."""
    with open_parquet(place) as file:
        columns, last = [name for name in file.schema_arrow.names if name in wanted], 0
        for group in range(file.num_row_groups):
            facts = file.metadata.row_group(group)
            at, last = last, last + facts.num_rows
            if last <= start or (stop is not None and at >= stop):
                continue
            if facts.total_byte_size > limits.PARQUET_GROUP_BYTES:
                raise InputError(
                    f"{place}: a row group has {facts.total_byte_size:,} bytes; write row groups of at most "
                    f"{limits.PARQUET_GROUP_BYTES:,}."
                )
            for batch in file.iter_batches(rows, row_groups=[group], columns=columns):
                low, high = max(start - at, 0), min(batch.num_rows, batch.num_rows if stop is None else stop - at)
                if low < high:
                    yield at + low, batch.slice(low, high - low)
                at += batch.num_rows


def row_name(place: str, row: int) -> str:
    """What a row is called that has no name of its own."""
    return f"{place.rsplit('/', 1)[-1]}#{row}"


def list_rows(place: str, *, labelled: bool, start: int = 0, stop: int | None = None) -> Iterator[Example]:
    """The images of a file in its order; their own columns are read when they are decoded."""
    stamp, stop = stamp_of(place), count_rows(place) if stop is None else stop
    if stop - start > limits.PACKED_MEMBERS:
        raise InputError(f"{place} has {stop - start:,} rows; write files of at most {limits.PACKED_MEMBERS:,}.")
    with open_parquet(place) as file:
        names = set(file.schema_arrow.names)
    if not names & {"image", "path", "pixels"}:
        raise InputError(
            f"{place} has no column of images; expected image, path or pixels, found {', '.join(sorted(names))}."
        )
    if not names & set(LISTED):
        batches: Iterator[tuple[int, list[Mapping[str, object]]]] = iter([(start, [{}] * (stop - start))])
    else:
        found = read_batches(place, LISTED, LISTED_ROWS, start, stop)
        batches = ((first, batch.to_pylist()) for first, batch in found)
    for first, rows in batches:
        for number, row in enumerate(rows, start=first):
            name = row_name(place, number)
            label, group, split = described(row, name, labelled)
            yield Example(row_image(place, number, stamp), label, storable(str(row.get("name") or name)), group, split)


def row_image(place: str, row: int, stamp: str = "") -> Later:
    """The image of a row, read when it is decoded."""
    here = place.startswith("memory:")
    return Later(partial(_read_image, place, row), row_name(place, row), stamp, () if here else ("row", place, row))


def _read_image(place: str, number: int) -> Path | bytes | NDArray[np.uint8]:
    """Bytes of a file, pixels as they are, or a path; a row without an image is an OSError."""
    row: Mapping[str, Any] = _cursor(place).row(number)
    image, path, pixels = row.get("image"), row.get("path"), row.get("pixels")
    if isinstance(image, dict):  # as Hugging Face writes them
        image, path = image["bytes"], image["path"]
    if isinstance(image, bytes):
        return image
    if isinstance(pixels, bytes):
        height, width = int(row.get("height") or 0), int(row.get("width") or 0)
        if len(pixels) != height * width * 3 or not height:
            raise OSError(f"{len(pixels)} bytes of pixels for {height} x {width} pixels of three colours")
        return np.frombuffer(pixels, dtype=np.uint8).reshape(height, width, 3)
    if isinstance(path, str):
        beside = Path(place).parent / path
        return fetch(path) if is_url(path) else beside if not is_url(place) and beside.is_file() else Path(path)
    raise OSError("the row has no image; expected a column image, path or pixels")


class _Cursor:
    """A position in a file: images are mostly read in order, and a row can only be reached from the rows before it."""

    def __init__(self, place: str) -> None:
        self._place, self._lock = place, threading.Lock()
        self._first, self._rows = 0, list[Mapping[str, Any]]()
        self._batches: Iterator[tuple[int, Any]] = iter(())

    def row(self, number: int) -> Mapping[str, Any]:
        with self._lock:
            if not self._rows or not 0 <= number - self._first < AHEAD:
                self._batches, self._rows = read_batches(self._place, IMAGE, IMAGE_ROWS, start=number), []
            while not self._rows or number >= self._first + len(self._rows):
                self._rows = []  # whatever fails now, the next call begins anew
                self._first, batch = next(self._batches, (0, None))
                if batch is None:
                    raise OSError(f"the file has no row {number}")
                self._rows = batch.to_pylist()
            return self._rows[number - self._first]


_cursor = lru_cache(maxsize=1)(_Cursor)  # of the file that was read last


def holds_responses(place: str) -> bool:
    """Whether a file holds responses, not images."""
    with open_parquet(place) as file:
        return RESPONSE in file.schema_arrow.names


class ParquetResponses:
    """Responses in Parquet files, read in the order of the files."""

    def __init__(self, places: list[str], *, labelled: bool = True) -> None:
        self.places, self._labelled = places, labelled
        self.identity = _identity(places[0])
        for place in places[1:]:
            if _identity(place) != self.identity:
                raise InputError(f"{places[0]} and {place} hold responses of different sources; use one at a time.")
        self._count = sum(map(count_rows, places))

    def __len__(self) -> int:
        return self._count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open between two batches."""

    @property
    def splits(self) -> NDArray[np.str_]:
        """The split of each row, "" for none."""
        found = []
        for place in self.places:
            for first, batch in read_batches(place, ("split",), LISTED_ROWS):
                rows = enumerate(batch.to_pylist(), start=first)
                found += [described(row, row_name(place, i), False)[2] or "" for i, row in rows]
        return np.array(found, dtype=np.str_)

    def batches(self) -> Iterator[ResponseBatch]:
        """All rows in order."""
        for place in self.places:
            yield from response_batches(place, labelled=self._labelled)


def response_batches(place: str, *, labelled: bool, start: int = 0, stop: int | None = None) -> Iterator[ResponseBatch]:
    """The responses of a file, or of some of its rows."""
    for first, batch in read_batches(place, (RESPONSE, *LISTED), ROWS, start, stop):
        values = _vectors(batch.column(RESPONSE), place)
        rows = batch.drop_columns([RESPONSE]).to_pylist() if batch.num_columns > 1 else [{}] * len(values)
        names = [storable(str(row.get("name") or row_name(place, first + i))) for i, row in enumerate(rows)]
        told = [described(row, name, labelled) for row, name in zip(rows, names, strict=True)]
        labels = [label or "" for label, _, _ in told] if labelled else None
        groups, splits = [group or "" for _, group, _ in told], [split or "" for _, _, split in told]
        yield ResponseBatch(values, labels, groups, row_digests(values), names, splits)


def _vectors(column: Any, place: str) -> NDArray[np.floating]:
    """A column of lists of numbers as one array (n, width)."""
    from pyarrow import compute, types

    kind = column.type
    lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not lists or not (types.is_floating(kind.value_type) or types.is_integer(kind.value_type)):
        raise InputError(f"{place}: responses have type {kind}; expected lists of numbers.")
    sizes = compute.min_max(compute.list_value_length(column)).as_py()
    width = sizes["max"] or 0
    if column.null_count or sizes["min"] != width or not 0 < width <= limits.RESPONSE_WIDTH:
        raise InputError(
            f"{place}: responses have widths from {sizes['min']} to {width:,}; expected one width of up to "
            f"{limits.RESPONSE_WIDTH:,} in every row."
        )
    values: NDArray[np.floating] = column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), width)
    return values if values.dtype.kind == "f" else values.astype(np.float32)


def _identity(place: str) -> dict[str, Any] | None:
    """Where the responses of a file come from, if it says so."""
    with open_parquet(place) as file:
        told = (file.schema_arrow.metadata or {}).get(IDENTITY)
    if told is None:
        return None
    if len(told) > limits.ARCHIVE_IDENTITY_BYTES:
        raise InputError(f"{place}: the description of its source has {len(told):,} bytes.")
    try:
        value = json.loads(told)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: the description of its source is damaged: {one_line(error)}") from error
    return value if isinstance(value, dict) else None
