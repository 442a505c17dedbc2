"""Timing for the benchmarks: medians within one run, so that ratios mean something on a busy machine."""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from yoro.data.find import find
from yoro.data.response_streams import collect
from yoro.model.pipeline import Pipeline
from yoro.model.settings import USUAL


def responses_to(pipeline: Pipeline, pictures: Sequence[np.ndarray]) -> np.ndarray:
    """Responses (n, width) to pictures in memory."""
    return collect(pipeline.stream(find(pictures, labelled=False).examples, USUAL), "reading").responses


def medians(*tasks: Callable[[], object], repeats: int = 5) -> list[float]:
    """Median seconds of each task; the tasks take turns, so that load falls on all of them alike."""
    seconds: list[list[float]] = [[] for _ in tasks]
    for _ in range(repeats):
        for task, times in zip(tasks, seconds, strict=True):
            started = time.perf_counter()
            task()
            times.append(time.perf_counter() - started)
    return [statistics.median(times) for times in seconds]


def processor_seconds() -> float:
    """Seconds that this process has computed, and those of its children that have ended."""
    return sum(os.times()[:4])


def rounds(*tasks: Callable[[], object], repeats: int = 5) -> list[tuple[list[float], list[float]]]:
    """Seconds by the clock and of the processor, of each task in each round; each round begins with another task."""
    found: list[tuple[list[float], list[float]]] = [([], []) for _ in tasks]
    for turn in range(repeats):
        for place in range(len(tasks)):
            number = (turn + place) % len(tasks)
            clock, processor = time.perf_counter(), time.process_time()
            tasks[number]()
            found[number][0].append(time.perf_counter() - clock)
            found[number][1].append(time.process_time() - processor)
    return found


def peak_memory(code: str) -> float:
    """Peak resident memory in MB of a fresh Python that runs this code."""
    script = f"{code}\nfrom yoro.environment import peak_memory; print(peak_memory())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def resident_memory(pid: int | str = "self") -> float:
    """Resident size of a process as it is now, in MB."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 2**10 if found else float("nan")


def print_table(title: str, columns: list[str], rows: list[list[str]]) -> None:
    """A plain table with right-aligned cells."""
    widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
    print(f"\n{title}")
    for row in [columns, *rows]:
        print("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))


def print_machine() -> None:
    """Cores and load, for whoever reads the numbers later."""
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    print(f"{os.cpu_count()} cores, load {load}, Python {sys.version.split()[0]}")
