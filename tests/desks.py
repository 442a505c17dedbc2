"""Real desks: `yoro label` as a process of its own, and a client that does what the page does."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from child import BOUND, start, wait_until

API = "/desk/api"


@dataclass(frozen=True)
class RunningDesk:
    """A desk that runs, and a client of it."""

    process: subprocess.Popen[str]
    client: httpx.Client
    log: Path

    def state(self) -> dict:
        return self._read(self.client.get(f"{API}/state"))

    def photos(self, kind: str, key: object = "") -> list[dict]:
        return self._read(self.client.get(f"{API}/photos", params={"kind": kind, "key": key}))["photos"]

    def step(self, verb: str, **body: object) -> dict:
        return self._read(self.client.post(f"{API}/step/{verb}", json=body))

    def write(self) -> str:
        return self._read(self.client.post(f"{API}/write"))["told"]

    def learned(self) -> dict:
        """The state, once labels are proposed."""
        wait_until(lambda: not self.state()["learning"], self.process)
        return self.state()

    @staticmethod
    def _read(answer: httpx.Response) -> dict:
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def desk_at(pile: Path, *words: object) -> Iterator[RunningDesk]:
    """`yoro label` on a free port, from when it says so to the end of the block; then it is killed."""
    log = pile.with_name(f"{pile.name}.log")
    with log.open("w") as sink:
        process = start("-m", "yoro", "label", pile, "--port", "0", *words, stderr=sink, cwd=pile.parent)
    try:
        wait_until(lambda: "The desk is at" in log.read_text(), process)
        address = re.search(r"http://127.0.0.1:\d+", log.read_text())[0]
        with httpx.Client(base_url=address, timeout=BOUND, trust_env=False) as client:
            yield RunningDesk(process, client, log)
    finally:
        process.kill()
        process.wait()
