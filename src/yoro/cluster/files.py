"""Files of many images or responses: Parquet and WebDataset shards, on a disk or at a URL, found and read in parts."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import IO, Any

from yoro import limits
from yoro.data.folders import is_image
from yoro.errors import ImageError, InputError, YoroError, one_line

PARQUET = (".parquet", ".pq")
WEBDATASET = "wds:"
RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")  # shard-{000..099}.tar


@dataclass(frozen=True)
class FilePart:
    """A part of a file: some rows of a Parquet file, or a whole WebDataset shard."""

    kind: str  # "parquet" or "tar"
    place: str  # an absolute path, or a URL
    stamp: str  # by which a change of the file is noticed
    groups: tuple[int, int] = (0, 0)  # first group of rows, and the one after the last
    rows: tuple[int, int] = (0, 0)  # within these groups, first and after the last

    def to_json(self) -> list[object]:
        """A list that `from_json` takes back."""
        return list(astuple(self))

    @classmethod
    def from_json(cls, told: Sequence[Any]) -> FilePart:
        """What `to_json` gave."""
        kind, place, stamp, groups, rows = told
        return cls(kind, place, stamp, tuple(groups), tuple(rows))


def places_of(data: object) -> list[str] | None:
    """Files of rows, or None if the data are anything else; patterns are spelled out."""
    given = [str(item) for item in (data if isinstance(data, list | tuple) else [data])]
    if not isinstance(data, str | Path | list | tuple) or not any(map(_of_rows, given)):
        return None
    if not all(map(_of_rows, given)):
        raise InputError("Parquet or WebDataset files are given alone, not beside images, lists or folders.")
    places = [place for item in given for place in _spelled(item)]
    if not places:
        raise InputError(f"{given[0]!r} matches no file; expected Parquet (.parquet) or WebDataset (wds:*.tar) files.")
    return places


def _of_rows(item: str) -> bool:
    if item.startswith(WEBDATASET) or item.lower().endswith(PARQUET) or ("://" in item and item.endswith(".tar")):
        return True
    return "://" not in item and Path(item).is_dir() and any(Path(item).glob("*.parquet"))


def _spelled(item: str) -> Iterator[str]:
    """The files that a pattern names, in order, each by an absolute path or a URL."""
    prefix = WEBDATASET if item.startswith(WEBDATASET) else ""
    for one in _ranged(item.removeprefix(prefix)):
        if "://" in one:
            import fsspec

            system, path = fsspec.core.url_to_fs(one)
            found = sorted(system.glob(path)) if glob.has_magic(one) else [path]
            yield from (prefix + str(system.unstrip_protocol(name)) for name in found)
        elif Path(one).is_dir():
            yield from (prefix + str(path.absolute()) for path in sorted(Path(one).glob("*.parquet")))
        else:
            names = sorted(glob.glob(one)) if glob.has_magic(one) else [one]  # noqa: PTH207
            yield from (prefix + str(Path(name).absolute()) for name in names)


def _ranged(item: str) -> list[str]:
    found = RANGE.search(item)
    if found is None:
        return [item]
    first, last = found[1], found[2]
    if int(last) - int(first) >= limits.PACKED_MEMBERS:
        raise InputError(f"{item!r} names more than {limits.PACKED_MEMBERS:,} files.")
    numbers = (f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1))
    return [one for number in numbers for one in _ranged(item[: found.start()] + number + item[found.end() :])]


def parts_of(places: Sequence[str], size: int) -> list[FilePart]:
    """The parts of files, of about `size` rows each; a WebDataset shard is one part."""
    parts: list[FilePart] = []
    for place in places:
        bare = place.removeprefix(WEBDATASET)
        stamp = _stamp(bare)
        if place.startswith(WEBDATASET) or bare.endswith(".tar"):
            parts.append(FilePart("tar", bare, stamp))
        else:
            with open_parquet(bare) as file:
                counts = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
            parts += [FilePart("parquet", bare, stamp, groups, rows) for groups, rows in _ranges(counts, size)]
    if not parts:
        raise InputError(f"{places[0]} and {len(places) - 1} more files hold no rows.")
    return parts


def _ranges(counts: Sequence[int], size: int) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Groups of rows together up to a size; a larger one in pieces."""
    first = 0
    while first < len(counts):
        last, rows = first + 1, counts[first]
        while last < len(counts) and rows + counts[last] <= size:
            rows, last = rows + counts[last], last + 1
        for start in range(0, rows, size):
            yield (first, last), (start, min(start + size, rows))
        first = last


def is_responses(place: str) -> bool:
    """Whether a file holds responses, not images."""
    if not place.lower().endswith(PARQUET):
        return False
    with open_parquet(place) as file:
        return "response" in file.schema_arrow.names


def identity_in(place: str) -> dict[str, Any] | None:
    """Where the responses of a file come from, if it says so."""
    with open_parquet(place) as file:
        told = (file.schema_arrow.metadata or {}).get(b"yoro.identity")
    if told is None:
        return None
    if len(told) > limits.ARCHIVE_IDENTITY_BYTES:
        raise InputError(f"{place}: what it says of its source has {len(told):,} bytes.")
    value = json.loads(told)
    return value if isinstance(value, dict) else None


def fetch(url: str) -> bytes:
    """The bytes of an image at a URL."""
    try:
        with opened(url) as file:
            content = file.read(limits.IMAGE_FILE_BYTES + 1)
    except (OSError, YoroError) as error:
        raise ImageError(f"{url} cannot be read: {one_line(error)}") from error
    return bytes(content)


def find_remote(url: str) -> list[tuple[str, str, str]]:
    """The images below a URL: path below it, URL, and a stamp of each, sorted."""
    import fsspec

    try:
        system, root = fsspec.core.url_to_fs(url)
        found: Mapping[str, Mapping[str, object]] = system.find(root, detail=True)
    except Exception as error:  # every system behind fsspec has errors of its own
        raise InputError(f"{url} cannot be listed: {type(error).__name__}: {one_line(error)}") from error
    result = []
    for path, facts in sorted(found.items()):
        below = str(path).removeprefix(str(root).rstrip("/")).lstrip("/")
        if is_image(path) and not any(step.startswith(".") for step in below.split("/")):
            stamp = f"{facts.get('size')} {facts.get('ETag') or facts.get('mtime') or facts.get('LastModified')}"
            result.append((below, str(system.unstrip_protocol(path)), stamp))
    return result


def _stamp(place: str) -> str:
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(place)
        facts = system.info(path)
    except Exception as error:  # every system behind fsspec has errors of its own
        raise InputError(f"{place} cannot be read: {type(error).__name__}: {one_line(error)}") from error
    return f"{facts.get('size')} {facts.get('ETag') or facts.get('mtime') or facts.get('LastModified')}"


@contextmanager
def opened(place: str) -> Iterator[IO[bytes]]:
    """The bytes of a path or URL."""
    import fsspec

    try:
        file = fsspec.open(place, "rb")
    except (ImportError, ValueError) as error:
        raise InputError(f"{place} cannot be opened: {one_line(error)}") from error
    with file as stream:
        yield stream


@contextmanager
def open_parquet(place: str) -> Iterator[Any]:
    """A Parquet file; what is none is an InputError."""
    import pyarrow as arrow
    from pyarrow import parquet

    try:
        with opened(place) as stream, parquet.ParquetFile(stream) as file:
            yield file
    except (arrow.ArrowException, OSError) as error:
        raise InputError(f"{place} is no Parquet file that can be read: {one_line(error)}") from error
