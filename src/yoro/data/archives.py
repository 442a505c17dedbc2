"""Zip and tar archives of images, read in place: nothing is unpacked into a folder, and no link is followed."""

from __future__ import annotations

import bz2
import gzip
import os
import stat
import tarfile
import tempfile
import weakref
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from yoro import limits
from yoro.data.examples import DEFLATED, STORED, Ignored, Member, Picture, shown
from yoro.data.file_trees import Node
from yoro.errors import InputError, explaining

PACKINGS: dict[str, Callable[[Path], IO[bytes]] | None] = {  # by suffix; None: nothing is packed as a whole
    ".tar": None,
    ".tar.gz": cast("Callable[[Path], IO[bytes]]", gzip.open),
    ".tgz": cast("Callable[[Path], IO[bytes]]", gzip.open),
    ".tar.bz2": cast("Callable[[Path], IO[bytes]]", bz2.open),
    ".tbz2": cast("Callable[[Path], IO[bytes]]", bz2.open),
}
ZIP = ".zip"
OTHER = (".rar", ".7z", ".tar.xz", ".txz", ".tar.zst", ".gz", ".xz", ".zst", ".bz2")  # known, and not read
CHUNK = 1 << 20
INDEX_ENTRIES, INDEX_BYTES = 4, 5  # places in what zipfile knows of the end of an archive

LEADS_OUT = "Ignored, a path that leads out of the archive"
NOT_REGULAR = "Ignored, not a regular file in the archive (such as a link)"

Found = tuple[str, Picture | None]  # a name, and what to read; None for what is not a regular file


def is_archive(path: Path) -> bool:
    """Whether a file name has the suffix of an archive that can be read."""
    return _packing(path) is not None


def is_other_archive(path: Path) -> bool:
    """Whether a file name has the suffix of an archive that cannot be read."""
    return path.name.lower().endswith(OTHER)


def read_tree(path: Path, ignored: Ignored) -> Node:
    """The folders and files of an archive; no file is unpacked yet.

    What the archive declares is bounded by `limits` before memory is taken for it.
    """
    root, nodes, letters = Node("", "", folder=True), 0, 0
    with explaining(InputError, f"'{shown(path)}' cannot be read as an archive"):
        for name, picture in archive_files(path):
            letters += len(name)
            if len(name) > limits.PACKED_NAME or letters > limits.PACKED_INDEX_BYTES:
                raise InputError(f"'{shown(path)}' has file names that are too long, such as '{shown(name[:60])}...'.")
            parts = name.replace("\\", "/").split("/")
            if ".." in parts or parts[0] == "" or ":" in parts[0]:
                ignored.add(LEADS_OUT, shown(name))
                continue
            here = root
            for part in parts:
                if part in ("", "."):
                    continue
                nodes += part not in here.inside
                here = here.within(part)
            if nodes > limits.PACKED_MEMBERS:
                raise InputError(f"'{shown(path)}' holds more than {limits.PACKED_MEMBERS:,} files and folders.")
            if picture is None and not name.endswith("/"):
                ignored.add(NOT_REGULAR, shown(name))
            here.folder = here.folder or name.endswith("/")
            here.picture = picture
    return root


def _packing(path: Path) -> str | None:
    name = path.name.lower()
    return next((suffix for suffix in (ZIP, *PACKINGS) if name.endswith(suffix)), None)


def archive_files(path: Path) -> Iterator[Found]:
    """The files of an archive in its order, with their names as it has them."""
    packing = _packing(path)
    if packing == ZIP:
        return _in_zip(path)
    opener = PACKINGS[packing or ".tar"]
    return tar_files(path) if opener is None else tar_files(*_unpacked(path, opener))


def _in_zip(path: Path) -> Iterator[Found]:
    size = path.stat().st_size
    with path.open("rb") as file:
        end = zipfile._EndRecData(file)  # type: ignore[attr-defined]  # the very record that ZipFile goes by
        if end is None:
            raise InputError(f"'{shown(path)}' is not a zip archive, or is incomplete; download it again.")
        if end[INDEX_BYTES] > limits.PACKED_INDEX_BYTES or end[INDEX_ENTRIES] > limits.PACKED_MEMBERS:
            raise InputError(f"'{shown(path)}' lists more than {limits.PACKED_MEMBERS:,} files, or too long names.")
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    _check_total(path, sum(entry.file_size for entry in entries), size)
    for entry in entries:
        yield entry.filename, None if entry.is_dir() else _picture_in_zip(path, entry)


def _picture_in_zip(path: Path, entry: zipfile.ZipInfo) -> Picture | None:
    mode = entry.external_attr >> 16  # of Unix; zero where the archive was made elsewhere
    if mode and stat.S_IFMT(mode) not in (0, stat.S_IFREG):
        return None
    if entry.flag_bits & 1:
        return OSError("it is encrypted; unpack the archive with its password")
    if entry.compress_type not in (STORED, DEFLATED):
        return OSError(f"it uses compression method {entry.compress_type}, which is not supported; unpack the archive")
    return Member(
        path, entry.header_offset, entry.compress_size, entry.file_size, entry.compress_type, entry.CRC
    )  # fmt: skip


def tar_files(plain: Path, keep: object = None, start: int = 0) -> Iterator[Found]:
    """The files of a tar whose bytes are as they are; it may begin within its file."""
    with plain.open("rb") as file:
        file.seek(start)
        archive = tarfile.open(fileobj=cast("IO[bytes]", _Headers(file)), mode="r:")  # noqa: SIM115  it holds nothing
        while (entry := archive.next()) is not None:
            archive.members = []  # type: ignore[attr-defined]  # it would keep them all
            name = entry.name + ("/" if entry.isdir() else "")
            regular = entry.isreg() and not entry.issparse()
            yield name, Member(plain, entry.offset_data, entry.size, entry.size, keep=keep) if regular else None


class _Headers:
    """A tar file from which only headers of a bounded length can be read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= CHUNK:
            raise InputError("The archive has a name or a header that is too long.")
        return self._file.read(size)


def _unpacked(path: Path, opener: Callable[[Path], IO[bytes]]) -> tuple[Path, object]:
    """A tar without the packing around it, and what holds it: when that is gone, so is the file."""
    spool, size, total = Spool(), path.stat().st_size, 0
    with opener(path) as packed:
        while chunk := packed.read(CHUNK):
            total += len(chunk)
            _check_total(path, total, size)
            spool.file.write(chunk)
    spool.file.flush()
    return spool.path, spool


class Spool:
    """A temporary file, where the system allows it without a name, so that nothing is left of it after a kill."""

    def __init__(self) -> None:
        self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.path = Path(f"/proc/{os.getpid()}/fd/{self.file.fileno()}")
        if not self.path.exists():
            self.file.close()
            named = tempfile.NamedTemporaryFile(suffix=".tar")  # noqa: SIM115
            self.file, self.path = cast("IO[bytes]", named), Path(named.name)
        weakref.finalize(self, self.file.close)


def _check_total(path: Path, total: int, size: int) -> None:
    """Refuse a decompression bomb; a small archive may have any ratio."""
    if total > limits.PACKED_BYTES or total > limits.PACKED_RATIO * size + limits.IMAGE_FILE_BYTES:
        raise InputError(
            f"'{shown(path)}' has {size:,} bytes but would unpack to {total:,} or more. "
            "If you trust it, unpack it yourself and give the folder."
        )
