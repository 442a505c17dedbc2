"""Threads that leave the event loop its turn: it has little to do, but must do it at once."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

STEP = 5  # of the niceness


def stand_back() -> None:
    """Let this thread, and those that it starts, take the processor after others of this process (Linux only)."""
    if sys.platform == "linux":
        with suppress(OSError):
            here = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, here, os.getpriority(os.PRIO_PROCESS, here) + STEP)
