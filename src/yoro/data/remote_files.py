"""Files at URLs, by fsspec: folders of images as a tree, single images, and files of any kind opened to be read."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from yoro import limits
from yoro.data.examples import Later, shown
from yoro.data.file_trees import Node
from yoro.environment import install
from yoro.errors import ImageError, InputError, UnreachableError, YoroError, one_line

WAITS = (1, 2, 4, 8, 15, 30)  # seconds before the next attempt: what restarts is mostly back within a minute
AWAY = {  # kinds of errors, of Python and of what is behind fsspec, that say nothing of a file
    "ConnectionError", "TimeoutError", "gaierror", "HTTPClientError", "ClientConnectionError", "ClientPayloadError",
    "ServiceRequestError", "ServiceResponseError", "FlexibleChecksumError", "IncompleteReadError", "UnreachableError",
}  # fmt: skip
AWAY_ERRNO = {errno.EBUSY, errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH}

T = TypeVar("T")


def is_url(place: object) -> bool:
    """Whether data are at a URL, not at a path of this machine."""
    return isinstance(place, str) and "://" in place


def in_storage(place: str) -> bool:
    """Whether data are in storage that should always answer; of links to the web, some are always dead."""
    return is_url(place) and not place.startswith("http")


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
        raise unreadable(place, error) from error


def is_away(error: BaseException) -> bool:
    """Whether an error says that storage does not answer, and nothing of the file that was asked for."""
    status = getattr(error, "status", None) or getattr(error, "code", None)
    return (
        any(kind.__name__ in AWAY for kind in type(error).__mro__)
        or (isinstance(error, OSError) and error.errno in AWAY_ERRNO)
        or (isinstance(status, int) and status >= 500)
    )


def unreadable(place: str, error: BaseException, expected: str = "") -> InputError:
    """The error of a file that cannot be read (`expected`: as what), by its own fault or that of its storage."""
    why = f"{type(error).__name__}: {one_line(error)}"
    if is_url(place) and is_away(error):
        return UnreachableError(f"{place} cannot be reached: {why.rstrip('.')}. Is its storage running?")
    return InputError(f"{place} cannot be read{f' as {expected}' if expected else ''}: {why}")


def patiently(attempt: Callable[[], T]) -> T:
    """What an attempt gives; while storage does not answer, it is repeated for a minute."""
    for wait in WAITS:
        try:
            return attempt()
        except UnreachableError:
            time.sleep(wait)
    return attempt()


def _stamp(facts: Mapping[str, object]) -> str:
    return f"{facts.get('size')} {facts.get('ETag') or facts.get('mtime') or facts.get('LastModified')}"


def fetch(url: str) -> bytes:
    """The bytes of an image at a URL."""
    try:
        with opened(url) as file:
            content = file.read(limits.IMAGE_FILE_BYTES + 1)
    except Exception as error:  # as above
        if in_storage(url) and is_away(error):
            raise unreadable(url, error) from error
        raise ImageError(f"{url} cannot be read: {one_line(error)}") from error
    if len(content) > limits.IMAGE_FILE_BYTES:
        raise ImageError(f"{url} has more than {limits.IMAGE_FILE_BYTES:,} bytes")
    return bytes(content)


def remote_image(url: str, stamp: str = "") -> Later:
    """An image at a URL, fetched when it is decoded."""
    here = url.startswith("memory:")  # fsspec's files in memory are those of this process
    return Later(partial(fetch, url), url, stamp, () if here else ("url", url))


def remote_tree(url: str) -> Node:
    """The folders and files below a URL; a URL of one file is a tree that has a picture itself."""
    system, root = file_system(url)
    try:
        found: Mapping[str, Mapping[str, object]] = system.find(root, detail=True)
    except Exception as error:  # as above
        raise unreadable(url, error) from error
    if not found:
        raise InputError(f"{url} does not exist, or holds no files.")
    if len(found) > limits.PACKED_MEMBERS:
        raise InputError(f"{url} holds more than {limits.PACKED_MEMBERS:,} files.")
    top, before = root.rstrip("/"), url.rstrip("/").rpartition("/")[2]
    tree = Node(before, "", folder=True)
    for path, facts in found.items():
        here = tree
        for step in str(path).removeprefix(top).strip("/").split("/"):
            here = here.within(shown(step)) if step else here
        here.picture = remote_image(str(system.unstrip_protocol(path)), _stamp(facts))
    return tree
