"""Real studios: `yoro studio` as a process of its own, and a client that does what the page does."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from child import BOUND, start, wait_until

API = "/studio/api"


@dataclass(frozen=True)
class Studio:
    """A studio that runs, and a client of it."""

    process: subprocess.Popen[str]
    client: httpx.Client
    work: Path
    log: Path

    def get(self, path: str, **query: object) -> dict:
        return self._read(self.client.get(f"{API}/{path}", params=query))

    def post(self, path: str, **body: object) -> dict:
        return self._read(self.client.post(f"{API}/{path}", json=body))

    def send(self, files: list[Path] | dict[str, bytes], **query: object) -> dict:
        """Upload files, by path or by name and content."""
        parts = files.items() if isinstance(files, dict) else [(file.name, file.read_bytes()) for file in files]
        form = [("files", (name, content, "image/jpeg")) for name, content in parts]
        return self._read(self.client.post(f"{API}/photos", params=query, files=form))

    def add(self, name: str, files: list[Path]) -> int:
        """A class with photos."""
        number = self.post("classes", name=name)["id"]
        assert self.send(files, belongs=number)["refused"] == []
        return number

    def settled(self) -> dict:
        """The state, once everything is learned."""
        wait_until(lambda: self.get("state")["settled"], self.process)
        return self.get("state")

    @property
    def port(self) -> int:
        return self.client.base_url.port

    def memory(self) -> int:
        """Its largest resident size so far, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])

    def photos(self, belongs: int = 0) -> list[dict]:
        return self.get("photos", belongs=belongs)["photos"]

    def tried(self, content: bytes) -> dict:
        return self._read(
            self.client.post(f"{API}/try", content=content, headers={"content-type": "application/octet-stream"})
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    @staticmethod
    def _read(answer: httpx.Response) -> dict:
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def studio_at(work: Path, *words: object, port: int = 0) -> Iterator[Studio]:
    """`yoro studio` on a port, or a free one, from when it says so to the end of the block."""
    log = work.with_suffix(".log")
    options = ["--work", work, "--port", str(port), "--read", "logits", "--no-browser", *words]
    with log.open("w") as sink:
        process = start("-m", "yoro", "studio", *options, stderr=sink, cwd=work.parent)
    try:
        wait_until(lambda: "The studio is at" in log.read_text(), process)
        address = re.search(r"http://127.0.0.1:\d+", log.read_text())[0]
        with httpx.Client(base_url=address, timeout=BOUND, trust_env=False) as client:
            yield Studio(process, client, work, log)
    finally:
        process.kill()
        process.wait()
