"""The journal: every answer on disk before it is used, so that nothing is paid for twice."""

from __future__ import annotations

import hashlib
import os
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

from yoro.errors import StoreError, counted
from yoro.sources.protocol import Responses

# A call was sent so often, and so often the server, or the lack of one, told us that it came to nothing. What was sent
# and is neither answered nor known to have failed was lost on the wire: it may have been paid for.
CALLS = (
    "key BLOB PRIMARY KEY, request BLOB NOT NULL, sent INTEGER NOT NULL, failed INTEGER NOT NULL, vector BLOB, "
    "at REAL NOT NULL"
)
TABLES = (
    f"CREATE TABLE IF NOT EXISTS calls ({CALLS})",
    "CREATE INDEX IF NOT EXISTS requests ON calls (request)",
    "CREATE TABLE IF NOT EXISTS told (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
)
SETTINGS = ("trusted_schema = OFF", "journal_mode = WAL", "synchronous = FULL")
PATIENCE = 60.0  # seconds that one process waits for another to write
TOGETHER = 500  # keys of one question

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
    """Of one kind of request, over all runs: images answered, requests sent, and those of which nobody knows."""

    answered: int
    sent: int
    lost: int


@dataclass(frozen=True)
class Event:
    """What is to be written of one call: that it is sent, by us or in a file, that it failed, or its answer."""

    key: bytes
    failed: bool = False
    noted: bool = False
    vector: Responses | None = None


def call_key(request: bytes, pixels: NDArray[np.uint8]) -> bytes:
    """What makes a call the same: the request without its credentials, and the pixels."""
    hasher = hashlib.sha256(request)
    hasher.update(repr(pixels.shape).encode())
    hasher.update(np.ascontiguousarray(pixels).tobytes())
    return hasher.digest()


class Journal:
    """A file of calls and their answers; several processes may use it at once."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        self._lock = threading.Lock()
        with self._told("opened"):
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
        """Let go of the file."""
        with self._lock:
            self._database.close()

    def vectors(self, keys: Sequence[bytes], width: int | None = None) -> dict[bytes, Responses]:
        """The answers there are, by key; one that is damaged is none."""
        found: dict[bytes, Responses] = {}
        for start in range(0, len(keys), TOGETHER):
            part = keys[start : start + TOGETHER]
            marks = ", ".join("?" * len(part))
            query = f"SELECT key, vector FROM calls WHERE vector IS NOT NULL AND key IN ({marks})"
            for key, blob in self._read(query, part):
                vector = np.frombuffer(blob, "<f4") if isinstance(blob, bytes) and len(blob) % 4 == 0 else None
                if vector is not None and len(vector) == (width or len(vector)) > 0 and np.isfinite(vector).all():
                    found[bytes(key)] = vector.astype(np.float32)
        return found

    def known(self, request: bytes, keys: Sequence[bytes]) -> set[bytes]:
        """Which of the keys belong to this kind of request, answered or not."""
        found = set[bytes]()
        for start in range(0, len(keys), TOGETHER):
            part = keys[start : start + TOGETHER]
            marks = ", ".join("?" * len(part))
            query = f"SELECT key FROM calls WHERE request = ? AND key IN ({marks})"
            found |= {bytes(key) for (key,) in self._read(query, [request, *part])}
        return found

    def width(self, request: bytes) -> int | None:
        """Numbers of the answers to this kind of request, if there is one yet."""
        query = "SELECT length(vector) FROM calls WHERE request = ? AND vector IS NOT NULL LIMIT 1"
        rows = self._read(query, [request])
        return int(rows[0][0]) // 4 if rows else None

    def totals(self, request: bytes) -> Totals:
        """What became of the calls of this kind of request so far."""
        answered, sent, lost = self._read(TOTALS, [request])[0]
        return Totals(int(answered), int(sent), int(lost))

    def write(self, request: bytes, events: Iterable[Event]) -> None:
        """Write events in one step; when this returns they are on the disk."""
        now = time.time()
        with self._lock, self._told("written"):
            self._database.execute("BEGIN IMMEDIATE")
            try:
                for event in events:
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

    def tell(self, name: str, value: str) -> None:
        """Remember what a server said of itself."""
        with self._lock, self._told("written"):
            self._database.execute("INSERT OR REPLACE INTO told VALUES (?, ?)", (name, value))

    def told(self, name: str) -> str | None:
        """What it last said, if it was ever asked."""
        rows = self._read("SELECT value FROM told WHERE name = ?", [name])
        return str(rows[0][0]) if rows else None

    def _read(self, query: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._lock, self._told("read"):
            return self._database.execute(query, tuple(values)).fetchall()

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            said = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
            raise StoreError(
                f"The journal '{self.path}' cannot be {what} ({said}). Answers that are in it stay; make room, or "
                "name another with `journal` in the endpoint's file."
            ) from error


def spoken(totals: Totals) -> str:
    """Totals in a sentence."""
    said = f"{counted(totals.answered, 'answer')} in the journal from {counted(totals.sent, 'request')} so far"
    if not totals.lost:
        return f"{said}."
    return f"{said}; {counted(totals.lost, 'answer')} lost on the wire, which may have been paid for."


def default_journal(digest: str) -> Path:
    """Where the journal of an endpoint lies if nobody says where: with the user's data, for it cannot be made again."""
    if given := os.environ.get("XDG_DATA_HOME"):
        base = Path(given).expanduser() / "yoro"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support" / "yoro"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home())) / "yoro" / "data"
    else:
        base = Path.home() / ".local" / "share" / "yoro"
    return base / "answers" / f"{digest[:32]}.sqlite"
