"""What runs here: the version of this package, the cores and memory it uses, and what its dependencies may not do."""

from __future__ import annotations

import os
import re
import sys
from functools import cache
from pathlib import Path

__version__ = "0.1.0"

# Dependencies that report on their users unless told otherwise. onnxruntime 1.31 asks for its events host after some
# 45 seconds and keeps a device id under the user's cache; it reads its variable once, when it is first imported.
TELEMETRY_OFF = {
    "ORT_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "DO_NOT_TRACK": "1",
}


def refuse_telemetry() -> None:
    """Turn the reporting of dependencies off, in this process and those it starts; to be called before they load."""
    os.environ.update(TELEMETRY_OFF)
    loaded = sys.modules.get("onnxruntime")
    if loaded is not None and hasattr(loaded, "disable_telemetry_events"):  # somebody else imported it before us
        loaded.disable_telemetry_events()


INSTALLERS = {  # what each leaves in an environment of its making, and how it is asked to install again
    "uv-receipt.toml": "uv tool install --force",
    "pipx_metadata.json": "pipx install --force",
}


def install(extra: str, prefix: str = sys.prefix) -> str:
    """What to type for an extra, in the folder that this package was installed from, by what made its environment.

    >>> install("torch", "/usr")
    "pip install '.[torch]' in YORO's source folder"
    """
    made = [command for left, command in INSTALLERS.items() if (Path(prefix) / left).is_file()]
    return f"{made[0] if made else 'pip install'} '.[{extra}]' in YORO's source folder"


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def has_dot_products() -> bool:
    """Whether this processor sums products of bytes in one instruction (VNNI on x86, dot products on ARM).

    Where the system does not tell, no.
    """
    if sys.platform == "darwin":
        return os.uname().machine == "arm64"
    if sys.platform == "win32":
        import ctypes

        return bool(ctypes.windll.kernel32.IsProcessorFeaturePresent(43))  # PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE
    try:
        told = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    flags = re.findall(r"^(?:flags|Features)\s*:(.*)", told, re.MULTILINE)  # of each core: one may have fewer
    return bool(flags) and all({"avx512_vnni", "avx_vnni", "asimddp"} & set(line.split()) for line in flags)


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


def address_space() -> tuple[int, int] | None:
    """Bytes of address space that this process has taken at most, and that it may take (`ulimit -v`); None if any."""
    status = Path("/proc/self/status")
    found = re.search(r"VmPeak:\s+(\d+) kB", status.read_text()) if status.exists() else None
    if found is None:
        return None
    import resource

    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else (int(found[1]) * 2**10, limit)
