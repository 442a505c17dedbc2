"""Threads that leave the event loop its turn: it has little to do, but must do it at once."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

STEP = 5  # of the niceness


def alone() -> None:
    """Let products of matrices take one thread from now on: a second spins long after each, beside other work."""
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, user_api="blas")


def stand_back() -> None:
    """Let this thread, and those that it starts, take the processor after others of this process (Linux only)."""
    if sys.platform == "linux":
        with suppress(OSError):
            here = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, here, os.getpriority(os.PRIO_PROCESS, here) + STEP)
