"""Decoding in helper processes, whose memory and CPU time the kernel limits; one that dies is replaced.

They are started as plain processes, not by `multiprocessing`: they need nothing of the parent's memory or `__main__`,
so a script without an `if __name__ == "__main__"` guard works, and threads of ONNX Runtime in the parent are no danger.
A request is a line of JSON (geometry, names, and for each image its address or its number of bytes), followed by these
bytes. The answer is a line of JSON per image, followed by its pixels. An image over which the process dies, or that
takes too long, is reported as broken; a new process goes on with the next. The process itself is `decoding_worker`.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yoro import limits
from yoro.data.decoding import decode, decode_and_digest
from yoro.data.decoding_worker import READY
from yoro.data.examples import Picture, address_of
from yoro.data.geometry import Geometry
from yoro.data.remote_files import WAITS, in_storage
from yoro.errors import ImageError, UnreachableError, YoroError

# Run isolated (-I), so that nothing in the working directory is imported; what the parent can import comes after the
# interpreter's own, and this package from the place where the parent has it.
_START = """
import sys
sys.path += [path for path in sys.argv[2:] if path not in sys.path]
import importlib.util, os, signal
getattr(os, "nice", int)(int(sys.argv.pop(1)))
try:
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))  # preempts no other thread, which keeps its caches warm
except (AttributeError, OSError):
    pass
signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
home, load = sys.argv[1], importlib.util.spec_from_file_location
spec = load("yoro", os.path.join(home, "__init__.py"), submodule_search_locations=[home])
sys.modules["yoro"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules["yoro"])
from yoro.data.decoding_worker import main
main()
"""
BEHIND = 10  # niceness: decoding gets the CPU time that the forward pass leaves
AHEAD = 2  # images that a process of a pool has at once: it need not wait for the next
_PIPE_BYTES = 1 << 20  # Linux: at 64 kB, the default, moving a batch takes twice the time
_SET_PIPE_SIZE = 1031  # F_SETPIPE_SZ


class Fence(NamedTuple):
    """Limits on decoding one image, enforced by the kernel."""

    memory: int  # bytes
    seconds: int  # of processor time


WHOLE = Fence(limits.DECODING_MEMORY, limits.DECODING_SECONDS)
QUICK = Fence(limits.QUICK_MEMORY, limits.QUICK_SECONDS)
RECYCLED_MEGABYTES = 256  # a process that has taken more is replaced, so that the memory returns
Sent = str | tuple[str | int, ...] | bytes  # an image as it is sent: its address, or the bytes of its file

_LIVE: weakref.WeakSet[DecodingProcess] = weakref.WeakSet()
_KEPT: dict[
    int, DecodingProcess
] = {}  # one that waits for the next pass, by the process that started it: a fork has its own


@atexit.register
def _close_all() -> None:
    """End what an abandoned iteration left running, while threads can still be joined."""
    for process in list(_LIVE):
        process.close()


class DecodingProcess:
    """One decoding process, started when first needed; a thread of this process receives its answers meanwhile.

    Answers come in the order of the requests. Memory is bounded by the number of requests the caller leaves open.
    """

    def __init__(self, niceness: int = BEHIND) -> None:
        self._niceness = niceness
        self._open: deque[_Request] = deque()  # not answered yet, the oldest first
        self._running: _Running | None = None
        _LIVE.add(self)

    @property
    def waiting(self) -> bool:
        """Whether batches that were asked for have not been taken."""
        return bool(self._open)

    @property
    def pid(self) -> int | None:
        """Process id, if it runs."""
        return None if self._running is None else self._running.process.pid

    def request(
        self, images: Sequence[Sent], names: Sequence[str], geometry: Geometry, small: Geometry | None = None,
        fence: Fence = WHOLE,
    ) -> None:  # fmt: skip
        """Ask for one batch, with a smaller square of each image to show if `small` says so; returns at once."""
        if self._running is None:
            self._running = _Running(self._niceness)
        request = _Request(images, names, geometry, small, fence)
        self._open.append(request)
        self._running.send(request)

    def answer(self) -> Decoded:
        """Wait for the oldest batch asked for."""
        request = self._open[0]
        while len(request.images) > request.done:
            assert self._running is not None
            away = ""
            try:
                part = self._running.parts.get(timeout=limits.DECODING_DEADLINE)
                cause = "" if part is not None else self._running.reason_of_death(request.fence)
                away = part.error if part is not None and part.away else ""
            except queue.Empty:
                part, cause = None, f"it was not decoded within {limits.DECODING_DEADLINE} seconds"
                away = request.awaited()
            if away:
                self._wait(request, away)
            elif part is not None:
                request.add(part)
            else:
                self._replace(request, cause)
        self._open.popleft()
        if self._running is not None and not self._open and request.peak > RECYCLED_MEGABYTES:
            self.close()  # what a large image took goes back to the system
        return request.decoded()

    def decode(
        self, image: Sent, name: str, geometry: Geometry, small: Geometry | None = None, fence: Fence = WHOLE
    ) -> Decoded:
        """The image of a file, alone."""
        self.request([image], [name], geometry, small, fence)
        return self.answer()

    def close(self) -> None:
        """End the process now, whatever it does; safe to call twice."""
        if self._running is not None:
            self._running.close()
        self._running = None

    def _replace(self, request: _Request, cause: str) -> None:
        """Go on in a new process: with the next image if this one is to blame, with the same if it may not be."""
        if cause or request.fence == QUICK or request.tried == request.done:
            request.fail(cause or "it crashed the decoding process twice")
        request.tried = request.done
        self._restart()

    def _wait(self, request: _Request, why: str) -> None:
        """Ask again in a new process after a pause; in the end, raise UnreachableError."""
        if (seconds := next(request.waits, None)) is None:
            self.close()
            self._open.clear()
            raise UnreachableError(why)
        time.sleep(seconds)
        self._restart()

    def _restart(self) -> None:
        """Send what is still to be decoded to a new process."""
        self.close()
        self._running = _Running(self._niceness)
        for one in self._open:
            if len(one.images) > one.done:
                self._running.send(one)


class _Request:
    """A batch: what was asked, and what has been answered of it so far."""

    def __init__(
        self, images: Sequence[Sent], names: Sequence[str], geometry: Geometry, small: Geometry | None, fence: Fence
    ) -> None:
        self.images, self.names, self._geometry, self._small, self.fence = images, names, geometry, small, fence
        self.done, self.peak = 0, 0
        self._more, self._seconds = False, 0.0
        self.waits = iter(WAITS)
        self.tried = -1  # the image that a process died over for no known reason
        self._good: list[int] = []
        self._digests: list[str] = []
        self._failures: list[tuple[int, str]] = []
        self._smalls: list[NDArray[np.uint8]] = []
        self._pixels = np.empty((len(images), geometry.side, geometry.side, 3), dtype=np.uint8)

    def message(self) -> bytes:
        """What is still to be decoded, as it is sent."""
        images, names = self.images[self.done :], list(self.names[self.done :])
        places = [len(image) if isinstance(image, bytes) else image for image in images]
        line = json.dumps(
            {
                "geometry": self._geometry.config(),
                "small": self._small and self._small.config(),
                "fence": self.fence,
                "images": places,
                "names": names,
            }
        )
        return b"".join([line.encode(), b"\n", *(image for image in images if isinstance(image, bytes))])

    def awaited(self) -> str:
        """What to say if the next image does not come from its storage; nothing of one that lies here."""
        image = self.images[self.done]
        place = str(image[1]) if isinstance(image, tuple) else ""
        seconds = limits.DECODING_DEADLINE
        return f"{place} cannot be reached: nothing came for {seconds} seconds." if in_storage(place) else ""

    def add(self, part: _Part) -> None:
        """The next image, decoded or not."""
        self._more |= part.more
        self._seconds += part.seconds
        if part.pixels is None:
            self._failures.append((self.done, part.error))
        else:
            square, rest = np.split(part.pixels, [self._pixels[0].nbytes])
            self._pixels[len(self._good)] = square.reshape(self._pixels.shape[1:])
            if self._small is not None:
                self._smalls.append(rest.reshape(self._small.side, self._small.side, 3))
            self._good.append(self.done)
            self._digests.append(part.digest)
        self.peak = max(self.peak, part.peak)
        self.done += 1

    def fail(self, cause: str) -> None:
        """The next image is the one that the process died over."""
        self._failures.append((self.done, f"'{self.names[self.done]}' cannot be read as an image: {cause}."))
        self._more, self._seconds = True, self._seconds + self.fence.seconds
        self.done += 1

    def decoded(self) -> Decoded:
        """All of it."""
        pixels, smalls = self._pixels[: len(self._good)], tuple(self._smalls)
        return Decoded(self._good, self._digests, self._failures, pixels, smalls, self._more, self._seconds)


class _Part(NamedTuple):
    """What a process says of one image."""

    digest: str
    error: str
    peak: int  # megabytes that the process has taken so far
    more: bool  # whether it may be readable with more memory or time
    away: bool  # whether it was not read because its storage does not answer
    seconds: float  # of processor time
    pixels: NDArray[np.uint8] | None


class _Running:
    """A process that runs, and the thread that receives its answers."""

    def __init__(self, niceness: int) -> None:
        self.parts: queue.SimpleQueue[_Part | None] = queue.SimpleQueue()  # None: the process has ended
        self.process = _start(niceness)
        self._input, self._output = _pipes(self.process)
        self._started = False
        self._thread = threading.Thread(target=self._receive, daemon=True, name="yoro-decoding")
        self._thread.start()

    def send(self, request: _Request) -> None:
        """Send a request; that the process is dead is noticed by `parts`."""
        with contextlib.suppress(BrokenPipeError):
            self._input.write(request.message())
            self._input.flush()

    def reason_of_death(self, fence: Fence) -> str:
        """Why the process ended, if the image is to blame; a YoroError if it could not even start."""
        status = self.process.wait()
        if not self._started:
            raise YoroError(f"A decoding process ended with status {status} at its start; use workers=0.")
        if sys.platform != "win32" and status == -signal.SIGXCPU:
            return f"it takes more than {fence.seconds} seconds of processor time to decode"
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
                del header["bytes"]
                self.parts.put(_Part(**header, pixels=pixels))
        except (OSError, ValueError):
            pass  # the process died in the middle of a line
        self.parts.put(None)


def _start(niceness: int) -> subprocess.Popen[bytes]:
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # decoding uses none
    home, here = Path(__file__).resolve().parents[1], str(Path.cwd())
    paths = [path for path in sys.path if isinstance(path, str) and path and os.path.realpath(path) != here]
    command = [sys.executable, "-I", "-c", _START, str(niceness), str(home), *paths]
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


class Decoded(NamedTuple):
    """A batch of images, decoded."""

    good: list[int]  # positions of those that could be read
    digests: list[str]  # of their contents
    failures: list[tuple[int, str]]  # positions of the others, and what is wrong with each
    pixels: NDArray[np.uint8]  # (good, side, side, 3)
    smalls: tuple[NDArray[np.uint8], ...] = ()  # smaller squares, if they were asked for
    more: bool = False  # whether one that failed may be readable with more memory or time
    seconds: float = 0.0  # of processor time that decoding took

    def placed(self, indices: Sequence[int]) -> Decoded:
        """The same with other positions, such as those among more images."""
        failures = [(indices[position], said) for position, said in self.failures]
        return self._replace(good=[indices[position] for position in self.good], failures=failures)

    def sound(self) -> Decoded:
        """The same; an ImageError if one of the images cannot be read."""
        for _, said in self.failures:
            raise ImageError(said)
        return self


def sendable(image: Picture) -> Sent | None:
    """The image as a decoding process takes it; None for pixels that are in memory here."""
    return image if isinstance(image, bytes) else address_of(image)


def decode_all(images: Sequence[Picture], names: Sequence[str], geometry: Geometry) -> Decoded:
    """Decode a batch in this process."""
    pixels = np.empty((len(images), geometry.side, geometry.side, 3), dtype=np.uint8)
    good: list[int] = []
    digests: list[str] = []
    failures: list[tuple[int, str]] = []
    for position, (image, name) in enumerate(zip(images, names, strict=True)):
        try:
            (pixels[len(good)],), content = decode_and_digest(image, geometry, name=name)
        except ImageError as error:
            failures.append((position, str(error)))
        else:
            good.append(position)
            digests.append(content)
    return Decoded(good, digests, failures, pixels[: len(good)])


class Budget:
    """Seconds of CPU time that decoding the images of a request of this many bytes may take."""

    def __init__(self, size: int) -> None:
        self._left = limits.REQUEST_SECONDS + size / limits.MB

    def left(self, name: str) -> int:
        """The seconds for the next image; an ImageError if there are none."""
        if self._left <= 0:
            raise ImageError(f"'{name}' was not decoded: the images before it took too long; send fewer per request.")
        return math.ceil(min(self._left, limits.DECODING_SECONDS))

    def spend(self, decoded: Decoded) -> Decoded:
        """Count what an image took."""
        self._left -= decoded.seconds
        return decoded


@dataclass(frozen=True)
class _Job:
    """An image that a pool is asked for."""

    image: Sent
    name: str
    geometry: Geometry
    small: Geometry | None
    budget: Budget | None
    future: Future[Decoded]


class DecoderPool:
    """Decoding processes for servers, which need an image now and then; as many as needed are started.

    An image that takes much memory or time is decoded in a process for such images, one after the other: together they
    take no more than one does, and ordinary photos need not wait for them.
    """

    def __init__(self, size: int, niceness: int = BEHIND) -> None:
        self._size, self._niceness = size, niceness
        self._jobs: deque[_Job] = deque()
        self._more, self._idle, self._closed = threading.Condition(), 0, False
        self._threads: list[threading.Thread] = []
        self._large, self._turn = DecodingProcess(niceness), threading.Lock()

    def decode(
        self, image: Sent, name: str, geometry: Geometry, small: Geometry | None = None, budget: Budget | None = None
    ) -> Decoded:
        """The image of a file; an ImageError if it cannot be read. Waits while all processes are busy.

        The budget, if there is one, pays for images that take much.
        """
        decoded = self.quick(image, name, geometry, small).result()
        if decoded.more and budget is not None:
            decoded = budget.spend(self.large(image, name, geometry, small, budget.left(name)))
        elif decoded.more:
            decoded = self.large(image, name, geometry, small)
        return decoded.sound()

    def quick(
        self, image: Sent, name: str, geometry: Geometry, small: Geometry | None = None, budget: Budget | None = None
    ) -> Future[Decoded]:
        """The image if it takes little; else `more` of the answer says so. The budget, if there is one, pays."""
        job = _Job(image, name, geometry, small, budget, Future())
        with self._more:
            if self._closed:
                raise RuntimeError("the pool is closed")
            self._jobs.append(job)
            if len(self._jobs) > self._idle and len(self._threads) < self._size:
                thread = threading.Thread(target=self._work, name="yoro-decoders", daemon=True)
                self._threads.append(thread)
                thread.start()
            self._more.notify()
        return job.future

    def large(
        self, image: Sent, name: str, geometry: Geometry, small: Geometry | None = None, seconds: int = WHOLE.seconds
    ) -> Decoded:
        """The image whatever it takes within the limits, and these seconds."""
        with self._turn:
            return self._large.decode(image, name, geometry, small, WHOLE._replace(seconds=seconds))

    def close(self) -> None:
        """Finish the images that were begun, and end the processes; one with a large image ends with this process."""
        with self._more:
            self._closed = True
            for job in self._jobs:
                job.future.cancel()
            self._more.notify_all()
        for thread in self._threads:
            thread.join()
        if self._turn.acquire(blocking=False):
            self._large.close()

    def _work(self) -> None:
        """Keep one process busy until the pool is closed."""
        process, begun = DecodingProcess(self._niceness), deque[_Job]()
        while True:
            while len(begun) < AHEAD and (job := self._take(wait=not begun)) is not None:
                _begin(process, job, begun)
            if not begun:
                break
            job = begun.popleft()
            try:
                decoded = process.answer()
            except BaseException as error:  # it cannot be started, or a storage does not answer
                job.future.set_exception(error)
                process.close()
                process, again, begun = DecodingProcess(self._niceness), begun, deque()
                for job in again:
                    _begin(process, job, begun)
            else:
                job.future.set_result(decoded if job.budget is None else job.budget.spend(decoded))
        process.close()

    def _take(self, *, wait: bool) -> _Job | None:
        """The next image that somebody still wants; None if none comes any more, or without waiting if there is none.

        What an idle thread can have is left to it.
        """
        with self._more:
            while True:
                if wait and not self._jobs:
                    self._idle += 1
                    self._more.wait_for(lambda: self._jobs or self._closed)
                    self._idle -= 1
                if not self._jobs or (not wait and len(self._jobs) <= self._idle):
                    return None
                job = self._jobs.popleft()
                if job.future.set_running_or_notify_cancel():
                    return job


def _begin(process: DecodingProcess, job: _Job, begun: deque[_Job]) -> None:
    """Send an image to a process; it is not sent if nothing is left to pay for it."""
    try:
        if job.budget is not None:
            job.budget.left(job.name)
        process.request([job.image], [job.name], job.geometry, job.small, QUICK)
    except (YoroError, OSError) as error:
        job.future.set_exception(error)
    else:
        begun.append(job)


@contextlib.contextmanager
def lent(count: int) -> Iterator[list[DecodingProcess]]:
    """Processes for one pass; one of them is kept, so that the next small call need not start one."""
    kept = _KEPT.pop(os.getpid(), None)
    processes = [kept or DecodingProcess(), *(DecodingProcess() for _ in range(1, count))]
    try:
        yield processes
    finally:
        for process in processes:
            if process.waiting or _KEPT.setdefault(os.getpid(), process) is not process:
                process.close()


def decode_fenced(image: Picture, geometry: Geometry, name: str) -> NDArray[np.uint8]:
    """`decode` in a helper process; pixels that are in memory already are taken here."""
    sent = sendable(image)
    if sent is None:
        return decode(image, geometry, name=name)
    with lent(1) as (process,):
        pixels: NDArray[np.uint8] = process.decode(sent, name, geometry).sound().pixels[0]
    return pixels
