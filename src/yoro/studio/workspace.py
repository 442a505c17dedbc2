"""The work folder: photos by their content, a journal of every step, and the responses read so far.

What a person did is on the disk before the page is told; after a kill the steps are taken again from the journal.
"""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro.errors import InputError, StoreError, YoroError, one_line
from yoro.files.atomic import write_file
from yoro.model.model import Model
from yoro.model.store import model_digest, read_model, write_model
from yoro.studio.base_model import Base, base_of, check_openable
from yoro.studio.edits import FORGOTTEN, Change
from yoro.studio.state import Brought, State

JOURNAL = "work.sqlite"
DIGEST = re.compile(r"[0-9a-f]{32}")
TABLES = (
    "CREATE TABLE IF NOT EXISTS journal (step INTEGER PRIMARY KEY, entry TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS responses (digest TEXT, source TEXT, response BLOB, PRIMARY KEY (digest, source))",
)
SETTINGS = ("trusted_schema = OFF", "locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL")
UNDO, REDO, BEGIN = {"undo": True}, {"redo": True}, {"begin": True}

Responses = dict[str, NDArray[np.float32]]


class Work:
    """A work folder in use; no other process can use it meanwhile."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, State()
        self.base: Base | None = None  # the model that the work begins with
        self._bases: dict[str, Base] = {}
        self._lock = threading.RLock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise InputError(f"'{folder}' is a file; give a folder, or one that is not there yet, as --work.") from None
        self._database = _opened(folder)
        try:
            self._replay()
            self._follow()
        except YoroError:
            self._database.close()
            raise

    def close(self) -> None:
        """Let others use the folder."""
        with self._lock:
            self._database.close()

    @property
    def lock(self) -> threading.RLock:
        """To be held while the state is read and changed."""
        return self._lock

    def do(self, change: Change) -> None:
        """Take a step, and keep it; nothing is kept of one that changes nothing."""
        with self._lock:
            if not change.empty:
                self._write(change.to_json())
                self.state.do(change)
                self._follow()

    def undo(self) -> str:
        """Take the last step back; what it was."""
        with self._lock:
            if not self.state.done:
                raise InputError("There is nothing to undo.")
            self._write(UNDO)
            self.state.undo()
            self._follow()
            return self.state.undone[-1].what

    def redo(self) -> str:
        """Take the step again that was last taken back; what it was."""
        with self._lock:
            if not self.state.undone:
                raise InputError("There is nothing to do again.")
            self._write(REDO)
            self.state.redo()
            self._follow()
            return self.state.done[-1].what

    def open(self, model: Model, name: str) -> bool:
        """Begin with a model, as a step; whether it was not open already."""
        check_openable(model, name)
        key = model_digest(model)[:32]
        with self._lock:
            change = self.state.opening(key, name, model.statistics.classes)
            if not self._model(key).exists():
                self._model(key).parent.mkdir(parents=True, exist_ok=True)
                write_model(model, self._model(key))
            self.do(change)
            return not change.empty

    def keep(self, digest: str, content: bytes, small: bytes) -> None:
        """Keep the file of a photo, and a small picture of it."""
        for path, part in ((self.photo(digest), content), (self.small(digest), small)):
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_file(path, part)

    def photo(self, digest: str) -> Path:
        """Where the file of a photo lies; its name is its content's digest and nothing of a client's."""
        return self._place("photos", digest)

    def small(self, digest: str) -> Path:
        """Where a small picture of it lies."""
        return self._place("small", digest)

    def responses(self, source: str, width: int) -> Responses:
        """All responses of a source that were read before."""
        with self._lock:
            rows = self._database.execute("SELECT digest, response FROM responses WHERE source = ?", (source,))
            found = {str(digest): np.frombuffer(blob, dtype="<f4") for digest, blob in rows}
        return {digest: row for digest, row in found.items() if len(row) == width and np.isfinite(row).all()}

    def keep_responses(self, source: str, new: Mapping[str, NDArray[np.floating]]) -> None:
        """Keep responses, so that no photo is read twice."""
        rows = [(digest, source, np.asarray(row, dtype="<f4").tobytes()) for digest, row in new.items()]
        with self._lock:
            self._commit("INSERT OR REPLACE INTO responses VALUES (?, ?, ?)", rows)

    def tidy(self) -> int:
        """Delete the photos that were removed, with all that is known of them; how many. Nothing can be undone then."""
        with self._lock:
            state, kept = self.state, self.state.photos
            names = tuple((number, None, name) for number, name in state.classes.items())
            photos = tuple((digest, None, photo) for digest, photo in kept.items())
            whole = Change("Tidy up", names, photos, (None, state.model) if state.model else None)
            try:
                self._database.execute("PRAGMA secure_delete = ON")
                with self._database:
                    self._database.execute("DELETE FROM journal")
                    self._database.execute(
                        "INSERT INTO journal (entry) VALUES (?)", (json.dumps(whole.to_json() | BEGIN),)
                    )
                    known = [digest for (digest,) in self._database.execute("SELECT digest FROM responses")]
                    gone = [(digest,) for digest in known if digest not in kept]
                    self._database.executemany("DELETE FROM responses WHERE digest = ?", gone)
                self._database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            except sqlite3.Error as error:
                raise StoreError(f"Nothing can be written to '{self.folder}': {one_line(error)}.") from error
            self.state = State.beginning(whole)
            self._follow()
            return sum(self._delete(kind) for kind in ("small", "photos"))

    def _delete(self, kind: str) -> int:
        """Delete the files of one kind whose photo is not there; how many photos these were."""
        photos = self.state.photos
        here = {digest for digest, photo in photos.items() if photo.belongs != FORGOTTEN}
        stray = [path for path in (self.folder / kind).glob("??/*") if path.parent.name + path.name not in here]
        for path in stray:
            path.unlink()
        return len(stray) if kind == "photos" else 0

    def _place(self, kind: str, digest: str) -> Path:
        if not DIGEST.fullmatch(digest):
            raise InputError("That is no photo's digest; expected 32 hex digits.")
        return self.folder / kind / digest[:2] / digest[2:]

    def _model(self, key: str) -> Path:
        if not DIGEST.fullmatch(key):
            raise StoreError(f"The journal in '{self.folder}' is damaged (a model has an odd name).")
        return self.folder / "models" / f"{key}.yoro"

    def _follow(self) -> None:
        """Have the model at hand that the state begins with."""
        opened = self.state.model
        if opened is not None and opened.key not in self._bases:
            self._bases[opened.key] = base_of(opened.key, read_model(self._model(opened.key)))
            if {label for label, _ in opened.classes} != set(self._bases[opened.key].brought.counts):
                raise StoreError(f"The model in '{self.folder}' is another than its journal says; begin anew.")
        self.base = None if opened is None else self._bases[opened.key]
        self.state.brought = Brought() if self.base is None else self.base.brought

    def _write(self, entry: Mapping[str, object]) -> None:
        self._commit("INSERT INTO journal (entry) VALUES (?)", [(json.dumps(entry),)])

    def _commit(self, order: str, rows: Iterable[tuple[object, ...]]) -> None:
        try:
            with self._database:
                self._database.executemany(order, rows)
        except sqlite3.Error as error:
            raise StoreError(f"Nothing can be written to '{self.folder}': {one_line(error)}.") from error

    def _replay(self) -> None:
        try:
            for (entry,) in self._database.execute("SELECT entry FROM journal ORDER BY step"):
                step = json.loads(entry)
                if step == UNDO:
                    self.state.undo()
                elif step == REDO:
                    self.state.redo()
                elif "begin" in step:
                    self.state = State.beginning(Change.from_json(step))
                else:
                    self.state.do(Change.from_json(step))
            stray = {photo.belongs for photo in self.state.photos.values()} - {0, FORGOTTEN, *self.state.classes}
            if stray or not all(map(DIGEST.fullmatch, self.state.photos)):
                raise ValueError("a photo belongs to no class")
        except (sqlite3.Error, KeyError, ValueError, TypeError, IndexError, RecursionError) as error:
            raise StoreError(
                f"The journal in '{self.folder}' is damaged ({one_line(error)}). Its photos are in 'photos'; "
                "give another --work to begin anew."
            ) from error


def _opened(folder: Path) -> sqlite3.Connection:
    """The database, for this process alone."""
    database = sqlite3.connect(folder / JOURNAL, timeout=1.0, check_same_thread=False)
    try:
        for setting in SETTINGS:
            database.execute(f"PRAGMA {setting}")
        with database:
            database.execute("BEGIN EXCLUSIVE")
            for table in TABLES:
                database.execute(table)
        return database
    except sqlite3.Error as error:
        database.close()
        if "locked" in str(error):
            raise InputError(f"Another studio has '{folder}' open. Use that one, or give another --work.") from None
        raise StoreError(f"'{folder / JOURNAL}' is damaged: {one_line(error)}. Give another --work.") from error
