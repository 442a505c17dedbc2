"""Photos that come in: files, folders or archives become photos of the workspace; what cannot be read is named."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from yoro import limits
from yoro.data.archives import is_archive, is_other_archive
from yoro.data.decoding import file_bytes
from yoro.data.examples import Dataset, Example, Member, checked_label
from yoro.data.find import find
from yoro.data.geometry import Geometry
from yoro.data.processes import Budget
from yoro.data.thumbnails import thumbnail
from yoro.errors import ImageError, InputError, counted, one_line
from yoro.http.uploads import Upload
from yoro.model.model import Json
from yoro.studio.edits import UNSORTED
from yoro.studio.workspace import Workspace

THUMBNAIL = Geometry(192, fit="crop")
MOST_NAME = 100  # characters of a photo's name that are kept
MOST_NAMED = 20  # files of one request that could not be added


class SavedPhoto(NamedTuple):
    """A photo that was saved; with the name of its class if it has one, and whether it is for testing."""

    digest: str
    name: str
    label: str | None
    aside: bool = False


@dataclass(frozen=True)
class Goal:
    """Where files go: the class of a number or of a name, which may be new; else to classes by their folders.

    aside : whether they are kept for testing.
    drop : the word of the drop that they are a part of.
    """

    number: int | None = None
    name: str | None = None
    aside: bool = False
    drop: str = ""


@dataclass
class Added:
    """How many photos of a request were new, moved, known or refused."""

    new: int = 0
    moved: int = 0
    known: int = 0
    tests: int = 0  # of the new ones, kept for testing
    refused: list[str] = field(default_factory=list)  # sentences

    def to_json(self) -> Json:
        return {**vars(self), "refused": self.sentences()}

    def sentences(self) -> list[str]:
        """What was left out, and why; the first ones if there are many."""
        said, rest = self.refused[:MOST_NAMED], len(self.refused) - MOST_NAMED
        if rest > 0:
            said.append(f"And {counted(rest, 'more file')}.")
        return said


def add_uploads(work: Workspace, uploads: Sequence[Upload], geometry: Geometry, goal: Goal) -> Added:
    """Add uploaded files."""
    budget, found = Budget(sum(len(upload.content) for upload in uploads)), list[SavedPhoto]()
    incoming = _Incoming(work, geometry, goal.aside, budget)
    for upload in uploads:
        if is_archive(Path(upload.name)) or is_other_archive(Path(upload.name)):
            found += _in_archive(incoming, upload, sorting=goal.number is None and goal.name is None)
        else:
            found += incoming.keep(upload.content, upload.name, None)
    _place(work, found, goal, incoming.added)
    return incoming.added


def add_data(work: Workspace, data: Path, geometry: Geometry) -> Added:
    """Add a folder, an archive or a list of labelled photos; those of a test split are kept for testing."""
    incoming = _Incoming(work, geometry)
    dataset = find(data)
    _check_classes(dataset)
    _place(work, list(incoming.keep_all(dataset)), Goal(), incoming.added)
    return incoming.added


class _Incoming:
    """Saves photos in the workspace, and counts those that cannot be."""

    def __init__(self, work: Workspace, geometry: Geometry, aside: bool = False, budget: Budget | None = None) -> None:
        self.added = Added()
        self._work, self._geometry, self._aside, self._budget = work, geometry, aside, budget

    def keep(self, content: bytes, name: str, label: str | None, aside: bool = False) -> Iterator[SavedPhoto]:
        """The photo, once it is saved; nothing if it cannot be read."""
        try:
            decoded = self._work.decoders.decode(content, name, self._geometry, THUMBNAIL, self._budget)
        except ImageError as error:
            self.added.refused.append(one_line(error))
            return
        digest = decoded.digests[0]
        self._work.keep(digest, content, thumbnail(decoded.smalls[0], THUMBNAIL.side), decoded.pixels[0])
        short = name.replace("\\", "/").rpartition("/")[2][-MOST_NAME:]
        yield SavedPhoto(digest, short, label, aside or self._aside)

    def keep_all(self, dataset: Dataset) -> Iterator[SavedPhoto]:
        """The photos of a dataset; those of its test split are for testing."""
        room = limits.STUDIO_UNPACKED_BYTES
        for example in dataset.examples:
            try:
                content = _content(example)
            except (OSError, ImageError) as error:
                self.added.refused.append(f"'{example.name}' cannot be read: {one_line(error)}")
                continue
            room -= len(content)
            if room < 0:
                most = limits.STUDIO_UNPACKED_BYTES
                raise InputError(f"The archive or folder has more than {most:,} bytes of photos; split it.")
            yield from self.keep(content, example.name, example.label, example.split == "test")


def _in_archive(incoming: _Incoming, upload: Upload, *, sorting: bool) -> list[SavedPhoto]:
    """The photos of an archive; `sorting` if its folders are classes."""
    suffix = "".join(Path(upload.name).suffixes[-2:]).lower()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"archive{suffix}"
        path.write_bytes(upload.content)
        try:
            try:
                dataset = find(path)
            except InputError:
                dataset = find(path, labelled=False)  # photos without folders around them
        except InputError as error:
            incoming.added.refused.append(one_line(error).replace(str(path), upload.name))
            return []
        if sorting:
            _check_classes(dataset)
        return list(incoming.keep_all(dataset))


def _check_classes(dataset: Dataset) -> None:
    """Raise before anything is decoded if there are too many classes."""
    if len({example.label for example in dataset.examples}) > limits.STUDIO_CLASSES:
        raise InputError(f"That makes more than {limits.STUDIO_CLASSES:,} classes; use `yoro fit`.")


def _content(example: Example) -> bytes:
    image = example.image
    if not isinstance(image, Path | Member | bytes):
        raise image if isinstance(image, OSError) else ImageError("not a file.")
    return file_bytes(image)


def _place(work: Workspace, found: Sequence[SavedPhoto], goal: Goal, added: Added) -> None:
    """Put photos into classes as one step, which also adds new classes."""
    number = goal.number
    with work.lock:
        state = work.state
        if number not in (None, UNSORTED):
            state.check_class(number or 0)
        wanted = [goal.name or (one.label if number is None else None) for one in found]
        names = [None if one is None else checked_label(one) for one in wanted]
        made = state.new_classes(one for one in names if one is not None)
        numbers = {called: n for n, called in state.classes.items()} | {called: n for n, _, called in made}
        belongs = [(number or UNSORTED) if one is None else numbers[one] for one in names]
        placed = [(one.digest, one.name, n, one.aside) for one, n in zip(found, belongs, strict=True)]
        edit = state.adding_photos(placed)
        added.new = sum(before is None for _, before, _ in edit.photos)
        added.tests = sum(before is None and after is not None and after.aside for _, before, after in edit.photos)
        added.moved = len(edit.photos) - added.new
        added.known = len({digest for digest, *_ in placed}) - len(edit.photos)
        work.do(replace(edit, classes=made, drop=goal.drop))
