"""Files and folders that appear whole or not at all."""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from yoro.errors import StoreError


@contextmanager
def drafted_file(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to; what is there at the end takes the place of `path`."""
    with _draft(path) as draft:
        yield draft
        draft.replace(path)


@contextmanager
def drafted_folder(path: Path) -> Iterator[Path]:
    """An empty folder beside `path` to fill; at the end it takes the place of `path`."""
    with _draft(path) as draft:
        draft.mkdir()
        yield draft
        _move_into_place(draft, path)


def write_file(path: Path, content: bytes) -> None:
    """Write bytes and flush them to disk."""
    with drafted_file(path) as draft, draft.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """A hidden name beside `path`, with nothing left of it afterwards; the system's errors as ours."""
    draft = path.with_name(f".{path.name.removeprefix('.')}.{secrets.token_hex(4)}.tmp")
    try:
        yield draft
    except OSError as error:
        raise StoreError(f"{path} could not be written: {error.strerror or error}.") from error
    finally:
        if draft.is_dir():
            shutil.rmtree(draft, ignore_errors=True)
        else:
            draft.unlink(missing_ok=True)


def _move_into_place(draft: Path, target: Path) -> None:
    """Rename a finished directory to its name; an old one there is exchanged in one step where the system can."""
    if not target.exists():
        draft.rename(target)
        return
    if _exchange(draft, target):
        return  # the draft's name now holds the old model, which the caller removes
    old = draft.with_suffix(".old")
    target.rename(old)
    draft.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two directories atomically (Linux renameat2); False where that is not to be had."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # no C library that has it
        return False
    at_cwd, exchange = -100, 2
    if rename(at_cwd, os.fsencode(one), at_cwd, os.fsencode(other), exchange) == 0:
        return True
    if ctypes.get_errno() not in (errno.ENOSYS, errno.EINVAL):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return False
