"""Files of many images or responses: Parquet and WebDataset shards, on a disk or at a URL, found and read in parts."""

from __future__ import annotations

import glob
import io
import json
import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from yoro import limits
from yoro.data.examples import SPLITS, Example, Picture, class_name, storable
from yoro.data.folders import is_image
from yoro.errors import ImageError, InputError, YoroError, one_line

PARQUET = (".parquet", ".pq")
WEBDATASET = "wds:"
KNOWN = ("image", "path", "pixels", "height", "width", "label", "group", "split", "response", "name")
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


@dataclass(frozen=True)
class ResponseRows:
    """Responses (n, width) of a part, with what is known of each."""

    responses: NDArray[np.float32]
    labels: list[str]
    groups: list[str]
    names: list[str]


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
            with _parquet(bare) as file:
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
    with _parquet(place) as file:
        return "response" in file.schema_arrow.names


def identity_in(place: str) -> dict[str, Any] | None:
    """Where the responses of a file come from, if it says so."""
    with _parquet(place) as file:
        told = (file.schema_arrow.metadata or {}).get(b"yoro.identity")
    if told is None:
        return None
    if len(told) > limits.ARCHIVE_IDENTITY_BYTES:
        raise InputError(f"{place}: what it says of its source has {len(told):,} bytes.")
    value = json.loads(told)
    return value if isinstance(value, dict) else None


def read_examples(part: FilePart, *, every: bool) -> list[Example]:
    """The images of a part as they lie there; those marked as a test split only if `every` row is wanted."""
    rows = _tar_rows(part) if part.kind == "tar" else _parquet_rows(part)
    examples = [_example(row, name, not every) for name, row in rows]
    return [example for example in examples if every or example.split != "test"]


def read_responses(part: FilePart, *, every: bool) -> ResponseRows:
    """The responses of a part."""
    found = [(name, row) for name, row in _parquet_rows(part) if every or SPLITS.get(str(row.get("split"))) != "test"]
    width = max((len(row["response"]) for _, row in found), default=0)
    if width > limits.RESPONSE_WIDTH or any(len(row["response"]) != width for _, row in found):
        raise InputError(f"{part.place}: responses of width {width:,}, and not of one width up to 16,384.")
    responses = np.array([row["response"] for _, row in found], dtype=np.float32).reshape(len(found), width)
    labels = ["" if every and row.get("label") is None else _label(row, name) for name, row in found]
    groups = [str(row.get("group") or "") for _, row in found]
    return ResponseRows(responses, labels, groups, [str(row.get("name") or name) for name, row in found])


def fetch(url: str) -> bytes:
    """The bytes of an image at a URL."""
    try:
        with _opened(url) as file:
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
def _opened(place: str) -> Iterator[IO[bytes]]:
    import fsspec

    try:
        opened = fsspec.open(place, "rb")
    except (ImportError, ValueError) as error:
        raise InputError(f"{place} cannot be opened: {one_line(error)}") from error
    with opened as file:
        yield file


@contextmanager
def _parquet(place: str) -> Iterator[Any]:
    import pyarrow as arrow
    from pyarrow import parquet

    try:
        with _opened(place) as stream, parquet.ParquetFile(stream) as file:
            yield file
    except (arrow.ArrowException, OSError) as error:
        raise InputError(f"{place} is no Parquet file that can be read: {one_line(error)}") from error


def _parquet_rows(part: FilePart) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of a part by name; columns that mean nothing here are not read."""
    with _parquet(part.place) as file:
        columns = [name for name in file.schema_arrow.names if name in KNOWN]
        groups = range(*part.groups)
        size = sum(file.metadata.row_group(i).total_byte_size for i in groups)
        if size > limits.PARQUET_GROUP_BYTES:
            raise InputError(f"{part.place}: a group of rows has {size:,} bytes; write smaller ones.")
        before = sum(file.metadata.row_group(i).num_rows for i in range(part.groups[0]))
        table = file.read_row_groups(list(groups), columns=columns).slice(part.rows[0], part.rows[1] - part.rows[0])
    called = part.place.rsplit("/", 1)[-1]
    for at, row in enumerate(table.to_pylist()):
        yield f"{called}#{before + part.rows[0] + at}", row


def _tar_rows(part: FilePart) -> Iterator[tuple[str, dict[str, Any]]]:
    """Samples of a WebDataset shard: consecutive members whose names are alike up to the first dot."""
    row: dict[str, Any] = {}
    key, called = "", part.place.rsplit("/", 1)[-1]
    try:
        with _opened(part.place) as stream, tarfile.open(fileobj=stream, mode="r|*") as archive:
            for member in archive:
                folder, _, name = member.name.rpartition("/")
                stem, _, ending = name.partition(".")
                if not member.isfile() or not stem:
                    continue
                if f"{folder}/{stem}" != key:
                    if "image" in row:
                        yield f"{called}/{key.lstrip('/')}", row
                    row, key = {}, f"{folder}/{stem}"
                row |= _member(archive, member, ending.lower())
            if "image" in row:
                yield f"{called}/{key.lstrip('/')}", row
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InputError(f"{part.place} is no shard that can be read: {one_line(error)}") from error


def _member(archive: tarfile.TarFile, member: tarfile.TarInfo, ending: str) -> dict[str, Any]:
    """What one file of a sample says of it."""
    picture = is_image(f"x.{ending}")
    if not picture and ending not in ("cls", "txt", "json"):
        return {}
    most = limits.IMAGE_FILE_BYTES if picture else limits.SHARD_SIDECAR_BYTES
    if member.size > most:
        return {"image": b""} if picture else {}
    stream = archive.extractfile(member)
    content = b"" if stream is None else stream.read()
    if picture:
        return {"image": content}
    if ending != "json":
        return {"label": content.decode("utf-8", "replace").strip()}
    try:
        told = json.loads(content)
    except ValueError:
        return {}
    return {key: told[key] for key in ("label", "group", "split") if key in told} if isinstance(told, dict) else {}


def _example(row: Mapping[str, Any], name: str, labelled: bool) -> Example:
    group, split = row.get("group"), row.get("split")
    label = _label(row, name) if labelled else None
    return Example(
        _picture(row), label, storable(str(row.get("name") or name)),
        None if group is None else storable(str(group)), SPLITS.get(str(split).lower()),
    )  # fmt: skip


def _label(row: Mapping[str, Any], name: str) -> str:
    label = class_name(str(row.get("label", "") if row.get("label") is not None else ""))
    if not label:
        raise InputError(
            f"{name} has no label; expected a column label, or a .cls, .txt or .json file beside an image."
        )
    return label


def _picture(row: Mapping[str, Any]) -> Picture:
    """The image of a row: bytes of a file, a path or URL, or pixels as they are."""
    image, path = row.get("image"), row.get("path")
    if isinstance(image, dict):  # as Hugging Face writes them
        image, path = image.get("bytes"), image.get("path")
    if isinstance(image, bytes):
        return image
    pixels = row.get("pixels")
    if isinstance(pixels, bytes):
        height, width = int(row.get("height") or 0), int(row.get("width") or 0)
        if len(pixels) != height * width * 3 or not height:
            return OSError(f"{len(pixels)} bytes of pixels for {height} x {width} pixels of three colours")
        return np.frombuffer(pixels, dtype=np.uint8).reshape(height, width, 3)
    if isinstance(path, str):
        return fetched(path)
    return OSError("the row has no image; expected a column image, path or pixels")


def fetched(path: str) -> Picture:
    """The image at a path or URL that a row names."""
    if "://" not in path:
        return Path(path)
    try:
        return io.BytesIO(fetch(path)).getvalue()
    except ImageError as error:
        return OSError(one_line(error))
