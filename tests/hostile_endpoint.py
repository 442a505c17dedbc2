"""An endpoint that fails as endpoints do: a process of its own, which writes down every request that it gets.

`python hostile_endpoint.py '{"log": ..., "faults": [...], "share": 0.2}'` prints its port. Which request fails, and
how, is drawn by the seed, the idempotency key and how often that key came before: by nothing that depends on time.
"""

from __future__ import annotations

import asyncio
import base64
import io
import json
import random
import re
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from child import start

SLOW = 600.0  # seconds: longer than any client waits


def vector(content: bytes) -> list[float]:
    """What is answered to an image file: the mean of each of 8 x 8 blocks, in single precision."""
    pixels = np.asarray(Image.open(io.BytesIO(content)).convert("L"), dtype=np.float32)
    size = len(pixels) // 8
    return pixels.reshape(8, size, 8, size).mean(axis=(1, 3)).ravel().tolist()


class Hostile:
    def __init__(self, settings: dict) -> None:
        self.faults, self.share = settings.get("faults", []), settings.get("share", 1.0)
        self.seed, self.delay = settings.get("seed", 0), settings.get("delay", 0.0)
        self.mended = Path(settings["mended"]) if "mended" in settings else None
        self.good_first = settings.get("good_first", 0)
        self.seen: Counter[str] = Counter()
        self.log = open(settings["log"], "a", buffering=1)  # noqa: PTH123, SIM115
        self.requests = self.together = 0
        self.elsewhere = settings.get("elsewhere", "http://127.0.0.1:9")

    def fate(self, key: str) -> str:
        self.seen[key] += 1
        self.requests += 1
        draw = random.Random(f"{self.seed} {key} {self.seen[key]}")
        sound = self.requests <= self.good_first or (self.mended is not None and self.mended.exists())
        return draw.choice(self.faults) if self.faults and not sound and draw.random() < self.share else "answered"

    def note(self, **facts: object) -> None:
        self.log.write(json.dumps({**facts, "at": time.monotonic()}) + "\n")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                headers = {k.lower(): v.strip() for k, v in re.findall(r"^([\w-]+):(.*)$", head, re.MULTILINE)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                key = headers.get("idempotency-key", "")
                fate = self.fate(key)
                self.together += 1
                self.note(what="asked", key=key, fate=fate, together=self.together, sent=headers.get("authorization"))
                try:
                    whole = await self.answer(fate, headers, body, writer)
                finally:
                    self.together -= 1
                if not whole:
                    return
        writer.close()

    async def answer(self, fate: str, headers: dict, body: bytes, writer: asyncio.StreamWriter) -> bool:
        if self.delay:
            await asyncio.sleep(self.delay)
        if fate == "reset before":
            return reset(writer)
        if fate == "slow":
            await asyncio.sleep(SLOW)
        contents = [body]
        if headers.get("content-type", "").startswith("application/json"):
            sent = [one["image"].partition(",")[2] for one in json.loads(body)["input"]]
            contents = [base64.b64decode(one) for one in sent]
        elif "multipart" in headers.get("content-type", ""):
            contents = [body[body.index(b"\r\n\r\n") + 4 : body.rindex(b"\r\n--")]]
        numbers, *others = [vector(content) for content in contents]
        status, more = 200, ""
        if fate in ("429", "500", "503", "408", "400", "401"):
            status, more = int(fate), "retry-after: 0\r\n" if fate == "429" else ""
        if fate == "wait an hour":
            status, more = 429, "retry-after: 3600\r\n"
        if fate == "redirect":
            status, more = 307, f"location: {self.elsewhere}/elsewhere?key=abc\r\n"
        if fate == "short":
            numbers = numbers[:-1]
        if fate == "nan":
            numbers[3] = float("nan")
        if fate == "words":
            numbers[3] = "3"
        told = {"data": [{"embedding": one} for one in (numbers, *others)]}
        if fate == "reversed":
            told = {"data": [{"index": i} | one for i, one in enumerate(told["data"])][::-1]}
        if fate == "one more":
            told["data"] += told["data"][:1]
        if fate == "missing":
            told = {"data": []}
        text = json.dumps(told).encode()
        if fate == "no json":
            text = b"<html>bad gateway</html>"
        if fate == "huge":
            text = b"[" + b"1," * 4_000_000 + b"1]"
        if status >= 400:
            text = f"no: {headers.get('authorization')} is not liked".encode()
        sent = f"HTTP/1.1 {status} X\r\ncontent-length: {len(text)}\r\n{more}\r\n".encode() + text
        if fate == "reset after":
            writer.write(sent[: len(sent) // 2])
            await writer.drain()
            return reset(writer)
        if fate == "answered":  # noted before: the client may act on it sooner than we get to write
            self.note(what="delivered", key=headers.get("idempotency-key", ""))
        writer.write(sent)
        await writer.drain()
        return True


def reset(writer: asyncio.StreamWriter) -> bool:
    """Break the connection off, so that the other side gets an error and no end."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    return False


async def main(settings: dict) -> None:
    hostile = Hostile(settings)
    secured = None
    if "certificate" in settings:
        secured = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        secured.load_cert_chain(settings["certificate"])
    server = await asyncio.start_server(hostile.serve, "127.0.0.1", 0, limit=2**24, backlog=256, ssl=secured)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@dataclass(frozen=True)
class Running:
    """A hostile endpoint that runs, and what it wrote down."""

    process: subprocess.Popen[str]
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/embed"

    def noted(self, what: str, after: int = 0) -> list[dict]:
        """Requests as they were "asked" or "delivered", after so many lines."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()[after:]]
        return [line for line in lines if line["what"] == what]

    @property
    def lines(self) -> int:
        return len(self.log.read_text().splitlines())


@contextmanager
def hostile(folder: Path, **settings: object) -> Iterator[Running]:
    """An endpoint of these habits to the end of the block."""
    log = Path(tempfile.mkstemp(dir=folder, suffix=".jsonl")[1])
    words = json.dumps({"log": str(log), **settings}, default=str)
    process = start(__file__, words, stdout=subprocess.PIPE, cwd=Path(__file__).parent)
    try:
        assert process.stdout is not None
        yield Running(process, int(process.stdout.readline()), log)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()


def describe(folder: Path, url: str, name: str = "e.toml", **more: object) -> str:
    """The TOML file of such an endpoint; the name of the source."""
    settings = {
        "url": url, "answer": "data[0].embedding", "side": 32, "journal": "answers.sqlite", "concurrency": 8,
        "timeout": 300.0, "retries": 20, **more,
    }  # fmt: skip
    headers = settings.pop("headers", "")
    body = settings.pop("body", '[body]\nmodel = "blocks"\ninput = [{image = "{{image_data_url}}"}]\n')
    lines = [f"{key} = {json.dumps(value)}\n" for key, value in settings.items()]
    (folder / name).write_text("".join(lines) + str(headers) + str(body))
    return f"endpoint:{folder / name}"


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
