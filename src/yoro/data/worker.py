"""The decoding process: paths in by stdin, pixels out by stdout, gone as soon as its parent is.

Started as a plain process, not by `multiprocessing`: it needs nothing of the parent's memory or `__main__`, so a script
without an `if __name__ == "__main__"` guard works, and threads of ONNX Runtime in the parent are no danger.
Each request is a line of JSON: first the geometry, then one list of paths a batch. Each answer is a line of JSON
(which paths were read, their digests, failures), followed by the pixels. Imports numpy and Pillow only.
"""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from yoro.data.decoding import decode_and_digest
from yoro.data.examples import Picture
from yoro.data.geometry import Geometry
from yoro.errors import ImageError

Answer = tuple[list[int], list[str], list[tuple[int, str]], NDArray[np.uint8]]


def decode_all(images: Sequence[Picture], names: Sequence[str], geometry: Geometry) -> Answer:
    """Positions read, their digests, failures (position, message), and pixels (read, side, side, 3)."""
    pixels = np.empty((len(images), geometry.side, geometry.side, 3), dtype=np.uint8)
    good: list[int] = []
    digests: list[str] = []
    failures: list[tuple[int, str]] = []
    for position, (image, name) in enumerate(zip(images, names, strict=True)):
        try:
            pixels[len(good)], content = decode_and_digest(image, geometry, name=name)
        except ImageError as error:
            failures.append((position, str(error)))
        else:
            good.append(position)
            digests.append(content)
    return good, digests, failures, pixels[: len(good)]


def main() -> None:
    """Answer requests until stdin closes."""
    requests: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    source = open(0, "rb", closefd=False)  # noqa: SIM115
    sink = open(1, "wb", closefd=False)  # noqa: SIM115
    geometry = Geometry.from_config(json.loads(source.readline()))
    threading.Thread(target=_receive, args=(source, requests), daemon=True).start()
    while True:
        request = json.loads(requests.get())
        paths = [Path(path) for path in request["paths"]]
        good, digests, failures, pixels = decode_all(paths, request["names"], geometry)
        header = {"good": good, "digests": digests, "failures": failures}
        sink.write(json.dumps(header).encode() + b"\n")
        if good:
            sink.write(pixels.data)
        sink.flush()


def _receive(source: BinaryIO, requests: queue.SimpleQueue[bytes]) -> None:
    """Keep stdin drained, so that the parent never waits to write; its end is the end of this process, at once."""
    while line := source.readline():
        requests.put(line)
    os._exit(0)
