"""WebDataset shards: tars in which an image and its label lie beside each other, such as 000.jpg and 000.cls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from yoro import limits
from yoro.data.archive_members import Member
from yoro.data.archives import CHUNK, Found, Spool, archive_files, tar_files
from yoro.data.examples import Example, Picture, shown, storable
from yoro.data.folders import is_image
from yoro.data.lists import described
from yoro.data.remote_files import is_url, opened, unreadable
from yoro.errors import ImageError, InputError, YoroError

SIDECARS = ("cls", "txt", "json")  # endings of what is said of an image
LOOKED_AT = 16  # files of a tar by which it is known what it is

Sample = dict[str, Any]  # the image, and what is said of it


def is_shard(path: Path) -> bool:
    """Whether a tar is a WebDataset shard: beside one of its first images is a .cls file, or JSON with a label.

    A text beside an image may be anything, and does not make a tar of class folders a shard.
    """
    if path.suffix.lower() != ".tar" or not path.is_file():
        return False
    try:
        found = [(*_split_name(name), picture) for name, picture in islice(archive_files(path), LOOKED_AT)]
        images = {key for key, ending, _ in found if is_image(f"x.{ending}")}
        told = [_told(picture, end) for key, end, picture in found if key in images and end in ("cls", "json")]
        return any("label" in sample for sample in told)
    except Exception:  # whoever reads it says what is wrong with it
        return False


class ShardReader:
    """Lists shards; those at URLs are copied to one temporary file, which lives as long as any of their images."""

    def __init__(self) -> None:
        self._spool: Spool | None = None

    def samples(self, place: str, *, labelled: bool) -> Iterator[Example]:
        """The images of a shard in its order, each where it lies."""
        called = place.rsplit("/", 1)[-1]
        try:
            files = self._copied(place) if is_url(place) else archive_files(Path(place))
            for key, sample in _grouped(files, labelled):
                name = storable(f"{called}/{key}")
                label, group, split = described(sample, name, labelled)
                yield Example(sample["image"], label, name, group, split)
        except YoroError:
            raise
        except Exception as error:  # Python's readers of archives raise a dozen kinds
            raise unreadable(shown(place), error, "a WebDataset shard") from error

    def _copied(self, url: str) -> Iterator[Found]:
        self._spool = self._spool or Spool()
        file, total = self._spool.file, 0
        start = file.seek(0, 2)
        with opened(url) as stream:
            while chunk := stream.read(CHUNK):
                total += len(chunk)
                if total > limits.PACKED_BYTES:
                    raise InputError(f"{url} has more than {limits.PACKED_BYTES:,} bytes; write smaller shards.")
                file.write(chunk)
        file.flush()
        return tar_files(self._spool.path, self._spool, start)


def _split_name(name: str) -> tuple[str, str]:
    """The key of a sample, which is the name up to the first dot after the folders, and the ending after it."""
    folder, slash, file = name.rpartition("/")
    stem, _, ending = file.partition(".")
    return f"{folder}{slash}{stem}" if stem else "", ending.lower()


def _grouped(files: Iterator[Found], labelled: bool) -> Iterator[tuple[str, Sample]]:
    """Samples with an image: consecutive files of one key."""
    sample, current, letters = Sample(), "", 0
    for count, (name, picture) in enumerate(files):
        letters += len(name)
        if len(name) > limits.PACKED_NAME or letters > limits.PACKED_INDEX_BYTES or count > limits.PACKED_MEMBERS:
            raise InputError(f"A shard has too many files, or names that are too long, such as '{shown(name[:60])}'.")
        key, ending = _split_name(name)
        if not key or picture is None:
            continue
        if key != current:
            if "image" in sample:
                yield current, sample
            sample, current = Sample(), key
        if is_image(f"x.{ending}"):
            sample["image"] = picture
        elif labelled and ending in SIDECARS:
            sample |= _told(picture, ending)
    if "image" in sample:
        yield current, sample


def _told(picture: Picture | None, ending: str) -> Sample:
    """What a .cls, .txt or .json file says of the image beside it; nothing if it cannot be read."""
    if not isinstance(picture, Member) or picture.size > limits.SHARD_SIDECAR_BYTES:
        return {}
    try:
        text = picture.read().decode("utf-8", "replace").strip()
        told = json.loads(text) if ending == "json" else {"label": text}
    except (ImageError, ValueError, RecursionError):
        return {}
    return {key: told[key] for key in ("label", "group", "split") if key in told} if isinstance(told, dict) else {}
