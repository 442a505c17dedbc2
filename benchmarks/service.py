"""The budget of the service: its rate under many clients against the ideal, /healthz meanwhile, and memory."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from images import write_photos
from timing import print_machine, print_table, resident_memory
from yoro.data.decoding import decode
from yoro.environment import cores as available_cores
from yoro.fit import fit
from yoro.model.pipeline import Pipeline, make_pipeline
from yoro.model.settings import PipelineSettings

CLIENTS = 32
TRIALS = 200  # images by which decoding and the bare forward pass are priced
PERIOD = 0.02  # seconds between two looks at /healthz
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Server:
    """A running service."""

    pid: int
    port: int

    def seconds(self) -> float:
        """Core-seconds that it and its workers have used."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()  # any thread may have started some
        workers = [pid for task in tasks for pid in (task / "children").read_text().split()]
        stats = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in (self.pid, *workers)]
        return sum(int(fields[11]) + int(fields[12]) for fields in stats) / TICKS

    def memory(self) -> float:
        """Resident size, MB."""
        return resident_memory(self.pid)


@contextmanager
def serving(model: Path, processes: int = 1) -> Iterator[Server]:
    """`yoro serve` on a free port, until the end of the block."""
    command = [sys.executable, "-m", "yoro", "serve", str(model), "--port", "0", "--processes", str(processes)]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, stderr=log)
        try:
            port = None
            while port is None:
                time.sleep(0.1)
                log.seek(0)
                port = re.search(r"http://[^ ]+:(\d+)", log.read())
                assert process.poll() is None, "the service ended"
            yield Server(process.pid, int(port[1]))
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> int:
    """Send one request on an open connection and read the answer; its status."""
    writer.write(request)
    head = await reader.readuntil(b"\r\n\r\n")
    size = re.search(rb"content-length: (\d+)", head)
    await reader.readexactly(int(size[1]) if size else 0)
    return int(head.split(b" ", 2)[1])


def post(path: str, content: bytes) -> bytes:
    """A request with one image."""
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: image/jpeg\r\ncontent-length: {len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def load(server: Server, requests: list[bytes], count: int) -> tuple[float, list[float], list[float]]:
    """Seconds that so many requests of CLIENTS at once take, seconds of /healthz meanwhile, and memory as it went."""
    left = iter(range(count))
    memory: list[float] = []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for number in left:
            assert await ask(reader, writer, requests[number % len(requests)]) == 200
            if number % (count // 10) == 0:
                memory.append(server.memory())
        writer.close()

    health: list[float] = []

    async def look() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        while True:
            began = time.perf_counter()
            await ask(reader, writer, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
            health.append(time.perf_counter() - began)
            await asyncio.sleep(PERIOD)

    looking = asyncio.create_task(look())
    started = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(CLIENTS)))
    took = time.perf_counter() - started
    looking.cancel()
    return took, health, memory


def priced(pipeline: Pipeline, photos: list[bytes]) -> tuple[float, float]:
    """Core-seconds of decoding one image, and of its bare forward pass on one core."""
    chosen = [photos[i % len(photos)] for i in range(TRIALS)]
    began = time.process_time()
    images = np.stack([decode(photo, pipeline.geometry) for photo in chosen])
    decoding = (time.process_time() - began) / TRIALS
    pipeline.respond(images[:16])
    began = time.process_time()
    pipeline.respond(images)
    return decoding, (time.process_time() - began) / TRIALS


def http_price(server: Server, size: int, count: int = 600) -> float:
    """Core-seconds of HTTP for one image, of both sides: requests of its size that are refused once they are read."""
    request = post("/v1/predict", bytes(size)).replace(b"image/jpeg", b"text/plain")

    async def all_of_them() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for _ in range(count):
            assert await ask(reader, writer, request) == 415
        writer.close()

    before = server.seconds() + time.process_time()
    asyncio.run(all_of_them())
    return (server.seconds() + time.process_time() - before) / count


SPIN = "import time; end = time.perf_counter() + {}\nwhile time.perf_counter() < end: pass\nprint(time.process_time())"


def cores_to_be_had(seconds: float = 3.0) -> float:
    """What busy loops, one for each core, get of the cores beside everything else that runs: all of them if idle."""
    command = [sys.executable, "-c", SPIN.format(seconds)]
    loops = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(available_cores())]
    return sum(float(loop.communicate()[0]) for loop in loops) / seconds


def bench(count: int, repeats: int, processes: int) -> None:
    rows, cores = [], available_cores()
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_photos(Path(temporary) / "photos", 200, 500, 375)
        fit(folder, workers=0).save(Path(temporary) / "m.yoro")
        photos = [path.read_bytes() for path in sorted(folder.rglob("*.jpg"))]
        requests = [post("/v1/predict", photo) for photo in photos]
        size = round(statistics.mean(map(len, photos)))
        pipeline = make_pipeline(PipelineSettings(), threads=1)
        with serving(Path(temporary) / "m.yoro", processes) as server:
            asyncio.run(load(server, requests, 320))  # until nothing happens for the first time
            for _ in range(repeats):
                decoding, forward = priced(pipeline, photos)
                http = http_price(server, size)
                free = cores_to_be_had()
                before, own = server.seconds(), time.process_time()
                took, health, memory = asyncio.run(load(server, requests, count))
                served, asking = server.seconds() - before, time.process_time() - own
                spent = served + asking
                free = (free + cores_to_be_had()) / 2
                needed = decoding + forward + http  # core-seconds of one image
                rate, ideal = count / took, free / needed
                late = sorted(health)[int(0.99 * len(health))]
                rows.append(
                    [f"{1e3 * decoding:.2f}", f"{1e3 * forward:.2f}", f"{1e3 * http:.2f}", f"{free:.2f}",
                     f"{ideal:.0f}",
                     f"{rate:.0f}", f"{rate / ideal:.2f}", f"{1e3 * needed:.2f}",
                     f"{1e3 * served / count:.2f}", f"{1e3 * asking / count:.2f}", f"{spent / took:.2f}",
                     f"{1e3 * statistics.median(health):.1f}", f"{1e3 * late:.1f}",
                     f"{memory[0]:.0f}", f"{memory[-1]:.0f}"]
                )  # fmt: skip
    print_table(
        f"The service under {CLIENTS} clients, {count:,} requests, on {cores} cores; ideal: cores to be had / "
        "(core-seconds of decoding, forward pass, HTTP and client) "
        "(bars: 0.8 of it, p99 of /healthz under 50 ms, memory flat)",
        ["decode (ms)", "forward (ms)", "HTTP (ms)", "cores to be had", "ideal (/s)", "rate (/s)", "rate / ideal",
         "needed (core-ms)", "server (core-ms)", "client (core-ms)", "cores got",
         "/healthz (ms)", "p99 (ms)", "memory, first (MB)", "last (MB)"],
        rows,
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000, help="of one repetition")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--processes", type=int, default=1, help="of the service")
    given = parser.parse_args()
    print_machine()
    bench(given.requests, given.repeats, given.processes)
