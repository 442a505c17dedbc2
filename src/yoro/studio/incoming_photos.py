"""Photos that come in: files or archives become photos of the work folder, and what is no photo is named."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from yoro import limits
from yoro.data.archive_members import Member
from yoro.data.archives import is_archive, is_other_archive
from yoro.data.decoding import decode_and_digest, file_bytes
from yoro.data.examples import Dataset, Example
from yoro.data.find import find
from yoro.data.geometry import Geometry
from yoro.errors import ImageError, InputError, counted, one_line
from yoro.http.uploads import Upload
from yoro.model.model import Json
from yoro.reports.evaluation import thumbnail
from yoro.serve.feedback import checked_label
from yoro.studio.edits import UNSORTED, Change
from yoro.studio.workspace import Work

SMALL = Geometry(192, fit="crop")  # pictures of photos on the page
MOST_NAME = 100  # characters of a photo's name that are kept
MOST_TOLD = 20  # photos that could not be added, of one request

Found = tuple[str, str, str | None]  # digest, name, and the name of the class if it has one


@dataclass
class Added:
    """What became of photos that came."""

    new: int = 0
    moved: int = 0
    known: int = 0
    tests: int = 0  # left out, because what is tested on is never learned
    refused: list[str] = field(default_factory=list)  # sentences

    def to_json(self) -> Json:
        """As the page reads it."""
        return {"new": self.new, "moved": self.moved, "known": self.known, "refused": self.sentences()}

    def sentences(self) -> list[str]:
        """What was left out, and why; of many the first."""
        told, rest = self.refused[:MOST_TOLD], len(self.refused) - MOST_TOLD
        if rest > 0:
            told.append(f"And {counted(rest, 'more file')}.")
        if self.tests:
            told.append(f"{counted(self.tests, 'photo')} of a test split left out: what is tested on is never learned.")
        return told


def add_uploads(work: Work, uploads: Sequence[Upload], number: int | None, name: str | None = None) -> Added:
    """Add files as they came: to the class of a number, or of a name, which may be new, or as their folders say."""
    added, found = Added(), list[Found]()
    for upload in uploads:
        if is_archive(Path(upload.name)) or is_other_archive(Path(upload.name)):
            found += _in_archive(work, upload, added, sorting=number is None and name is None)
        else:
            found += _kept(work, upload.content, upload.name, None, added)
    _place(work, found, number, name, added)
    return added


def add_data(work: Work, data: Path) -> Added:
    """Add a folder, an archive or a list of labelled photos; a test split stays out."""
    added = Added()
    dataset = find(data)
    _check_classes(dataset)
    _place(work, list(_of(work, dataset, added)), None, None, added)
    return added


def _in_archive(work: Work, upload: Upload, added: Added, *, sorting: bool) -> list[Found]:
    """What an archive holds; `sorting` if its folders are classes."""
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
            added.refused.append(one_line(error).replace(str(path), upload.name))
            return []
        if sorting:
            _check_classes(dataset)
        return list(_of(work, dataset, added))


def _check_classes(dataset: Dataset) -> None:
    """Raise before anything is decoded if there are too many."""
    if len({example.label for example in dataset.examples}) > limits.STUDIO_CLASSES:
        raise InputError(f"There would be more than {limits.STUDIO_CLASSES:,} classes; use `yoro fit`.")


def _of(work: Work, dataset: Dataset, added: Added) -> Iterator[Found]:
    room = limits.STUDIO_UNPACKED_BYTES
    for example in dataset.examples:
        if example.split == "test":
            added.tests += 1
            continue
        try:
            content = _content(example)
        except (OSError, ImageError) as error:
            added.refused.append(f"'{example.name}' cannot be read: {one_line(error)}")
            continue
        room -= len(content)
        if room < 0:
            most = limits.STUDIO_UNPACKED_BYTES
            raise InputError(f"The photos of one archive or folder have more than {most:,} bytes; add it in parts.")
        yield from _kept(work, content, example.name, example.label, added)


def _content(example: Example) -> bytes:
    image = example.image
    if not isinstance(image, Path | Member | bytes):
        raise image if isinstance(image, OSError) else ImageError("it is no file.")
    return file_bytes(image)


def _kept(work: Work, content: bytes, name: str, label: str | None, added: Added) -> Iterator[Found]:
    """The photo, once it lies in the folder; nothing if it cannot be read."""
    try:
        pixels, digest = decode_and_digest(content, SMALL, name=name)
    except ImageError as error:
        added.refused.append(one_line(error))
        return
    work.keep(digest, content, thumbnail(pixels, SMALL.side))
    yield digest, name.replace("\\", "/").rpartition("/")[2][-MOST_NAME:], label


def _place(work: Work, found: Iterable[Found], number: int | None, name: str | None, added: Added) -> None:
    """Put photos into classes as one step; classes that are new are made in it."""
    with work.lock:
        state, classes, placed = work.state, dict[str, int](), list[tuple[str, str, int]]()
        made: Change = Change("")
        if number not in (None, UNSORTED):
            state.check_class(number or 0)
        for digest, called, label in found:
            wanted = name or (label if number is None else None)
            if wanted is None:
                placed.append((digest, called, number or UNSORTED))
                continue
            wanted = checked_label(wanted)
            if wanted not in classes:
                known = state.named(wanted)
                if known is None:
                    change, _ = state.adding_class(wanted)
                    known = change.classes[0][0] + len(made.classes)
                    if len(state.classes) + len(made.classes) >= limits.STUDIO_CLASSES:
                        raise InputError(f"There would be more than {limits.STUDIO_CLASSES:,} classes; use `yoro fit`.")
                    made = replace(made, classes=(*made.classes, (known, None, wanted)))
                classes[wanted] = known
            placed.append((digest, called, classes[wanted]))
        change = state.adding_photos(placed)
        added.new = sum(before is None for _, before, _ in change.photos)
        added.moved = len(change.photos) - added.new
        added.known = len({digest for digest, _, _ in placed}) - len(change.photos)
        work.do(replace(change, classes=made.classes))
