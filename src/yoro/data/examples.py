"""Labelled images as they were found, before any is opened; a file in an archive is read where it lies."""

from __future__ import annotations

import os
import re
import struct
import unicodedata
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from yoro import limits
from yoro.errors import ImageError, InputError

STORED, DEFLATED = 0, 8  # packings of a zip that are read
PLAIN = -1  # bytes as they are, without a header of their own, as in a tar
_HEADER = struct.Struct("<4s22xHH")  # of a file in a zip: signature, lengths of name and extra field
_SIGNATURE = b"PK\x03\x04"

Address = tuple[str, int, int, int, int, int]


@dataclass(frozen=True)
class Member:
    """Where the bytes of a file lie within an archive, and how they are packed; reading one takes no other."""

    archive: Path
    offset: int  # of its header in a zip, of its bytes in a tar
    packed: int  # bytes in the archive
    size: int  # bytes when unpacked
    method: int = PLAIN
    checksum: int = 0  # CRC-32, in a zip
    keep: object = field(default=None, compare=False, repr=False)  # what must live as long as this does

    def read(self) -> bytes:
        """The file's bytes; damage, and a size beyond the limit, are an ImageError."""
        check_file_size(max(self.size, self.packed) if self.size else 0)
        with self.archive.open("rb") as file:
            file.seek(self.offset)
            if self.method != PLAIN:
                head = file.read(_HEADER.size)
                if len(head) < _HEADER.size or not head.startswith(_SIGNATURE):
                    raise ImageError("the archive is damaged here")
                _, name, extra = _HEADER.unpack(head)
                file.seek(name + extra, 1)
            content = file.read(self.packed)
        if self.method == DEFLATED:
            content = _inflated(content, self.size)
        if len(content) != self.size or (self.method != PLAIN and zlib.crc32(content) != self.checksum):
            raise ImageError("the archive is damaged here")
        return content

    def address(self) -> Address:
        """What another process needs to read it."""
        return str(self.archive), self.offset, self.packed, self.size, self.method, self.checksum

    @classmethod
    def at(cls, address: Address) -> Self:
        return cls(Path(address[0]), *address[1:])


def check_file_size(size: int) -> None:
    """Raise if an image file is empty, or larger than any is read."""
    if size == 0:
        raise ImageError("the file is empty")
    if size > limits.IMAGE_FILE_BYTES:
        raise ImageError(f"the file has {size} bytes, more than {limits.IMAGE_FILE_BYTES}")


def _inflated(content: bytes, size: int) -> bytes:
    """At most one byte more than the size that was promised."""
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(content, size + 1)
    except zlib.error:
        raise ImageError("the archive is damaged here") from None


@dataclass(frozen=True)
class Later:
    """An image that is fetched when it is decoded, and not kept."""

    fetch: Callable[[], Path | bytes | Image.Image | NDArray[np.generic]]
    name: str
    stamp: str = ""  # by which a change of it is noticed without fetching it
    address: tuple[str | int, ...] = ()  # by which any process can fetch it (see `picture_at`); none for what is here


Picture: TypeAlias = (
    Path | Member | bytes | Image.Image | NDArray[np.generic] | Later | OSError  # the last: why it cannot be read
)

SPLITS = {  # the spellings of each split
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("val", "valid", "validation", "dev"), "val"),
    **dict.fromkeys(("test", "testing"), "test"),
}


def address_of(picture: Picture) -> str | tuple[str | int, ...] | None:
    """What another process needs to read a picture: a path, or numbers and names; None for what is in memory here."""
    if isinstance(picture, Member):
        archive, *rest = picture.address()
        return "member", str(Path(archive).absolute()), *rest
    if isinstance(picture, Later):
        return picture.address or None
    return str(picture.absolute()) if isinstance(picture, Path) else None


def picture_at(address: str | Sequence[str | int]) -> Picture:
    """The picture that has this address."""
    if isinstance(address, str):
        return Path(address)
    kind, *rest = address
    if kind == "member":
        return Member.at(cast("Address", tuple(rest)))
    if kind == "url":
        from yoro.data.remote_files import remote_image

        return remote_image(str(rest[0]))
    from yoro.data.parquet_files import row_image

    return row_image(str(rest[0]), int(rest[1]))


SHOWN = 5  # names shown in one note; the rest are counted


@dataclass(frozen=True)
class Example:
    """One image, where it came from and what is known of it.

    `image` is a path, a member of an archive, the bytes of an image file, a PIL image, or an array (height, width[,
    channels]) of uint8 or of floats in [0, 1]. Two examples are equal when all but the image is.
    """

    image: Picture = field(compare=False, repr=False)
    label: str | None
    name: str  # what users are shown: a path relative to the folder or list, or "item 3"
    group: str | None = None
    split: str | None = None  # train, val or test


@dataclass(frozen=True)
class Dataset:
    """Examples in a fixed order, their classes sorted by name, and notes on what was left out and why."""

    examples: tuple[Example, ...]
    notes: tuple[str, ...] = ()
    before: str = ""  # prefix that makes a relative name a path from the working directory
    integers: bool = False  # whether the labels were given as whole numbers

    @property
    def classes(self) -> list[str]:
        """Names of the classes, sorted; empty for unlabelled data."""
        return sorted({example.label for example in self.examples if example.label is not None})

    @property
    def splits(self) -> list[str]:
        """Names of the splits that have examples, sorted."""
        return sorted({example.split for example in self.examples if example.split is not None})

    def select(self, split: str) -> Dataset:
        """The examples of one split (any spelling of it), in the same order."""
        wanted = SPLITS.get(split, split)
        chosen = tuple(example for example in self.examples if example.split == wanted)
        if not chosen:
            found = ", ".join(self.splits) or "no split at all"
            raise InputError(f"The data has no split '{split}'; found: {found}. Splits are folders or a column.")
        return replace(self, examples=chosen)

    def from_here(self) -> Dataset:
        """The same under names by which the files can be found from here."""
        names = [e.name if Path(e.name).is_absolute() else self.before + e.name for e in self.examples]
        examples = tuple(replace(example, name=name) for example, name in zip(self.examples, names, strict=True))
        return replace(self, examples=examples, before="")

    def __len__(self) -> int:
        return len(self.examples)

    def __iter__(self) -> Iterator[Example]:
        return iter(self.examples)


class Ignored:
    """Collects what was left out, by reason, and reports it in short sentences."""

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = {}

    def add(self, reason: str, name: str) -> None:
        """Record `name` under a reason that completes "Ignored, ...:"."""
        self._names.setdefault(reason, []).append(name)

    def sentences(self) -> list[str]:
        """One sentence a reason, with the first few names and a count."""
        return [f"{reason}: {listed(names)}." for reason, names in self._names.items()]


def listed(names: Collection[str]) -> str:
    """The first few names in quotes, then how many more there are."""
    text = ", ".join(f"'{name}'" for name in sorted(names)[:SHOWN])
    rest = len(names) - SHOWN
    return f"{text} and {rest} more" if rest > 0 else text


def refuse_stray(found: Iterable[str], agreed: Collection[str]) -> None:
    """Raise if a class was found that is not among those that were agreed on."""
    if stray := sorted(set(found) - set(agreed)):
        raise InputError(f"Class {stray[0]!r} is not in the agreement; its classes are {listed(agreed)}.")


def shown(path: str | os.PathLike[str]) -> str:
    """A path as text that can be printed and stored, with slashes forward."""
    return storable(os.fspath(path)).replace(os.sep, "/")


def storable(text: str) -> str:
    """Text that can be printed and stored: invalid characters, such as undecodable bytes, are escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8", "replace")


def class_name(text: str) -> str:
    """The canonical spelling of a class: composed Unicode (macOS stores decomposed names), no outer blanks.

    It is empty if nothing of the name is visible.
    """
    name = unicodedata.normalize("NFC", storable(text)).strip()
    return name if any(c.isprintable() for c in name) else ""


def checked_label(text: str) -> str:
    """A label from a client in its canonical spelling; an InputError if it is empty or too long."""
    label = class_name(text)
    if not label or len(label) > limits.TAUGHT_LABEL:
        raise InputError(f"The label has {len(label):,} visible characters; expected 1 to {limits.TAUGHT_LABEL}.")
    return label


def natural_order(name: str) -> list[tuple[int, str]]:
    """A sort key for names as people count.

    >>> sorted(["10", "9", "img 2", "img 12", "Img 3"], key=natural_order)
    ['9', '10', 'img 2', 'Img 3', 'img 12']
    """
    parts = re.split(r"([0-9]+)", name.casefold())
    return [(len(part.lstrip("0")) if i % 2 else 0, part) for i, part in enumerate(parts)]
