"""A file within an archive, read where it lies."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from yoro import limits
from yoro.errors import ImageError

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
        most = limits.IMAGE_FILE_BYTES
        if max(self.size, self.packed) > most:
            raise ImageError(f"the file has {max(self.size, self.packed)} bytes, more than {most}")
        if self.size == 0:
            raise ImageError("the file is empty")
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


def _inflated(content: bytes, size: int) -> bytes:
    """At most one byte more than the size that was promised."""
    try:
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(content, size + 1)
    except zlib.error:
        raise ImageError("the archive is damaged here") from None
