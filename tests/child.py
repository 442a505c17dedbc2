"""Processes of their own: started as a terminal starts them, and waited for by what they do, never for a time."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

BOUND = 1800.0  # seconds; only a hang takes so long: a test of 45 s took 212 s and more at the lowest priority
LOOK = 0.03  # seconds between two looks, each of which may be a request
HEEDING = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


def start(*words: object, **options: object) -> subprocess.Popen[str]:
    """Python with these words. Ctrl-C reaches it even if the tests themselves were started where it is ignored."""
    command = [sys.executable, "-c", HEEDING, *map(str, words)]
    return subprocess.Popen(command, text=True, **options)  # type: ignore[call-overload,no-any-return]


def finish(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Python with these words, to its end."""
    return subprocess.run([sys.executable, *map(str, words)], capture_output=True, text=True, **options)  # type: ignore[call-overload,no-any-return]


def wait_until(ready: Callable[[], bool], running: subprocess.Popen[str] | None = None) -> None:
    """Wait for an event; a process that ends before it is a failure."""
    until = time.monotonic() + BOUND
    while not ready():
        assert running is None or running.poll() is None, "the process ended before it happened"
        assert time.monotonic() < until, "it did not happen"
        time.sleep(LOOK)
