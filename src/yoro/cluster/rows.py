"""The rows of a part of a file: images as they lie in Parquet and WebDataset shards, or responses."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yoro import limits
from yoro.cluster.files import FilePart, fetch, open_parquet, opened
from yoro.data.examples import SPLITS, Example, Picture, class_name, storable
from yoro.data.folders import is_image
from yoro.errors import ImageError, InputError, one_line

KNOWN = ("image", "path", "pixels", "height", "width", "label", "group", "split", "response", "name")


@dataclass(frozen=True)
class ResponseRows:
    """Responses (n, width) of a part, with what is known of each."""

    responses: NDArray[np.float32]
    labels: list[str]
    groups: list[str]
    names: list[str]


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


def _parquet_rows(part: FilePart) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of a part by name; columns that mean nothing here are not read."""
    with open_parquet(part.place) as file:
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
        with opened(part.place) as stream, tarfile.open(fileobj=stream, mode="r|*") as archive:
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
    told = row.get("label")
    label = "" if told is None else class_name(str(told))
    if not label:
        raise InputError(
            f"{name} has no label; expected a column label, or a .cls, .txt or .json file beside an image."
        )
    return label


def _picture(row: Mapping[str, Any]) -> Picture:
    """The image of a row: bytes of a file, a path or URL, or pixels as they are."""
    image, path = row.get("image"), row.get("path")
    if isinstance(image, Mapping):  # as Hugging Face writes them
        image, path = image["bytes"], image["path"]
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
        return fetch(path)
    except ImageError as error:
        return OSError(one_line(error))
