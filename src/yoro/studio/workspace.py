"""The work folder: photos by their content, a journal of every step, and the responses computed so far.

A step is on disk before the page is told; after a crash the steps are replayed from the journal.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro import limits
from yoro.data.decoding import file_bytes
from yoro.data.geometry import Geometry
from yoro.data.processes import DecoderPool
from yoro.environment import cores
from yoro.errors import InputError, StoreError, YoroError, one_line
from yoro.files.atomic import write_file
from yoro.files.journal import open_journal, writing
from yoro.model.model import Json, Model
from yoro.model.store import model_digest, read_model, write_model
from yoro.studio.base_model import Base, base_of, check_openable
from yoro.studio.edits import FORGOTTEN, Edit
from yoro.studio.state import Brought, State

JOURNAL = "work.sqlite"
DIGEST = re.compile(r"[0-9a-f]{32}")
TABLES = (
    "CREATE TABLE IF NOT EXISTS journal (step INTEGER PRIMARY KEY, entry TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS responses (digest TEXT, source TEXT, response BLOB, PRIMARY KEY (digest, source))",
)
DECODED_BYTES = 128 * limits.MB  # of photos that are decoded, but not yet read by the network
UNDO: Json = {"undo": True}
REDO: Json = {"redo": True}
BEGIN: Json = {"begin": True}

Responses = dict[str, NDArray[np.float32]]


class Workspace:
    """A work folder in use, locked against other processes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, State()
        self.key = hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:16]  # tells one work from another
        self.base: Base | None = None  # the model that the work begins with
        self._decoded: dict[str, NDArray[np.uint8]] = {}  # pixels of new photos, oldest first
        self._bases: dict[str, Base] = {}
        self._lock = threading.RLock()
        self.decoders = DecoderPool(cores())
        self._database = open_journal(folder, JOURNAL, TABLES, "studio")
        try:
            self._replay()
            self._follow()
        except YoroError:
            self._database.close()
            raise

    def close(self) -> None:
        self.decoders.close()
        with self._lock:
            self._database.close()

    @property
    def lock(self) -> threading.RLock:
        """To be held while the state is read or changed."""
        return self._lock

    def do(self, edit: Edit) -> None:
        """Take a step and save it; one that changes nothing is not saved."""
        with self._lock:
            if not edit.empty:
                self._write(edit.to_json())
                self.state.do(edit)
                self._follow()

    def undo(self) -> str:
        """Undo the last step; returns its title."""
        with self._lock:
            return self._replayed(UNDO, self.state.done, self.state.undo, "undo")

    def redo(self) -> str:
        """Redo the step that was undone last; returns its title."""
        with self._lock:
            return self._replayed(REDO, self.state.undone, self.state.redo, "redo")

    def _replayed(self, entry: Json, steps: list[Edit], do: Callable[[], None], verb: str) -> str:
        if not steps:
            raise InputError(f"There is nothing to {verb}.")
        what = steps[-1].what
        self._write(entry)
        do()
        self._follow()
        return what

    def open(self, model: Model, name: str) -> bool:
        """Start from a model, as a step; returns False if it was already open."""
        check_openable(model, name)
        key = model_digest(model)[:32]
        with self._lock:
            edit = self.state.opening(key, name, model.statistics.classes)
            if not self._model(key).exists():
                self._model(key).parent.mkdir(parents=True, exist_ok=True)
                write_model(model, self._model(key))
            self.do(edit)
            return not edit.empty

    def keep(self, digest: str, content: bytes, small: bytes, pixels: NDArray[np.uint8]) -> None:
        """Save the file of a photo and its thumbnail; its pixels wait for the network, as far as there is room."""
        for path, part in ((self.photo(digest), content), (self.small(digest), small)):
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_file(path, part)
        with self._lock:
            self._decoded[digest] = pixels
            while len(self._decoded) * pixels.nbytes > DECODED_BYTES:
                del self._decoded[next(iter(self._decoded))]

    def pixels(self, digest: str, geometry: Geometry, name: str) -> NDArray[np.uint8]:
        """The pixels of a photo, decoded when it came in; from its file if they were not kept."""
        with self._lock:
            found = self._decoded.pop(digest, None)
        if found is not None:
            return found
        square: NDArray[np.uint8] = self.decoders.decode(file_bytes(self.photo(digest)), name, geometry).pixels[0]
        return square

    def photo(self, digest: str) -> Path:
        """The file of a photo; it is named by the digest of its content, never by the client."""
        return self._place("photos", digest)

    def small(self, digest: str) -> Path:
        return self._place("small", digest)

    def responses(self, source: str, width: int) -> Responses:
        """The saved responses of a backbone, by digest."""
        with self._lock:
            rows = self._database.execute("SELECT digest, response FROM responses WHERE source = ?", (source,))
            found = {str(digest): np.frombuffer(blob, dtype="<f4") for digest, blob in rows}
        return {digest: row for digest, row in found.items() if len(row) == width and np.isfinite(row).all()}

    def keep_responses(self, source: str, new: Mapping[str, NDArray[np.floating]]) -> None:
        """Save responses, so that no photo goes through the network twice."""
        rows = [(digest, source, np.asarray(row, dtype="<f4").tobytes()) for digest, row in new.items()]
        with self._lock, self._writing() as database:
            database.executemany("INSERT OR REPLACE INTO responses VALUES (?, ?, ?)", rows)

    def tidy(self) -> int:
        """Delete removed photos for good, with the history of steps; returns how many. Nothing can be undone then."""
        with self._lock:
            state, kept = self.state, self.state.photos
            names = tuple((number, None, name) for number, name in state.classes.items())
            photos = tuple((digest, None, photo) for digest, photo in kept.items())
            whole = Edit("Tidy up", names, photos, (None, state.model) if state.model else None)
            with self._writing() as database:
                database.execute("PRAGMA secure_delete = ON")
                database.execute("DELETE FROM journal")
                database.execute("INSERT INTO journal (entry) VALUES (?)", (json.dumps(whole.to_json() | BEGIN),))
                known = [digest for (digest,) in database.execute("SELECT digest FROM responses")]
                gone = [(digest,) for digest in known if digest not in kept]
                database.executemany("DELETE FROM responses WHERE digest = ?", gone)
            with self._writing() as database:
                database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.state = State.beginning(whole)
            self._follow()
            return sum(self._delete(kind) for kind in ("small", "photos"))

    def _delete(self, kind: str) -> int:
        """Delete the files of one kind whose photo is gone; returns how many photos these were."""
        photos = self.state.photos
        here = {digest for digest, photo in photos.items() if photo.belongs != FORGOTTEN}
        stray = [path for path in (self.folder / kind).glob("??/*") if path.parent.name + path.name not in here]
        for path in stray:
            path.unlink()
        return len(stray) if kind == "photos" else 0

    def _place(self, kind: str, digest: str) -> Path:
        if not DIGEST.fullmatch(digest):
            raise InputError("Not the digest of a photo; expected 32 hex digits.")
        return self.folder / kind / digest[:2] / digest[2:]

    def _model(self, key: str) -> Path:
        if not DIGEST.fullmatch(key):
            raise StoreError(f"The journal in '{self.folder}' is damaged (invalid model name).")
        return self.folder / "models" / f"{key}.yoro"

    def _follow(self) -> None:
        """Load the model that the state starts from."""
        opened = self.state.model
        if opened is not None and opened.key not in self._bases:
            self._bases[opened.key] = base_of(opened.key, read_model(self._model(opened.key)))
            if {label for label, _ in opened.classes} != set(self._bases[opened.key].brought.counts):
                raise StoreError(f"The model in '{self.folder}' does not match its journal; choose another --work.")
        self.base = None if opened is None else self._bases[opened.key]
        self.state.brought = Brought() if self.base is None else self.base.brought

    def _write(self, entry: Json) -> None:
        with self._writing() as database:
            database.execute("INSERT INTO journal (entry) VALUES (?)", (json.dumps(entry),))

    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        return writing(self._database, self.folder)

    def _replay(self) -> None:
        try:
            for (entry,) in self._database.execute("SELECT entry FROM journal ORDER BY step"):
                step = json.loads(entry)
                if step == UNDO:
                    self.state.undo()
                elif step == REDO:
                    self.state.redo()
                elif "begin" in step:
                    self.state = State.beginning(Edit.from_json(step))
                else:
                    self.state.do(Edit.from_json(step))
            stray = {photo.belongs for photo in self.state.photos.values()} - {0, FORGOTTEN, *self.state.classes}
            if stray or not all(map(DIGEST.fullmatch, self.state.photos)):
                raise ValueError("a photo belongs to no class")
        except (sqlite3.Error, KeyError, ValueError, TypeError, IndexError, RecursionError) as error:
            raise StoreError(
                f"The journal in '{self.folder}' is damaged ({one_line(error)}). Its photos are in 'photos'; "
                "choose another --work to start over."
            ) from error
