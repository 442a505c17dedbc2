"""Several processes on one port: a supervisor starts workers, replaces those that die, and passes signals on."""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import FrameType

from yoro.errors import InputError

METRICS = "PROMETHEUS_MULTIPROC_DIR"  # the folder in which prometheus_client adds up the counters of several processes
PAUSE = 1.0  # seconds before a worker that died is replaced
_SIGNAL_WHEN_PARENT_DIES = 1  # PR_SET_PDEATHSIG


def share_metrics(processes: int) -> None:
    """Give the processes of a service a folder for their counters, before prometheus_client, which looks for it."""
    if processes > 1 and sys.platform != "linux":
        raise InputError(f"--processes is {processes}, but only Linux shares a port among processes. Leave it at 1.")
    if processes > 1 and METRICS not in os.environ:
        os.environ[METRICS] = tempfile.mkdtemp(prefix="yoro-metrics-")


class Supervisor:
    """The workers of a service; each accepts connections on a socket of its own, which its successor takes over."""

    def __init__(self, sockets: Sequence[socket.socket], log: Callable[[str], None]) -> None:
        self._sockets, self._log = sockets, log
        self._workers: dict[int, int] = {}  # process ID, and the number of its socket
        self._stopped_by: int | None = None
        self._read, self._write = os.pipe()  # by which the first worker says that it is loaded

    def run(self) -> int:
        """Start the workers, and return in them alone, with their number; the supervisor ends by raising.

        The others start when the first is loaded, so that what is wrong with a model is said once.
        """
        for stop in (signal.SIGINT, signal.SIGTERM):
            signal.signal(stop, self._stop)
        if self._is_worker(0):
            return 0
        os.close(self._write)
        if not os.read(self._read, 1):  # it has said why
            raise SystemExit(self._reap()[1])
        missing = list(range(1, len(self._sockets)))
        while missing or self._workers:
            for number in missing:
                if self._is_worker(number):
                    return number
            number, _ = self._reap()
            missing = []
            if self._stopped_by is None:
                self._log("A process of the service ended unexpectedly; another one takes its place.")
                time.sleep(PAUSE)
                missing = [number]
        shutil.rmtree(os.environ[METRICS], ignore_errors=True)
        if self._stopped_by == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(0)

    def loaded(self, number: int) -> None:
        """Called by a worker that is about to serve."""
        if not number:
            os.write(self._write, b"1")

    def _is_worker(self, number: int) -> bool:
        """Fork; whether this is the new worker."""
        supervisor = os.getpid()
        pid = os.fork()
        if pid:
            self._workers[pid] = number
            if self._stopped_by is not None:  # meanwhile
                os.kill(pid, signal.SIGTERM)
            return False
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_SIGNAL_WHEN_PARENT_DIES, signal.SIGTERM)
        if os.getppid() != supervisor:
            raise SystemExit(1)
        for other, sock in enumerate(self._sockets):
            if other != number:
                sock.close()
        return True

    def _reap(self) -> tuple[int, int]:
        """Wait until a worker ends; the number of its socket, and its exit code."""
        from prometheus_client.multiprocess import mark_process_dead

        pid, status = os.wait()
        mark_process_dead(pid)  # type: ignore[no-untyped-call]
        return self._workers.pop(pid), os.waitstatus_to_exitcode(status)

    def _stop(self, number: int, _: FrameType | None) -> None:
        self._stopped_by = self._stopped_by or number
        for pid in list(self._workers):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
