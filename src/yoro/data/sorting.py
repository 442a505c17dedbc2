"""Image files put into a folder for each class, or moved to that of another class, and back."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import IO

from yoro import limits
from yoro.data.decoding import file_bytes
from yoro.data.examples import Example, Later, Member, Picture, class_name, shown
from yoro.data.folders import is_image
from yoro.errors import ImageError, InputError, StoreError
from yoro.files.atomic import check_writable, write_file

MANIFEST = ".yoro-sorted.jsonl"
UNSURE = "_unsure"  # the folder of images whose class is not sure enough
FORBIDDEN = frozenset('/\\:*?"<>|')  # in names of files, on one system or another
LONGEST = 100  # characters of a folder's name
PART = ".part"  # what a file is called until it is whole
ASIDE = ".yoro-removed"  # beside the class folders; hidden, so that nothing in it is fitted


@dataclass
class SortedFolder:
    """A folder that is being filled; what is put into it is first written down in its manifest."""

    folder: Path
    names: dict[str, str]  # folder of each class
    link: bool
    manifest: IO[str]
    move: bool = False
    counts: Counter[str] = field(default_factory=Counter)  # images by folder
    earlier: Counter[tuple[str, str]] = field(default_factory=Counter)  # folder and content of what lay there before
    already: int = 0  # images that lay there before

    def add(self, example: Example, label: str | None) -> None:
        """Put one image into the folder of its class, or of uncertain ones; one that is there already is skipped."""
        group = UNSURE if label is None else self.names[label]
        (self.folder / group).mkdir(exist_ok=True)
        target = free_path(self.folder / group, _file_name(example.name))
        place = f"{group}/{target.name}"
        if self.link:
            if not isinstance(example.image, Path):
                raise InputError("Only images in files can be linked to.")
            aim = os.path.abspath(example.image)  # noqa: PTH100  # a link is not followed
            if self._lies_there(group, aim):
                return
            self._note({"file": place, "link": aim})
            target.symlink_to(aim)
        else:
            content = content_of(example.image)
            if self._lies_there(group, _digest(content)):
                return
            source = self._moved(example.image)
            self._note({"file": place, "digest": _digest(content)} | ({"from": str(source)} if source else {}))
            if source is not None:
                _move(source, target)
            else:
                draft = target.with_name(f".{target.name}{PART}")
                draft.write_bytes(content)
                draft.rename(target)
        self.counts[group] += 1

    def _lies_there(self, group: str, content: str) -> bool:
        """Whether an earlier run put the same content, or link, into the folder; each such file counts once."""
        if not self.earlier[group, content]:
            return False
        self.earlier[group, content] -= 1
        self.already += 1
        return True

    def _moved(self, image: Picture) -> Path | None:
        """Where an image is moved from; None if it is copied, as what a link points to is."""
        moved = self.move and isinstance(image, Path) and not image.is_symlink()
        return Path(os.path.abspath(image)) if moved and isinstance(image, Path) else None  # noqa: PTH100

    def _note(self, entry: dict[str, str]) -> None:
        self.manifest.write(json.dumps(entry) + "\n")
        self.manifest.flush()

    def close(self) -> None:
        self.manifest.close()


def check_sortable(folder: Path, link: bool, pictures: Iterable[Picture]) -> None:
    """Raise if images could not be sorted into this folder, so that this is known before they are read."""
    if folder.exists() and not folder.is_dir():
        raise StoreError(f"'{shown(folder)}' is a file; give a folder to sort into.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise StoreError(
            f"'{shown(folder)}' contains files that YORO did not put there; give a new or empty folder, "
            "or one that YORO sorted into before."
        )
    check_writable(folder)
    if link and not all(isinstance(picture, Path | OSError) for picture in pictures):
        raise InputError("Images in an archive cannot be linked to; without --link they are copied.")


def begin_sorting(folder: Path, classes: Iterable[str], *, link: bool, move: bool = False) -> SortedFolder:
    """A folder to sort into, by links, by moving, or else by copying; one that was sorted into before is added to."""
    folder.mkdir(exist_ok=True)
    earlier: Counter[tuple[str, str]] = Counter()
    if (folder / MANIFEST).is_file():
        for entry in _entries(folder / MANIFEST):
            if _as_it_was(folder / entry["file"], entry):
                earlier[entry["file"].partition("/")[0], entry.get("link") or entry["digest"]] += 1
    manifest = (folder / MANIFEST).open("a", encoding="utf-8")
    return SortedFolder(folder, folder_names(classes), link, manifest, move, earlier=earlier)


def folder_names(classes: Iterable[str]) -> dict[str, str]:
    """A folder's name for each class, whatever the class is called; no two are the same on any system.

    >>> folder_names(["cat", "a/b", "..", "Cat"])
    {'cat': 'cat', 'a/b': 'a_b', '..': '_', 'Cat': 'Cat (2)'}
    """
    taken, names = {UNSURE, MANIFEST}, {}
    for label in classes:
        plain = "".join(c if c.isprintable() and c not in FORBIDDEN else "_" for c in label)[:LONGEST]
        name = first = plain.strip(" .") or "_"
        number = 1
        while name.casefold() in taken:
            number += 1
            name = f"{first} ({number})"
        taken.add(name.casefold())
        names[label] = name
    return names


@dataclass(frozen=True)
class Undone:
    """How many files were removed, and which were kept because they were changed since."""

    removed: int
    left: list[str]


def undo_sorting(folder: Path) -> Undone:
    """Remove the files that were sorted into a folder, except those that were changed since.

    Files that were moved go back to where they were, unless something else is there now.
    """
    manifest = folder / MANIFEST
    if not manifest.is_file():
        raise InputError(f"YORO sorted nothing into '{shown(folder)}': it has no {MANIFEST}.")
    removed, left, groups = 0, list[str](), set[Path]()
    for entry in _entries(manifest):
        target = folder / entry["file"]
        groups.add(target.parent)
        if target.parent.is_symlink():
            left.append(entry["file"])
            continue
        target.with_name(f".{target.name}{PART}").unlink(missing_ok=True)
        if not os.path.lexists(target):
            continue
        if _as_it_was(target, entry) and _put_back(target, entry.get("from")):
            target.unlink(missing_ok=True)
            removed += 1
        else:
            left.append(entry["file"])
    manifest.unlink()
    for group in (*sorted(groups), folder):
        if group.is_dir() and not group.is_symlink() and not any(group.iterdir()):
            group.rmdir()
    return Undone(removed, left)


def _entries(manifest: Path) -> Iterator[dict[str, str]]:
    """The entries of a manifest; an untrusted one must not lead out of its folder."""
    with manifest.open(encoding="utf-8", errors="replace") as file:
        while line := file.readline(limits.LIST_LINE):
            try:
                entry = json.loads(line)
                parts = PurePosixPath(entry["file"]).parts
                known = all(isinstance(value, str) for value in entry.values()) and {"digest", "link"} & set(entry)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue  # the last line of a run that was killed
            if known and len(parts) == 2 and not {"..", "/"} & set(parts) and "\0" not in entry["file"]:
                yield entry


def _as_it_was(target: Path, entry: dict[str, str]) -> bool:
    if "link" in entry:
        return target.is_symlink() and str(target.readlink()) == entry["link"]
    regular = target.is_file() and not target.is_symlink()
    return (
        regular and target.stat().st_size <= limits.IMAGE_FILE_BYTES and _digest(target.read_bytes()) == entry["digest"]
    )


def _put_back(target: Path, source: str | None) -> bool:
    """Move a file back to where it was moved from, if it was; whether it need not be here any more.

    An untrusted manifest can only name an image that is not there, in a folder that is.
    """
    if source is None:
        return True
    back = Path(source)
    if "\0" in source or not is_image(back.name) or not back.is_absolute() or not back.parent.is_dir():
        return False
    if os.path.lexists(back):
        return back.is_file() and _digest(file_bytes(back)) == _digest(target.read_bytes())
    _move(target, back)
    return True


def _move(source: Path, target: Path) -> None:
    """Move a file, which keeps its times; from one disk to another it is copied first."""
    try:
        source.rename(target)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        draft = target.with_name(f".{target.name}{PART}")
        shutil.copy2(source, draft)
        draft.rename(target)
        source.unlink()


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


def _file_name(name: str) -> str:
    """The name of an image's file, as text that any system takes."""
    last = PurePosixPath(name).name
    return "".join(c if c.isprintable() and c not in FORBIDDEN else "_" for c in last)[-2 * LONGEST :] or "image"


def free_path(folder: Path, name: str, taken: Collection[Path] = ()) -> Path:
    """A path in a folder that nothing has yet, and that is not taken."""
    target, number = folder / name, 1
    while target in taken or os.path.lexists(target):
        number += 1
        target = folder / f"{Path(name).stem} ({number}){Path(name).suffix}"
    return target


def content_of(image: Picture) -> bytes:
    """The bytes of an image that is a file."""
    image = image.fetch() if isinstance(image, Later) else image
    if not isinstance(image, Path | Member | bytes):
        raise ImageError("Only images in files can be sorted.")
    return file_bytes(image)


@dataclass(frozen=True)
class Move:
    """One file, and where it goes."""

    origin: Path
    target: Path

    def line(self) -> str:
        return json.dumps({"from": str(self.origin.absolute()), "to": str(self.target.absolute())}) + "\n"


def plan_moves(wanted: Iterable[tuple[Path, str, str | None]]) -> list[Move]:
    """Where each file (path, label, new label) goes: into the new label's folder, or for None aside.

    The class folder of a file is the nearest one around it with the name of its label; nothing is moved yet.
    """
    moves, taken = [], set[Path]()
    for path, label, new in wanted:
        if not path.is_file():
            raise InputError(f"'{shown(path)}' is not there; nothing was moved. Was the list applied before?")
        home = next((folder for folder in path.absolute().parents if class_name(folder.name) == label), None)
        if home is None:
            raise InputError(
                f"'{shown(path)}' is not in a folder named {label!r}, so moving it would not change its label; nothing "
                "was moved. Correct the label where it comes from."
            )
        goal = home.parent / ASIDE / home.name if new is None else _folder_of(home.parent, new)
        target = free_path(goal, path.name, taken)
        taken.add(target)
        moves.append(Move(path.absolute(), target))
    return moves


def write_journal(journal: Path, moves: Sequence[Move]) -> None:
    """Write down what will be moved, so that it can be undone whenever the moving ends."""
    write_file(journal, "".join(move.line() for move in moves).encode())


def move_files(moves: Iterable[Move]) -> None:
    """Move the files; their folders are made, and never is a file overwritten."""
    for move in moves:
        move.target.parent.mkdir(parents=True, exist_ok=True)
        _rename(move.origin, move.target)


def undo_moves(journal: Path) -> tuple[int, list[str]]:
    """Move the files of a journal back and remove it: how many were moved, and which are not where they were put."""
    if not journal.is_file():
        raise InputError(f"There is nothing to undo: '{shown(journal)}' does not exist.")
    count, left = 0, list[str]()
    for move in reversed(list(_moves(journal))):
        if move.target.is_file() and not os.path.lexists(move.origin):
            move.origin.parent.mkdir(parents=True, exist_ok=True)
            _rename(move.target, move.origin)
            count += 1
        elif not move.origin.is_file():
            left.append(str(move.target))
        for folder in (move.target.parent, move.target.parent.parent):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
    journal.unlink()
    return count, left


def _folder_of(root: Path, label: str) -> Path:
    """The folder of a class below a root: one that stands for it, else one of its name."""
    there = (folder for folder in sorted(root.iterdir()) if folder.is_dir() and class_name(folder.name) == label)
    return next(there, root / folder_names([label])[label])


def _rename(origin: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise InputError(f"'{shown(target)}' exists; '{shown(origin)}' was not moved there.")
    origin.rename(target)


def _moves(journal: Path) -> Iterator[Move]:
    with journal.open(encoding="utf-8") as file:
        while line := file.readline(limits.LIST_LINE):
            try:
                entry = json.loads(line)
                move = Move(Path(entry["from"]), Path(entry["to"]))
            except (ValueError, KeyError, TypeError, RecursionError):
                raise InputError(f"'{shown(journal)}' is damaged: {line.strip()[:60]!r} is not a move.") from None
            yield move
