"""A journal in a folder: an SQLite database of one process, in which a step is on disk before it is taken."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from yoro.errors import InputError, StoreError, one_line

SETTINGS = ("trusted_schema = OFF", "locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL")


def open_journal(folder: Path, name: str, tables: Iterable[str], who: str) -> sqlite3.Connection:
    """Open the database of this name in a folder, locked; `who` names the other program that might have it open."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise InputError(f"'{folder}' is a file; choose a folder as --work (it is created if needed).") from None
    except OSError as error:
        raise StoreError(f"Cannot create '{folder}': {error.strerror or error}. Choose another --work.") from None
    database = sqlite3.connect(folder / name, timeout=1.0, check_same_thread=False)
    try:
        for setting in SETTINGS:
            database.execute(f"PRAGMA {setting}")
        with database:
            database.execute("BEGIN EXCLUSIVE")
            for table in tables:
                database.execute(table)
        return database
    except sqlite3.Error as error:
        database.close()
        if "locked" in str(error):
            raise InputError(f"Another {who} has '{folder}' open. Use that one, or choose another --work.") from None
        raise StoreError(f"'{folder / name}' is damaged: {one_line(error)}. Choose another --work.") from error


@contextmanager
def writing(database: sqlite3.Connection, folder: Path) -> Iterator[sqlite3.Connection]:
    """A transaction; what goes wrong is a StoreError."""
    try:
        with database:
            yield database
    except sqlite3.Error as error:
        raise StoreError(f"Cannot write to '{folder}': {one_line(error)}.") from error
