"""Image files moved into the folder of another class, or set aside, and moved back."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from yoro import limits
from yoro.data.examples import class_name, shown
from yoro.data.sorting import folder_names, free_path
from yoro.errors import InputError
from yoro.files.atomic import write_file

ASIDE = ".yoro-removed"  # beside the class folders; hidden, so that nothing in it is fitted


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
