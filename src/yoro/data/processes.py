"""Decoding processes: paths in by stdin, pixels out by stdout, gone as soon as their parent is.

They are started as plain processes, not by `multiprocessing`: they need nothing of the parent's memory or `__main__`,
so a script without an `if __name__ == "__main__"` guard works, and threads of ONNX Runtime in the parent are no danger.
Each request is a line of JSON: first the geometry, then one list of addresses a batch. Each answer
is a line of JSON (which were read, their digests, failures), followed by the pixels. This module imports numpy and
Pillow only, unless images are in Parquet files or at URLs.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Sequence
from io import BufferedReader
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np
from numpy.typing import NDArray

from yoro.data.decoding import decode_and_digest
from yoro.data.examples import Picture, picture_at
from yoro.data.geometry import Geometry
from yoro.errors import ImageError, YoroError

# Run isolated (-I), so that nothing in the working directory is imported; what the parent can import comes after the
# interpreter's own, and this package from the place where the parent has it.
_START = """
import sys
sys.path += [path for path in sys.argv[2:] if path not in sys.path]
import importlib.util, os, signal
getattr(os, "nice", int)(10)  # decoding takes what the forward pass leaves; starved, that leaves everything
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
home, load = sys.argv[1], importlib.util.spec_from_file_location
spec = load("yoro", os.path.join(home, "__init__.py"), submodule_search_locations=[home])
sys.modules["yoro"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["yoro"])
from yoro.data.processes import main
main()
"""
_PIPE_BYTES = 1 << 20  # Linux: at 64 kB, the default, moving a batch takes twice the time
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ


_LIVE: weakref.WeakSet[DecodingProcess] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """End what an abandoned iteration left running, while threads can still be joined."""
    for process in list(_LIVE):
        process.close()


class DecodingProcess:
    """One decoding process; a thread of this process receives its answers while the caller computes.

    Answers come in the order of the requests. Memory is bounded by the number of requests the caller leaves open.
    """

    def __init__(self, geometry: Geometry) -> None:
        self._side = geometry.side
        self._answers: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        self._process = _start()
        self._input, self._output = _pipes(self._process)
        self._thread = threading.Thread(target=self._receive, daemon=True, name="yoro-decoding")
        self._thread.start()
        self._send(geometry.config())
        _LIVE.add(self)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    def request(self, addresses: Sequence[str | tuple[str | int, ...]], names: Sequence[str]) -> None:
        """Ask for one batch by the addresses of its pictures; returns at once."""
        self._send({"addresses": addresses, "names": list(names)})

    def answer(self, batch: str) -> Answer:
        """Wait for the oldest batch asked for; `batch` names it if the process died over it."""
        answer = self._answers.get()
        if answer is None:
            self._answers.put(None)
            status = self._process.wait()
            cause = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
            raise YoroError(
                f"A decoding process {cause} while reading {batch}. If memory ran out, use fewer workers; "
                f"with workers=0 the images are read in this process and the cause is shown."
            )
        return answer

    def close(self) -> None:
        """End the process now, whatever it does; safe to call twice."""
        self._process.kill()
        self._process.wait()
        self._thread.join()
        for pipe in (self._input, self._output):
            with contextlib.suppress(OSError):
                pipe.close()

    def _send(self, message: object) -> None:
        with contextlib.suppress(BrokenPipeError):  # a dead process is reported by `answer`
            self._input.write(json.dumps(message).encode() + b"\n")
            self._input.flush()

    def _receive(self) -> None:
        """Read answers until the process ends."""
        try:
            while line := self._output.readline():
                header = json.loads(line)
                pixels = np.empty((len(header["good"]), self._side, self._side, 3), dtype=np.uint8)
                if pixels.size and self._output.readinto(pixels.data) < pixels.nbytes:
                    break
                failures = [(position, message) for position, message in header["failures"]]
                self._answers.put((header["good"], header["digests"], failures, pixels))
        except (OSError, ValueError):
            pass  # the process died in the middle of a line
        self._answers.put(None)


def _start() -> subprocess.Popen[bytes]:
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # decoding uses none
    home, here = Path(__file__).resolve().parents[1], str(Path.cwd())
    paths = [path for path in sys.path if isinstance(path, str) and path and os.path.realpath(path) != here]
    command = [sys.executable, "-I", "-c", _START, str(home), *paths]
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # libtiff and others talk there
            env={**os.environ, **single},
        )
    except OSError as error:
        raise YoroError(f"No decoding process could be started ({error}); use workers=0.") from error


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], BufferedReader]:
    if process.stdin is None or not isinstance(process.stdout, BufferedReader):
        raise YoroError("A decoding process has no pipes; use workers=0.")
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):  # beyond the user's quota: slower, not wrong
            fcntl.fcntl(process.stdout.fileno(), _SET_PIPE_SIZE, _PIPE_BYTES)
    return process.stdin, process.stdout


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
        files = [picture_at(address) for address in request["addresses"]]
        good, digests, failures, pixels = decode_all(files, request["names"], geometry)
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
