"""Real services: `yoro serve` as a process of its own, and a client."""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from child import BOUND, start, wait_until


@dataclass(frozen=True)
class Running:
    """A service that runs, a client of it, and the file that it talks to."""

    process: subprocess.Popen[str]
    client: httpx.Client
    port: int
    log: Path

    def memory(self) -> int:
        """Its largest resident size so far, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])

    def counted(self, name: str) -> float:
        """A number of /metrics; 0 if it is not there."""
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.client.get("/metrics").text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def end(self) -> int:
        """Tell it to end, and wait for its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(BOUND)


@contextmanager
def running(
    model: Path, *options: object, log: Path, before: tuple[str, ...] = (), **more: object
) -> Iterator[Running]:
    """`yoro serve MODEL` on a free port, from when it says so to the end of the block."""
    words = ["-m", "yoro", "serve", model, "--port", "0", *options]
    with log.open("w") as sink:
        process = subprocess.Popen([*before, *map(str, words)], stderr=sink, text=True, **more) if before else start(
            *words, stderr=sink, **more
        )  # fmt: skip
    try:
        wait_until(lambda: "Serving" in log.read_text(), process)
        port = int(re.search(r"http://\S+:(\d+)", log.read_text())[1])
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=BOUND, trust_env=False, limits=limits) as client:
            yield Running(process, client, port, log)
    finally:
        process.kill()
        process.wait()
