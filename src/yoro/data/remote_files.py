"""Files at URLs, by fsspec: folders of images as a tree, single images, and files of any kind opened to be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from yoro import limits
from yoro.data.examples import Later, shown
from yoro.data.file_trees import Packed
from yoro.environment import install
from yoro.errors import ImageError, InputError, YoroError, one_line


def is_url(place: object) -> bool:
    """Whether data are at a URL, not at a path of this machine."""
    return isinstance(place, str) and "://" in place


def file_system(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path in it."""
    try:
        import fsspec
    except ImportError:
        raise InputError(f"{url} is a URL, and reading those needs fsspec: {install('data')}.") from None
    try:
        system, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:  # a protocol that it does not know, or whose package is not installed
        raise InputError(f"{url} cannot be opened: {one_line(error)}") from error
    return system, str(path)


@contextmanager
def opened(place: str) -> Iterator[IO[bytes]]:
    """The bytes of a path or URL."""
    if not is_url(place):
        with Path(place).open("rb") as file:
            yield file
        return
    system, path = file_system(place)
    with system.open(path, "rb") as stream:
        yield stream


def stamp_of(place: str) -> str:
    """Size and time of a file or object: if it changes, so does this."""
    try:
        if not is_url(place):
            found = Path(place).stat()
            return f"{found.st_size} {found.st_mtime_ns}"
        system, path = file_system(place)
        return _stamp(system.info(path))
    except YoroError:
        raise
    except Exception as error:  # every system behind fsspec has errors of its own
        raise InputError(f"{place} cannot be read: {type(error).__name__}: {one_line(error)}") from error


def _stamp(facts: Mapping[str, object]) -> str:
    return f"{facts.get('size')} {facts.get('ETag') or facts.get('mtime') or facts.get('LastModified')}"


def fetch(url: str) -> bytes:
    """The bytes of an image at a URL."""
    try:
        with opened(url) as file:
            content = file.read(limits.IMAGE_FILE_BYTES + 1)
    except Exception as error:  # as above
        raise ImageError(f"{url} cannot be read: {one_line(error)}") from error
    if len(content) > limits.IMAGE_FILE_BYTES:
        raise ImageError(f"{url} has more than {limits.IMAGE_FILE_BYTES:,} bytes")
    return bytes(content)


def remote_image(url: str, stamp: str = "") -> Later:
    """An image at a URL, fetched when it is decoded."""
    here = url.startswith("memory:")  # fsspec's files in memory are those of this process
    return Later(partial(fetch, url), url, stamp, () if here else ("url", url))


def remote_tree(url: str) -> Packed:
    """The folders and files below a URL; a URL of one file is a tree that has a picture itself."""
    system, root = file_system(url)
    try:
        found: Mapping[str, Mapping[str, object]] = system.find(root, detail=True)
    except Exception as error:  # as above
        raise InputError(f"{url} cannot be listed: {type(error).__name__}: {one_line(error)}") from error
    if not found:
        raise InputError(f"{url} does not exist, or holds no files.")
    if len(found) > limits.PACKED_MEMBERS:
        raise InputError(f"{url} holds more than {limits.PACKED_MEMBERS:,} files.")
    top, before = root.rstrip("/"), url.rstrip("/").rpartition("/")[2]
    tree = Packed(before, "", folder=True)
    for path, facts in found.items():
        here = tree
        for step in str(path).removeprefix(top).strip("/").split("/"):
            here = here.within(shown(step)) if step else here
        here.picture = remote_image(str(system.unstrip_protocol(path)), _stamp(facts))
    return tree
