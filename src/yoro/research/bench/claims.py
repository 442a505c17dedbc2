"""Claims: which of many workers, on one machine or several, computes what.

A claim is a file that appears whole under its name or not at all. Its worker holds a lock on it, which the kernel
releases when the worker dies, and changes its time while it lives, for workers on other machines. A dead worker's claim
is taken over by making its successor, NAME.1 after NAME.0, which only one can: no two ever hold the newest.
"""

from __future__ import annotations

import os
import platform
import secrets
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

if sys.platform != "win32":  # which has no such locks: there the heartbeat alone tells
    import fcntl

BEAT = 10.0  # seconds between two signs of life
NAME = 256  # bytes at most that name a machine
STALE = 180.0  # seconds without one after which a worker counts as dead; file servers may show a change a minute late


class Claim:
    """What this worker has taken, until `release` or its own death."""

    def __init__(self, folder: Path, name: str, number: int, descriptor: int) -> None:
        self._folder, self._name, self._number, self._descriptor = folder, name, number, descriptor
        self._over = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="yoro-claim", daemon=True)
        self._heart.start()

    def holds(self) -> bool:
        """Whether no other worker took this one for dead."""
        return max((number for number, _ in _generations(self._folder, self._name)), default=-1) <= self._number

    def release(self) -> None:
        """Let go: another worker may take it."""
        self._over.set()
        self._heart.join()
        for number, path in _generations(self._folder, self._name):
            if number <= self._number:  # those of the dead before, then its own
                path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _beat(self) -> None:
        while not self._over.wait(BEAT):
            with suppress(OSError):  # a file server that is away for a moment
                os.utime(_path(self._folder, self._name, self._number))


class Claims:
    """The claims of all workers in a folder that they share, as one of them sees them."""

    def __init__(self, folder: Path, stale: float = STALE) -> None:
        self._folder, self._stale = folder, stale
        self._seen: dict[Path, tuple[int, float]] = {}  # the last sign of life, and when it was first seen by our clock

    def take(self, name: str) -> Claim | None:
        """The claim, or None while a living worker has it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        before = _generations(self._folder, name)
        if before and not self._is_dead(before[-1][1]):
            return None
        number = before[-1][0] + 1 if before else 0
        descriptor = _appear(_path(self._folder, name, number))
        return None if descriptor is None else Claim(self._folder, name, number, descriptor)

    def clear(self) -> None:
        """Remove the claims that the dead left behind on what is finished."""
        for name in {path.name.rpartition(".")[0] for path in self._folder.glob("[!.]*.*")}:
            if (claim := self.take(name)) is not None:
                claim.release()

    def _is_dead(self, path: Path) -> bool:
        """Whether the worker of a claim died: its lock is free on this machine, or it gave no sign for long."""
        try:
            with path.open("rb") as file:
                here = file.read(NAME) == _machine().encode()
                if here and _try_lock(file.fileno()):
                    return True
                sign = os.fstat(file.fileno()).st_mtime_ns
        except FileNotFoundError:  # released just now
            return False
        last, since = self._seen.get(path, (0, 0.0))
        if last != sign:
            self._seen[path] = sign, time.monotonic()
            return False
        return time.monotonic() - since > self._stale


def _appear(path: Path) -> int | None:
    """A descriptor of a new file that names this machine and is locked; None if another worker was first."""
    draft = path.with_name(f".{secrets.token_hex(8)}")
    descriptor = _written(draft)
    try:
        os.link(draft, path)
    except FileExistsError:
        os.close(descriptor)
        return None
    except OSError:  # a file system without hard links: for a moment the claim is there, and empty
        os.close(descriptor)
        try:
            return _written(path)
        except FileExistsError:
            return None
    finally:
        draft.unlink()
    return descriptor


def _written(path: Path) -> int:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
    _try_lock(descriptor)
    os.write(descriptor, _machine().encode())
    return descriptor


def _path(folder: Path, name: str, number: int) -> Path:
    return folder / f"{name}.{number}"


def _generations(folder: Path, name: str) -> list[tuple[int, Path]]:
    """The claims of a name, oldest first."""
    found = ((path.name.rpartition(".")[2], path) for path in folder.glob(f"{name}.*"))
    return sorted((int(number), path) for number, path in found if number.isdecimal())


def _try_lock(descriptor: int) -> bool:
    """Whether the lock was free, and is ours now; False where there are no locks."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _machine() -> str:
    """What workers under one kernel have in common: between them locks can be trusted."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return platform.node()
