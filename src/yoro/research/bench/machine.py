"""What a cell was computed on, and the memory that it took."""

from __future__ import annotations

import platform
import re
import sys
from contextlib import suppress
from pathlib import Path

from yoro import environment

LIBRARIES = ("numpy", "onnxruntime")
RESET = Path("/proc/self/clear_refs")  # of Linux


def machine_facts(device: str) -> dict[str, str]:
    """Versions, and the device that `device` stands for with its name; torch's only if it was used."""
    facts = {
        "yoro": environment.__version__, "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(environment.cores()), "device": "cpu", "device_name": _processor(),
    }  # fmt: skip
    facts |= {name: sys.modules[name].__version__ for name in LIBRARIES if name in sys.modules}
    if "torch" in sys.modules:
        from yoro.sources.torch.network import device_facts

        facts |= device_facts(device)
    return facts


def forget_peak() -> None:
    """Reset the peaks of memory where the system allows; elsewhere they are those of the process so far."""
    with suppress(OSError):
        RESET.write_text("5")
    if "torch" in sys.modules:
        from yoro.sources.torch.network import forget_card_peak

        forget_card_peak()


def peak_memory() -> dict[str, int]:
    """The most bytes taken since `forget_peak`: of this process, and of its graphics card."""
    peaks = {"process": round(environment.peak_memory() * 2**20)}
    if "torch" in sys.modules:
        from yoro.sources.torch.network import card_peak

        peaks |= card_peak()
    return peaks


def _processor() -> str:
    """The name of the processor, if the system tells."""
    info = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", info.read_text()) if info.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()
