"""A session at the desk: the pile is read once, and every step is in the journal of the work folder."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from yoro import limits
from yoro.data.examples import Dataset, Example, Later, Picture
from yoro.data.find import find
from yoro.data.geometry import Geometry
from yoro.data.processes import DecoderPool
from yoro.data.sorting import content_of
from yoro.data.thumbnails import thumbnail
from yoro.desk.desk import Desk, Entry
from yoro.desk.proposals import Pile
from yoro.environment import cores
from yoro.errors import ImageError, InputError, StoreError, counted, one_line
from yoro.files.journal import open_journal, writing
from yoro.model.pipeline import Pipeline
from yoro.model.settings import Loading

JOURNAL = "desk.sqlite"
THUMBNAIL = Geometry(192, fit="crop")
TABLES = (
    "CREATE TABLE IF NOT EXISTS facts (fact TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """CREATE TABLE IF NOT EXISTS photos
    (row INTEGER PRIMARY KEY, place BLOB UNIQUE, name TEXT, stamp TEXT, digest BLOB, response BLOB, small BLOB)""",
    "CREATE TABLE IF NOT EXISTS journal (step INTEGER PRIMARY KEY, entry TEXT NOT NULL)",
)

ADD = """INSERT INTO photos (place, name, stamp, digest, response) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (place) DO UPDATE
SET stamp = excluded.stamp, digest = excluded.digest, response = excluded.response, small = NULL"""

Tell = Callable[[str], None]


class DeskSession:
    """A desk whose steps survive the process, and the photos behind its rows."""

    def __init__(self, folder: Path, data: str, pipeline: Pipeline, *, tell: Tell, loading: Loading) -> None:
        self.folder, self._lock = folder, threading.RLock()
        self._database = open_journal(folder, JOURNAL, TABLES, "desk")
        self._decoders = DecoderPool(cores())
        try:
            self._check_same(pipeline)
            self.examples = self._read(self._found(data), pipeline, loading, tell)
            self.desk = self._desk(pipeline)
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        """Unlock the folder."""
        with self._lock:
            self._decoders.close()
            self._database.close()

    def small(self, row: int) -> bytes | None:
        """The thumbnail of a photo; None if its file is gone."""
        with self._lock:
            kept = self._database.execute("SELECT small FROM photos WHERE row = ?", (row,)).fetchone()
            if kept is not None and kept[0] is not None:
                return bytes(kept[0])
        if row not in self.examples:
            return None
        example = self.examples[row]
        try:
            pixels = self._decoders.decode(content_of(example.image), example.name, THUMBNAIL).pixels[0]
        except (OSError, ImageError):
            return None
        made = thumbnail(pixels, THUMBNAIL.side)
        with self._lock, writing(self._database, self.folder) as database:
            database.execute("UPDATE photos SET small = ? WHERE row = ?", (made, row))
        return made

    def labelled(self) -> list[tuple[Example, str]]:
        """The photos that have a label, with their labels; the file of one may be gone."""
        labels = self.desk.labels
        return [(self.examples[row], label) for row, label in enumerate(labels) if label is not None]

    def _found(self, data: str) -> Dataset:
        """The photos of the pile; none if all of them were moved away since."""
        try:
            found = find(data, labelled=False).from_here()
        except InputError:
            if not Path(data).is_dir() or not self._database.execute("SELECT 1 FROM photos").fetchone():
                raise
            found = Dataset(())
        if len(found) > limits.STUDIO_PHOTOS:
            raise InputError(f"The pile has {len(found):,} photos; the desk takes {limits.STUDIO_PHOTOS:,} at a time.")
        return found

    def _check_same(self, pipeline: Pipeline) -> None:
        """Raise if the work was begun with another network."""
        mine = json.dumps(pipeline.describe(), sort_keys=True, default=str)
        with writing(self._database, self.folder) as database:
            database.execute("INSERT OR IGNORE INTO facts VALUES ('source', ?)", (mine,))
            (before,) = database.execute("SELECT value FROM facts WHERE fact = 'source'").fetchone()
        if before != mine:
            raise InputError(f"The work in '{self.folder}' was begun with another --source; choose another --work.")

    def _read(self, found: Dataset, pipeline: Pipeline, loading: Loading, tell: Tell) -> dict[int, Example]:
        """The example of every row; photos that are new or changed go through the network."""
        stamped = self._database.execute("SELECT place, stamp FROM photos")
        known = {bytes(place): str(stamp) for place, stamp in stamped}
        here = {_place(example): example for example in found.examples}
        new = [place for place, example in here.items() if known.get(place) != _stamp(example.image)]
        for note in found.notes:
            tell(note)
        if len(new) < len(here):
            tell(f"{counted(len(here) - len(new), 'photo')} read before.")
        by_name = {here[place].name: place for place in new}
        stream = pipeline.stream([here[place] for place in by_name.values()], loading)
        for batch in stream.shown("reading the pile", True):
            places = [by_name[name] for name in batch.names]
            values = [
                (place, here[place].name, _stamp(here[place].image), digest, np.asarray(row, dtype="<f4").tobytes())
                for place, digest, row in zip(places, batch.digests, batch.responses, strict=True)
            ]
            with self._lock, writing(self._database, self.folder) as database:
                database.executemany(ADD, values)
        for _, message in stream.skipped:
            tell(f"Left out: {message}")
        listed = self._database.execute("SELECT row, place, name FROM photos")
        photos = dict[int, Example]()
        for row, place, name in listed:  # one that is no longer in the pile counts as moved
            photos[row - 1] = here.get(bytes(place)) or Example(Path(os.fsdecode(bytes(place))), None, str(name))
        return photos

    def _desk(self, pipeline: Pipeline) -> Desk:
        """The desk as the journal left it; photos that came later are among the rest."""
        try:
            listed = list(self._database.execute("SELECT name, digest, response FROM photos ORDER BY row"))
            responses = [np.frombuffer(response, dtype="<f4") for _, _, response in listed]
            if any(len(response) != pipeline.layout.width or not np.isfinite(response).all() for response in responses):
                raise ValueError("a response has the wrong width")
            rows = np.array(responses, dtype=np.float32).reshape(len(listed), pipeline.layout.width)
            digests, names = [bytes(digest) for _, digest, _ in listed], [str(name) for name, _, _ in listed]
            pile = Pile(pipeline.layout, rows, digests, names)
            steps = self._database.execute("SELECT entry FROM journal ORDER BY step")
            entries = [json.loads(entry) for (entry,) in steps]
            groups = entries[0]["groups"] + [0] * (len(pile) - len(entries[0]["groups"])) if entries else None
            desk = Desk(pile, groups, entries[1:], self.note)
        except (sqlite3.Error, KeyError, ValueError, TypeError, RecursionError) as error:
            if isinstance(error, InputError) and not entries:
                raise
            told = f"The journal in '{self.folder}' is damaged ({one_line(error)})"
            raise StoreError(f"{told}; choose another --work to start over.") from error
        if not entries:
            self.note({"groups": desk.first_groups})
        return desk

    def note(self, entry: Entry) -> None:
        """Write a step down before it is taken."""
        with self._lock, writing(self._database, self.folder) as database:
            database.execute("INSERT INTO journal (entry) VALUES (?)", (json.dumps(entry),))


def _stamp(image: Picture) -> str:
    """What changes when a file does."""
    if isinstance(image, Path):
        try:
            status = image.stat()
        except OSError:
            return ""
        return f"{status.st_size} {status.st_mtime_ns}"
    return image.stamp if isinstance(image, Later) else ""


def _place(example: Example) -> bytes:
    """Where a photo is, in any working directory."""
    image = example.image
    return os.fsencode(os.path.abspath(image)) if isinstance(image, Path) else example.name.encode()  # noqa: PTH100


def group_name(group: int) -> str:
    """What a group is called where it is a folder."""
    return f"group {group:03d}"
