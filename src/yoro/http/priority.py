"""Priority of threads: heavy work gives way to the event loop, which has little to do but must do it at once."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

NICENESS = 5  # added to that of a background thread
SWITCH = 0.0005  # seconds for which a thread may keep Python's lock from others; by default ten times that


def single_threaded_blas() -> None:
    """Use one thread for matrix products from now on: a second one busy-waits after each, beside other work.

    Only libraries that are loaded obey; where scipy is used, import `scipy.linalg` first.
    """
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, user_api="blas")


def prompt_event_loop() -> None:
    """Let the event loop get Python's lock soon after it asks, which it does several times per request."""
    sys.setswitchinterval(SWITCH)


def lower_priority() -> None:
    """Run this thread, and threads it starts, at a lower priority than the rest of the process (Linux only).

    It preempts no other thread, either: those it would share a core with keep their caches longer.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            here = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, here, os.getpriority(os.PRIO_PROCESS, here) + NICENESS)
            os.sched_setscheduler(here, os.SCHED_BATCH, os.sched_param(0))
