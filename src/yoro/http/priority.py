"""Priority of threads: heavy work gives way to the event loop, which has little to do but must do it at once."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

NICENESS = 5  # added to that of a background thread


def single_threaded_blas() -> None:
    """Use one thread for matrix products from now on: a second one busy-waits after each, beside other work.

    Only libraries that are loaded obey; where scipy is used, import `scipy.linalg` first.
    """
    from threadpoolctl import threadpool_limits

    threadpool_limits(1, user_api="blas")


def lower_priority() -> None:
    """Run this thread, and threads it starts, at a lower priority than the rest of the process (Linux only)."""
    if sys.platform == "linux":
        with suppress(OSError):
            here = threading.get_native_id()
            os.setpriority(os.PRIO_PROCESS, here, os.getpriority(os.PRIO_PROCESS, here) + NICENESS)
