"""Files of many images or responses, Parquet and WebDataset: which are meant, what they hold, and parts of them."""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from yoro import limits
from yoro.data.archives import CHUNK, Found, Spool, archive_files, tar_files
from yoro.data.examples import Dataset, Example, Member, Picture, shown, storable
from yoro.data.folders import is_image
from yoro.data.lists import described
from yoro.data.parquet_files import PARQUET, count_rows, holds_responses, list_rows, response_batches
from yoro.data.remote_files import file_system, is_url, opened, stamp_of, unreadable
from yoro.data.responses import ResponseBatch
from yoro.errors import ImageError, InputError, YoroError

WEBDATASET = "wds:"  # before the path of a tar says that it is a shard
RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")  # shard-{000..099}.tar
SIDECARS = ("cls", "txt", "json")  # endings of what is said of an image
LOOKED_AT = 16  # files of a tar by which it is known what it is
Sample = dict[str, Any]  # the image, and what is said of it


@dataclass(frozen=True)
class FilePart:
    """Some rows of a Parquet file, or a whole WebDataset shard."""

    place: str  # an absolute path or a URL, after `wds:` that of a shard
    stamp: str  # by which a change of the file is noticed
    start: int = 0
    stop: int | None = None
    marks: tuple[str, ...] | None = None  # the splits that are meant, "" for rows without one; None for all

    def to_json(self) -> list[object]:
        return list(astuple(self))

    @classmethod
    def from_json(cls, told: Sequence[Any]) -> FilePart:
        place, stamp, start, stop, marks = told
        return cls(place, stamp, start, stop, None if marks is None else tuple(marks))

    def examples(self, *, labelled: bool) -> list[Example]:
        found = _list_file(self.place, ShardReader(), labelled, self.start, self.stop)
        return [example for example in found if self.marks is None or (example.split or "") in self.marks]

    def responses(self) -> list[ResponseBatch]:
        found = response_batches(self.place, labelled=True, start=self.start, stop=self.stop)
        return [batch if self.marks is None else batch.marked(self.marks) for batch in found]


@dataclass(frozen=True)
class RowFiles:
    """Files that are not listed: what they hold is known once they are read, part by part."""

    places: tuple[str, ...]
    marks: tuple[str, ...] | None = None  # the splits that are meant

    def parts(self, size: int) -> list[FilePart]:
        """The parts of all files, of `size` rows each; a shard is one part."""
        parts: list[FilePart] = []
        for place in self.places:
            if place.startswith(WEBDATASET):
                parts.append(FilePart(place, stamp_of(place.removeprefix(WEBDATASET)), marks=self.marks))
                continue
            stamp, count = stamp_of(place), count_rows(place)
            starts = range(0, count, size)
            parts += [FilePart(place, stamp, at, min(at + size, count), self.marks) for at in starts]
        if not parts:
            raise InputError(f"{self.places[0]} and {len(self.places) - 1} more files hold no rows.")
        return parts


def find_rows(places: Sequence[str], *, labelled: bool) -> Dataset:
    """The images of files, in their order; none is read yet."""
    shards = ShardReader()
    examples = tuple(example for place in places for example in _list_file(place, shards, labelled))
    if not examples:
        raise InputError(f"{places[0].removeprefix(WEBDATASET)} holds no images.")
    return Dataset(examples)


def _list_file(
    place: str, shards: ShardReader, labelled: bool, start: int = 0, stop: int | None = None
) -> Iterator[Example]:
    if place.startswith(WEBDATASET):
        return shards.samples(place.removeprefix(WEBDATASET), labelled=labelled)
    return list_rows(place, labelled=labelled, start=start, stop=stop)


def places_of(data: object) -> list[str] | None:
    """The files that data name, each an absolute path or a URL, after `wds:` that of a shard; None if they are others.

    A pattern (`*.parquet`), a range (`{000..099}.tar`) or a folder of Parquet files alone stands for all its files.
    """
    given = data if isinstance(data, list | tuple) else [data]
    if not given or not all(isinstance(item, str | Path) and _holds_rows(str(item)) for item in given):
        return None
    places = [place for item in given for place in _spelled(str(item))]
    if not places:
        raise InputError(f"{given[0]} matches no file; expected Parquet (.parquet) or WebDataset (.tar) files.")
    return places


def response_places(data: object) -> list[str] | None:
    """The files that data name, if they are Parquet files of responses; else None."""
    places = places_of(data)
    if places is None or places[0].startswith(WEBDATASET) or not holds_responses(places[0]):
        return None
    return places


def _holds_rows(item: str) -> bool:
    if item.startswith(WEBDATASET) or item.lower().endswith(PARQUET):
        return True
    if is_url(item):
        return item.endswith(".tar")
    try:
        if item.lower().endswith(".tar"):
            return is_shard(Path(next(_named(item), item)))
        with os.scandir(item) as entries:
            names = (entry.name.lower() for entry in entries if not entry.name.startswith("."))
            return next(names, "").endswith(PARQUET) and all(name.endswith(PARQUET) for name in names)
    except (OSError, ValueError):  # not a folder, one that cannot be opened, or no name that a file can have
        return False


def _spelled(item: str) -> Iterator[str]:
    """The files that one item names, in order."""
    bare = item.removeprefix(WEBDATASET)
    if not is_url(bare) and Path(bare).is_dir():
        inside = (path for path in Path(bare).iterdir() if path.name.lower().endswith(PARQUET))
        yield from sorted(str(path.absolute()) for path in inside)
        return
    prefix = "" if bare.lower().endswith(PARQUET) else WEBDATASET
    for name in _named(bare):
        yield prefix + (name if is_url(name) else str(Path(name).absolute()))


def _named(item: str) -> Iterator[str]:
    """The files of a pattern or range, or the one file."""
    for one in _ranged(item):
        if is_url(one) and glob.has_magic(one):
            system, path = file_system(one)
            yield from (str(system.unstrip_protocol(name)) for name in sorted(system.glob(path)))
        else:
            yield from sorted(glob.glob(one)) if glob.has_magic(one) and not Path(one).exists() else [one]  # noqa: PTH207


def _ranged(item: str) -> list[str]:
    found = RANGE.search(item)
    if found is None:
        return [item]
    first, last = found[1], found[2]
    if int(last) - int(first) >= limits.PACKED_MEMBERS:
        raise InputError(f"{item!r} names more than {limits.PACKED_MEMBERS:,} files.")
    numbers = (f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1))
    return [one for number in numbers for one in _ranged(item[: found.start()] + number + item[found.end() :])]


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
