"""What runs here: the version of this package, the cores it may use, the memory it has used."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

__version__ = "0.1.0"


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def peak_memory() -> float:
    """Largest resident size so far, in MB; 0 where the system does not tell.

    Linux keeps it for each program; the portable counter would also show what the program
    that started this one had used.
    """
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if found:
        return int(found[1]) / 2**10
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
