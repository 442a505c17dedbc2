"""Decoding behind a fence: helper processes with memory and CPU limits set by the kernel, replaced when one dies.

They are started as plain processes, not by `multiprocessing`: they need nothing of the parent's memory or `__main__`,
so a script without an `if __name__ == "__main__"` guard works, and threads of ONNX Runtime in the parent are no danger.
A request is a line of JSON (geometry, names, and for each image a path, a place in an archive, or a number of bytes),
followed by these bytes. The answer is a line of JSON an image, followed by its pixels. An image over which the process
dies, or that takes too long, is reported as broken; a new process goes on with the next. This module imports numpy and
Pillow only.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yoro import limits
from yoro.data.archive_members import Member
from yoro.data.decoding import decode_and_digest
from yoro.data.examples import Picture
from yoro.data.geometry import Geometry
from yoro.environment import peak_memory
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


READY = b"ready\n"
RECYCLED_MEGABYTES = 256  # a process that has taken more is replaced, so that the memory returns
FileImage = Path | Member | bytes  # images whose bytes came from a file, so possibly from a stranger

_LIVE: weakref.WeakSet[DecodingProcess] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """End what an abandoned iteration left running, while threads can still be joined."""
    for process in list(_LIVE):
        process.close()


class DecodingProcess:
    """One decoding process, started when first needed; a thread of this process receives its answers meanwhile.

    Answers come in the order of the requests. Memory is bounded by the number of requests the caller leaves open.
    """

    def __init__(self) -> None:
        self._open: deque[_Request] = deque()  # not answered yet, the oldest first
        self._running: _Running | None = None
        _LIVE.add(self)

    @property
    def pid(self) -> int | None:
        """Process id, if it runs."""
        return None if self._running is None else self._running.process.pid

    def request(self, images: Sequence[FileImage], names: Sequence[str], geometry: Geometry) -> None:
        """Ask for one batch; returns at once."""
        if self._running is None:
            self._running = _Running()
        request = _Request(images, names, geometry)
        self._open.append(request)
        self._running.send(request)

    def answer(self) -> Decoded:
        """Wait for the oldest batch asked for."""
        request = self._open[0]
        while len(request.images) > request.done:
            assert self._running is not None
            try:
                part = self._running.parts.get(timeout=limits.DECODING_DEADLINE)
                cause = "" if part is not None else self._running.reason_of_death()
            except queue.Empty:
                part, cause = None, f"it was not decoded within {limits.DECODING_DEADLINE} seconds"
            if part is not None:
                request.add(part)
            else:
                self._replace(request, cause)
        self._open.popleft()
        if self._running is not None and not self._open and request.peak > RECYCLED_MEGABYTES:
            self.close()  # what a large image took goes back to the system
        return request.decoded()

    def close(self) -> None:
        """End the process now, whatever it does; safe to call twice."""
        if self._running is not None:
            self._running.close()
        self._running = None

    def _replace(self, request: _Request, cause: str) -> None:
        """Go on in a new process: with the next image if this one is to blame, with the same if it may not be."""
        if cause or request.tried == request.done:
            request.fail(cause or "the decoding process died over it twice")
        request.tried = request.done
        self.close()
        self._running = _Running()
        for one in self._open:
            if len(one.images) > one.done:
                self._running.send(one)


class _Request:
    """A batch: what was asked, and what has been answered of it so far."""

    def __init__(self, images: Sequence[FileImage], names: Sequence[str], geometry: Geometry) -> None:
        self.images, self.names, self.geometry = images, names, geometry
        self.done, self.peak = 0, 0
        self.tried = -1  # the image that a process died over for no known reason
        self._good: list[int] = []
        self._digests: list[str] = []
        self._failures: list[tuple[int, str]] = []
        self._pixels = np.empty((len(images), geometry.side, geometry.side, 3), dtype=np.uint8)

    def message(self) -> bytes:
        """What is still to be decoded, as it is sent."""
        images, names = self.images[self.done :], list(self.names[self.done :])
        places = [len(i) if isinstance(i, bytes) else i.address() if isinstance(i, Member) else str(i) for i in images]
        line = json.dumps({"geometry": self.geometry.config(), "images": places, "names": names})
        return b"".join([line.encode(), b"\n", *(image for image in images if isinstance(image, bytes))])

    def add(self, part: _Part) -> None:
        """The next image, decoded or not."""
        if part.pixels is None:
            self._failures.append((self.done, part.error))
        else:
            self._pixels[len(self._good)] = part.pixels.reshape(self._pixels.shape[1:])
            self._good.append(self.done)
            self._digests.append(part.digest)
        self.peak = max(self.peak, part.peak)
        self.done += 1

    def fail(self, cause: str) -> None:
        """The next image is the one that the process died over."""
        self._failures.append((self.done, f"'{self.names[self.done]}' cannot be read as an image: {cause}."))
        self.done += 1

    def decoded(self) -> Decoded:
        """All of it."""
        return Decoded(self._good, self._digests, self._failures, self._pixels[: len(self._good)])


class _Part(NamedTuple):
    """What a process says of one image."""

    digest: str
    error: str
    peak: int  # megabytes that the process has taken so far
    pixels: NDArray[np.uint8] | None


class _Running:
    """A process that runs, and the thread that receives its answers."""

    def __init__(self) -> None:
        self.parts: queue.SimpleQueue[_Part | None] = queue.SimpleQueue()  # None: the process has ended
        self.process = _start()
        self._input, self._output = _pipes(self.process)
        self._started = False
        self._thread = threading.Thread(target=self._receive, daemon=True, name="yoro-decoding")
        self._thread.start()

    def send(self, request: _Request) -> None:
        """Send a request; that the process is dead is noticed by `parts`."""
        with contextlib.suppress(BrokenPipeError):
            self._input.write(request.message())
            self._input.flush()

    def reason_of_death(self) -> str:
        """Why the process ended, if the image is to blame; a YoroError if it could not even start."""
        status = self.process.wait()
        if not self._started:
            raise YoroError(f"A decoding process ended with status {status} at its start; use workers=0.")
        if sys.platform != "win32" and status == -signal.SIGXCPU:
            return f"it takes more than {limits.DECODING_SECONDS} seconds of processor time to decode"
        return ""

    def close(self) -> None:
        """End the process now."""
        self.process.kill()
        self.process.wait()
        self._thread.join()
        for pipe in (self._input, self._output):
            with contextlib.suppress(OSError):
                pipe.close()

    def _receive(self) -> None:
        """Read answers until the process ends."""
        try:
            self._started = self._output.readline() == READY
            while line := self._output.readline():
                header, pixels = json.loads(line), None
                if header["bytes"]:
                    pixels = np.empty(header["bytes"], dtype=np.uint8)
                    if self._output.readinto(pixels.data) < pixels.nbytes:
                        break
                self.parts.put(_Part(header["digest"], header["error"], header["peak"], pixels))
        except (OSError, ValueError):
            pass  # the process died in the middle of a line
        self.parts.put(None)


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


@dataclass(frozen=True)
class Decoded:
    """A batch of images, decoded."""

    good: list[int]  # positions of those that could be read
    digests: list[str]  # of their contents
    failures: list[tuple[int, str]]  # positions of the others, and what is wrong with each
    pixels: NDArray[np.uint8]  # (good, side, side, 3)


def decode_all(images: Sequence[Picture], names: Sequence[str], geometry: Geometry) -> Decoded:
    """Decode a batch in this process."""
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
    return Decoded(good, digests, failures, pixels[: len(good)])


class DecoderPool:
    """Decoding processes for threads that each want an image now and then, as those of a server do."""

    def __init__(self, size: int) -> None:
        self._free: queue.LifoQueue[DecodingProcess] = queue.LifoQueue()
        for _ in range(size):
            self._free.put(DecodingProcess())

    def decode_and_digest(self, image: FileImage, geometry: Geometry, *, name: str) -> tuple[NDArray[np.uint8], str]:
        """`decoding.decode_and_digest` behind the fence; waits while all processes are busy."""
        process = self._free.get()
        try:
            process.request([image], [name], geometry)
            decoded = process.answer()
        finally:
            self._free.put(process)
        if decoded.failures:
            raise ImageError(decoded.failures[0][1])
        return decoded.pixels[0], decoded.digests[0]

    def close(self) -> None:
        """End the processes that wait; those at work are ended by whoever closes last."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._free.get_nowait().close()


def main() -> None:
    """Answer requests until stdin closes."""
    requests: queue.SimpleQueue[tuple[dict[str, Any], list[bytes]]] = queue.SimpleQueue()
    source = open(0, "rb", closefd=False)  # noqa: SIM115
    sink = open(1, "wb", closefd=False)  # noqa: SIM115
    threading.Thread(target=_receive, args=(source, requests), daemon=True).start()
    _limit_memory()
    sink.write(READY)
    sink.flush()
    while True:
        request, contents = requests.get()
        geometry, given = Geometry.from_config(request["geometry"]), iter(contents)
        for place, name in zip(request["images"], request["names"], strict=True):
            image = (
                next(given) if isinstance(place, int) else Path(place) if isinstance(place, str) else Member.at(place)
            )
            _limit_seconds()
            digest, error, pixels = "", "", None
            try:
                pixels, digest = decode_and_digest(image, geometry, name=name)
            except ImageError as problem:
                error = str(problem)
            size = 0 if pixels is None else pixels.nbytes
            header = {"digest": digest, "error": error, "bytes": size, "peak": round(peak_memory())}
            sink.write(json.dumps(header).encode() + b"\n")
            if pixels is not None:
                sink.write(np.ascontiguousarray(pixels).data)
            sink.flush()


def _file_at(place: object) -> Path | Member:
    return Path(place) if isinstance(place, str) else Member.at(place)


def _limit_memory() -> None:
    """Let the kernel refuse memory beyond what this process has taken so far and one image may take."""
    if sys.platform != "linux":  # elsewhere the limit does not count what is mapped, or is not kept
        return
    import resource

    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + limits.DECODING_MEMORY,) * 2)


def _limit_seconds() -> None:
    """Let the kernel end this process if the next image takes more processor time than one image may."""
    if sys.platform == "win32":
        return
    import resource

    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + 1 + limits.DECODING_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _receive(source: BinaryIO, requests: queue.SimpleQueue[tuple[dict[str, Any], list[bytes]]]) -> None:
    """Keep stdin drained, so that the parent never waits to write; its end is the end of this process, at once."""
    while line := source.readline():
        request = json.loads(line)
        requests.put((request, [source.read(place) for place in request["images"] if isinstance(place, int)]))
    os._exit(0)
