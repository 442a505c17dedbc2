"""The journal: an SQLite file with every answer on disk before it is used, so that nothing is paid for twice."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import secrets
import sqlite3
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from platformdirs import user_data_path

from yoro.errors import StoreError, counted
from yoro.sources.protocol import Responses

# `sent` and `failed` count the attempts of a call. One that is neither answered nor known to have failed was lost on
# the wire: it may have been paid for.
CALLS = (
    "key BLOB PRIMARY KEY, request BLOB NOT NULL, sent INTEGER NOT NULL, failed INTEGER NOT NULL, vector BLOB, "
    "at REAL NOT NULL"
)
TABLES = (
    f"CREATE TABLE IF NOT EXISTS calls ({CALLS})",
    "CREATE INDEX IF NOT EXISTS requests ON calls (request)",
    "CREATE TABLE IF NOT EXISTS told (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS claims (key BLOB PRIMARY KEY, holder TEXT NOT NULL, until REAL NOT NULL)",
)
SETTINGS = ("trusted_schema = OFF", "journal_mode = WAL", "synchronous = FULL")
PATIENCE = 60.0  # seconds that one process waits for another to write
KEYS_PER_QUERY = 500  # SQLite bounds the variables of one query

SENT = (
    "INSERT INTO calls VALUES (?, ?, 1, 0, NULL, ?) ON CONFLICT (key) DO UPDATE SET sent = sent + 1, at = excluded.at"
)
NOTED = "INSERT OR IGNORE INTO calls VALUES (?, ?, 0, 0, NULL, ?)"
FAILED = "UPDATE calls SET failed = failed + 1 WHERE key = ?"
ANSWERED = (
    "INSERT INTO calls VALUES (?, ?, 0, 0, ?, ?) "
    "ON CONFLICT (key) DO UPDATE SET vector = excluded.vector, at = excluded.at"
)
TOTALS = (
    "SELECT count(vector), total(sent), total(max(0, sent - failed - (vector IS NOT NULL AND sent > 0))) "
    "FROM calls WHERE request = ?"
)


@dataclass(frozen=True)
class Totals:
    """Of one kind of request, over all runs: images answered, images sent, and those sent whose outcome is unknown."""

    answered: int
    sent: int
    lost: int

    def summary(self) -> str:
        said = f"{counted(self.answered, 'answer')} in the journal; {counted(self.sent, 'image')} sent so far"
        lost = f"; {counted(self.lost, 'answer')} lost in transit, which may have been billed" if self.lost else ""
        return f"{said}{lost}."


@dataclass(frozen=True)
class CallEvent:
    """What happened to a call: it was sent, failed, was noted in a file of requests, or got its answer."""

    key: bytes
    failed: bool = False
    noted: bool = False
    vector: Responses | None = None
    seconds: float = 0.0  # for which an image that is sent is claimed


@dataclass(frozen=True)
class Taken:
    """Why an image is not to be sent: another process has its answer, or is waiting for one."""

    vector: Responses | None = None


def call_key(request: bytes, pixels: NDArray[np.uint8]) -> bytes:
    """The key of a call: a digest of the request without its credentials, and of the pixels."""
    hasher = hashlib.sha256(request)
    hasher.update(repr(pixels.shape).encode())
    hasher.update(np.ascontiguousarray(pixels).tobytes())
    return hasher.digest()


class Journal:
    """A file of calls and their answers; several processes may use it at once."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        self._holder = f"{platform.node()} {os.getpid()} {secrets.token_hex(8)}"
        self._lock = threading.Lock()
        with self._checked("opened"):
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            there = create or path.is_file()
            self._database = sqlite3.connect(
                path if there else ":memory:", timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
            for setting in SETTINGS:
                self._database.execute(f"PRAGMA {setting}")
            for table in TABLES:
                self._database.execute(table)

    def close(self) -> None:
        with self._lock:
            self._database.close()

    def vectors(self, keys: Sequence[bytes], width: int | None = None) -> dict[bytes, Responses]:
        """The answers there are, by key; damaged ones are left out."""
        found: dict[bytes, Responses] = {}
        for key, blob in self._read_keys("SELECT key, vector FROM calls WHERE vector IS NOT NULL", keys):
            vector = _vector(blob)
            if vector is not None and len(vector) == (width or len(vector)):
                found[bytes(key)] = vector
        return found

    def known(self, request: bytes, keys: Sequence[bytes]) -> set[bytes]:
        """Which of the keys belong to this kind of request, answered or not."""
        return {bytes(key) for (key,) in self._read_keys("SELECT key FROM calls WHERE request = ?", keys, request)}

    def width(self, request: bytes) -> int | None:
        """Width of the answers to this kind of request, if there is one yet."""
        query = "SELECT length(vector) FROM calls WHERE request = ? AND vector IS NOT NULL LIMIT 1"
        rows = self._read(query, [request])
        return int(rows[0][0]) // 4 if rows else None

    def totals(self, request: bytes) -> Totals:
        answered, sent, lost = self._read(TOTALS, [request])[0]
        return Totals(int(answered), int(sent), int(lost))

    def write(self, request: bytes, events: Iterable[CallEvent]) -> list[Taken | None]:
        """Write events in one transaction; they are on disk when this returns.

        An image that is to be sent is claimed until it is answered or has failed. If another process has claimed or
        answered it, nothing is written, and that is returned.
        """
        now, taken = time.time(), list[Taken | None]()
        with self._lock, self._checked("written"):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                for event in events:
                    asked = event.vector is None and not event.noted and not event.failed
                    taken.append(self._claim(event, now) if asked else None)
                    if taken[-1] is not None:
                        continue
                    if event.vector is not None or event.failed:
                        self._database.execute("DELETE FROM claims WHERE key = ?", (event.key,))
                    if event.vector is not None:
                        blob = np.asarray(event.vector, "<f4").tobytes()
                        self._database.execute(ANSWERED, (event.key, request, blob, now))
                    elif event.noted:
                        self._database.execute(NOTED, (event.key, request, now))
                    elif event.failed:
                        self._database.execute(FAILED, (event.key,))
                    else:
                        self._database.execute(SENT, (event.key, request, now))
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:
                    self._database.execute("ROLLBACK")
                raise
        return taken

    def _claim(self, event: CallEvent, now: float) -> Taken | None:
        """Claim an image for this process, within a transaction; if another has it, say so."""
        found = self._database.execute("SELECT vector FROM calls WHERE key = ?", (event.key,)).fetchone()
        vector = _vector(found[0]) if found else None
        if vector is not None:
            return Taken(vector)
        query = "SELECT holder, until FROM claims WHERE key = ?"
        held = self._database.execute(query, (event.key,)).fetchone()
        if held and held[0] != self._holder and held[1] > now and _lives(str(held[0])):
            return Taken()
        row = event.key, self._holder, now + event.seconds
        self._database.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", row)
        return None

    def store_fact(self, name: str, value: str) -> None:
        """Keep something that the server said of itself."""
        with self._lock, self._checked("written"):
            self._database.execute("INSERT OR REPLACE INTO told VALUES (?, ?)", (name, value))

    def fact(self, name: str) -> str | None:
        rows = self._read("SELECT value FROM told WHERE name = ?", [name])
        return str(rows[0][0]) if rows else None

    def _read(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._lock, self._checked("read"):
            return self._database.execute(query, tuple(values)).fetchall()

    def _read_keys(self, query: str, keys: Sequence[bytes], *values: object) -> Iterator[tuple[Any, ...]]:
        """The rows of a query for these keys, some of them at a time."""
        for start in range(0, len(keys), KEYS_PER_QUERY):
            part = keys[start : start + KEYS_PER_QUERY]
            yield from self._read(f"{query} AND key IN ({', '.join('?' * len(part))})", [*values, *part])

    @contextmanager
    def _checked(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            said = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            raise StoreError(
                f"The journal '{self.path}' cannot be {what} ({said}). Answers in it are kept; free disk space, or "
                "set another `journal` in the endpoint's TOML file."
            ) from error


class JournalWriter:
    """Writes the events of many coroutines together: what arrives during one transaction is the next one."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._pending: list[tuple[bytes, CallEvent, asyncio.Future[Taken | None]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def write(self, request: bytes, event: CallEvent) -> Taken | None:
        """Return once the event is on disk; it is written even if the caller is cancelled meanwhile."""
        done: asyncio.Future[Taken | None] = asyncio.get_running_loop().create_future()
        self._pending.append((request, event, done))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_pending())
        return await asyncio.shield(done)

    async def _write_pending(self) -> None:
        while self._pending:
            request = self._pending[0][0]
            taken = [item for item in self._pending if item[0] == request]
            self._pending = [item for item in self._pending if item[0] != request]
            failed: Exception | None = None
            found: list[Taken | None] = [None] * len(taken)
            try:
                found = await asyncio.to_thread(self._journal.write, request, [event for _, event, _ in taken])
            except Exception as error:
                failed = error
            for (_, _, done), outcome in zip(taken, found, strict=True):
                if failed is not None:
                    done.set_exception(failed)
                    done.exception()  # seen, though nobody may wait for it any more
                elif not done.done():
                    done.set_result(outcome)


def _vector(blob: object) -> Responses | None:
    """A stored answer; None if it is damaged."""
    vector = np.frombuffer(blob, "<f4") if isinstance(blob, bytes) and len(blob) % 4 == 0 else None
    return vector.astype(np.float32) if vector is not None and len(vector) and np.isfinite(vector).all() else None


def _lives(holder: str) -> bool:
    """Whether the process that holds a claim may still be running; one of another machine may be."""
    node, number, *_ = [*holder.split(" "), "", ""]
    if node != platform.node() or not number.isdecimal() or sys.platform == "win32":
        return True
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


def default_journal(digest: str) -> Path:
    """Where an endpoint's journal is kept by default: with the user's data, because it cannot be recomputed."""
    return user_data_path("yoro", appauthor=False) / "answers" / f"{digest[:32]}.sqlite"
