"""What a decoding process does: requests from stdin, pixels to stdout, limits of the kernel around each image.

`yoro.data.processes` starts it and says what a request and an answer are. It imports numpy and Pillow only, unless
images are in Parquet files or at URLs.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from PIL import UnidentifiedImageError

from yoro.data.decoding import decode_and_digest
from yoro.data.examples import Later, Picture, picture_at
from yoro.data.geometry import Geometry
from yoro.environment import peak_memory
from yoro.errors import ImageError, UnreachableError

READY = b"ready\n"  # said once it can take requests


def main() -> None:
    """Answer requests until stdin closes."""
    requests: queue.SimpleQueue[tuple[dict[str, Any], list[bytes]]] = queue.SimpleQueue()
    source = open(0, "rb", closefd=False)  # noqa: SIM115
    sink = open(1, "wb", closefd=False)  # noqa: SIM115
    threading.Thread(target=_receive, args=(source, requests), daemon=True).start()
    sink.write(READY)
    sink.flush()
    while True:
        request, contents = requests.get()
        wanted = [Geometry.from_config(request[key]) for key in ("geometry", "small") if request[key]]
        given = iter(contents)
        for place, name in zip(request["images"], request["names"], strict=True):
            image = next(given) if isinstance(place, int) else picture_at(place)
            content, error, more, away, squares = "", "", False, False, list[NDArray[np.uint8]]()
            started = time.process_time()
            try:
                image = _fetched(image, name)
                with _limits(*request["fence"]):
                    squares, content = decode_and_digest(image, *wanted, name=name)
            except UnreachableError as problem:
                error, away = str(problem), True
            except ImageError as problem:
                error, more = str(problem), not isinstance(problem.__cause__, ImageError | UnidentifiedImageError)
            size = sum(square.nbytes for square in squares)
            seconds = time.process_time() - started
            header = {"digest": content, "error": error, "bytes": size, "peak": round(peak_memory())}
            header |= {"more": more, "away": away, "seconds": seconds}
            sink.write(json.dumps(header).encode() + b"\n")
            for square in squares:
                sink.write(np.ascontiguousarray(square).data)
            sink.flush()


def _fetched(image: Picture, name: str) -> Picture:
    """The bytes of an image at a URL or in Parquet, fetched before limits are set; a missing one is an ImageError."""
    if not isinstance(image, Later):
        return image
    try:
        return image.fetch()
    except UnreachableError:
        raise
    except Exception as error:  # a stranger's file or host can raise anything
        raise ImageError(f"'{name}' cannot be read: {type(error).__name__}: {error}.") from error


@contextlib.contextmanager
def _limits(memory: int, seconds: int) -> Iterator[None]:
    """Limits by the kernel for decoding one image: on bytes beyond what is taken now, and on processor time."""
    if sys.platform == "win32":
        yield
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = {resource.RLIMIT_CPU: int(used.ru_utime + used.ru_stime) + 1 + seconds}
    if sys.platform == "linux":  # elsewhere the limit does not count what is mapped
        taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        soft[resource.RLIMIT_AS] = taken + memory
    before = {kind: resource.getrlimit(kind) for kind in soft}
    for kind, most in soft.items():
        hard = before[kind][1]
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
    try:
        yield
    finally:
        for kind, limit in before.items():
            resource.setrlimit(kind, limit)


def _receive(source: BinaryIO, requests: queue.SimpleQueue[tuple[dict[str, Any], list[bytes]]]) -> None:
    """Keep stdin drained, so that the parent never waits to write; its end is the end of this process, at once."""
    while line := source.readline():
        request = json.loads(line)
        requests.put((request, [source.read(place) for place in request["images"] if isinstance(place, int)]))
    os._exit(0)
