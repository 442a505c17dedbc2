"""Files and folders that appear whole or not at all, even if the writer dies or several write at once.

A draft is written beside its place and moved there; while it is written its writer holds a lock on it, which the kernel
releases when the writer dies, so that the next one knows which drafts are abandoned. Two folders change places in one
step where the system can (Linux); elsewhere there is a moment without the old one, and `recovered` puts it back.
"""

from __future__ import annotations

import ctypes
import errno
import os
import secrets
import shutil
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path

from yoro.errors import StoreError

if sys.platform != "win32":  # which has no such locks: there two writers are not kept apart
    import fcntl

DRAFT, OLD = ".tmp", ".old"  # endings of the names beside a path that belong to it
TRIAL = 1 << 20  # bytes written as a test of whether a place is writable
WAIT = 0.01  # seconds between two looks at a folder that is about to appear
PATIENCE = 200  # looks

Names = Callable[[str], bool]


@contextmanager
def drafted_file(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to; what is there at the end takes the place of `path`."""
    target = real_path(path)
    with _draft(target) as draft, _made(draft, partial(Path.touch, exist_ok=False)):
        yield draft
        _take_after(target, draft)
        _flush(draft)
        draft.replace(target)
        _sync(target.parent)


@contextmanager
def drafted_folder(path: Path, own: Names = lambda _: True) -> Iterator[Path]:
    """An empty folder beside `path` to fill; at the end it takes the place of `path`.

    Files in the old folder whose names are not `own` are somebody else's, and stay.
    """
    target = real_path(path)
    with _draft(target) as draft, _made(draft, Path.mkdir):
        yield draft
        with locked(target):
            _take_after(target, draft)
            _keep_foreign(target, draft, own)
            _flush(draft)
            _move_into_place(draft, target)
            _sync(target.parent)


def write_file(path: Path, content: bytes) -> None:
    """Write bytes; they are on the disk when the file has its name."""
    with drafted_file(path) as draft:
        draft.write_bytes(content)


def remove_folder(path: Path) -> None:
    """Remove a folder, if there is one, and what dead writers left of it; its name is gone in one step."""
    with suppress(FileNotFoundError):
        path.rename(_beside(path, DRAFT))
    _clean_beside(path, DRAFT, OLD)


def recovered(path: Path) -> Path:
    """The path of a folder; one whose writer died between moving the old away and the new in is put back first."""
    target = real_path(path)
    for _ in range(PATIENCE):
        left = [] if target.exists() else list(_siblings(target, OLD))
        if not left:
            break
        for old in left:
            with suppress(OSError), _holding(old, wait=False):
                old.rename(target)
                return target
        time.sleep(WAIT)  # its writer lives, and is about to move the new one in
    return target


def check_writable(path: Path) -> None:
    """Raise if a file or folder could not be written here, so that this is known before any work is done."""
    target = real_path(path)
    if not target.parent.is_dir():
        raise StoreError(f"The folder {target.parent} does not exist. Create it first, or write elsewhere.")
    with _draft(target) as draft:
        draft.write_bytes(bytes(TRIAL))


_GUARDS: dict[Path, threading.RLock] = {}
_DEPTHS: dict[Path, int] = {}


@contextmanager
def locked(path: Path, tell: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """Hold the one lock on a folder that is changed in place; others wait. The kernel lets go of it if we die.

    Within a thread it can be taken again. `tell` is called with a sentence if there is somebody to wait for.
    """
    target = real_path(path)
    guard = _GUARDS.setdefault(target, threading.RLock())
    with guard:
        if _DEPTHS.get(target) or sys.platform == "win32":
            yield
            return
        descriptor = _lock(target, tell)
        _DEPTHS[target] = 1
        try:
            yield
        finally:
            del _DEPTHS[target]
            if descriptor is not None:
                os.close(descriptor)


def _lock(target: Path, tell: Callable[[str], None]) -> int | None:
    """A descriptor of the folder with its lock; None if there is no folder. A folder that was replaced is left."""
    told = False
    while True:
        try:
            descriptor = os.open(target, os.O_RDONLY)
        except (FileNotFoundError, PermissionError):
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not told:
                tell(f"{target} is being changed by {_holder(descriptor)}; waiting for it.")
                told = True
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        except OSError:  # a file system without locks
            return descriptor
        if _same(descriptor, target):
            return descriptor
        os.close(descriptor)


def _same(descriptor: int, path: Path) -> bool:
    try:
        found = path.stat()
    except OSError:
        return False
    return os.path.samestat(os.fstat(descriptor), found)


def _holder(descriptor: int) -> str:
    """Who holds the lock, as far as the system tells."""
    with suppress(OSError):
        inode = os.fstat(descriptor).st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if "FLOCK" in fields and fields[5].endswith(f":{inode}"):
                return f"process {fields[4]}"
    return "another process"


def real_path(path: Path) -> Path:
    """Where a path leads: a link is followed, so that what is written takes the place of what it points to."""
    return Path(os.path.realpath(path))


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name.removeprefix('.')}.{secrets.token_hex(4)}{ending}")


def _siblings(path: Path, ending: str) -> Iterator[Path]:
    """What an earlier writer of this path left beside it."""
    start = f".{path.name.removeprefix('.')}."
    for name in _names(path.parent):
        if name.startswith(start) and name.endswith(ending) and len(name) == len(start) + 8 + len(ending):
            yield path.with_name(name)


@contextmanager
def _draft(path: Path) -> Iterator[Path]:
    """A hidden name beside `path`, with nothing left of it afterwards; the system's errors as ours."""
    draft = _beside(path, DRAFT)
    try:
        _clean(path)
        yield draft
    except OSError as error:
        raise StoreError(f"{path} could not be written: {error.strerror or error}.") from error
    finally:
        _remove(draft)


@contextmanager
def _made(draft: Path, make: Callable[[Path], None]) -> Iterator[None]:
    """A draft, made and locked; made again if another writer removed it before it was locked, as a dead writer's."""
    with ExitStack() as held:
        while True:
            make(draft)
            with suppress(FileNotFoundError):
                held.enter_context(_holding(draft))
                if draft.exists():
                    break
        yield


def _clean(path: Path) -> None:
    """Remove what writers that died have left; an old folder only once a new one is in its place."""
    if not path.parent.is_dir():
        return
    recovered(path)
    _clean_beside(path, DRAFT, *([OLD] if path.exists() else []))


def _clean_beside(path: Path, *endings: str) -> None:
    for left in [left for ending in endings for left in _siblings(path, ending)]:
        with suppress(OSError), _holding(left, wait=False):
            _remove(left)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):  # it is not there, or the disk takes no changes: then nothing was left
            path.unlink()


@contextmanager
def _holding(path: Path, *, wait: bool = True) -> Iterator[None]:
    """A lock on a file or folder that is there; without waiting, an OSError if somebody else has it."""
    if sys.platform == "win32":
        if not wait:
            raise OSError("this system cannot tell whether a writer is alive")
        yield
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with suppress(OSError) if wait else nullcontext():  # a file system may have no locks
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        yield
    finally:
        os.close(descriptor)


def _take_after(old: Path, new: Path) -> None:
    """Give the new files the mode and group of those they replace, as far as permissions allow."""
    if not old.exists():
        return
    for one, two in [(old, new), *((old / name, new / name) for name in _names(new))]:
        with suppress(OSError):
            found = one.stat()
            if found.st_gid != two.stat().st_gid:
                os.chown(two, -1, found.st_gid)
            two.chmod(stat.S_IMODE(found.st_mode))


def _keep_foreign(old: Path, new: Path, own: Names) -> None:
    """Move files of other owners from the old folder to the new one."""
    for name in _names(old):
        if own(name) or (new / name).exists():
            continue
        if (old / name).is_dir() and not (old / name).is_symlink():
            shutil.copytree(old / name, new / name, symlinks=True, copy_function=_link)
        else:
            _link(str(old / name), str(new / name))


def _link(one: str, other: str) -> None:
    """The same file under a second name, or a copy where that cannot be."""
    try:
        os.link(one, other, follow_symlinks=False)
    except OSError:
        shutil.copy2(one, other, follow_symlinks=False)


def _names(folder: Path) -> Iterable[str]:
    return sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else ()


def _flush(path: Path) -> None:
    """Have a file, or a folder with the files in it, written to the disk."""
    for name in _names(path):
        if (path / name).is_file() and not (path / name).is_symlink():
            _sync(path / name)
    _sync(path)


def _sync(path: Path) -> None:
    with suppress(PermissionError):  # Windows opens no folders, and other people's files may be closed to us
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _move_into_place(draft: Path, target: Path) -> None:
    """Rename a finished directory to its name; an old one there is exchanged in one step where the system can."""
    if not target.exists():
        draft.rename(target)
        return
    if _exchange(draft, target):
        return  # the draft's name now holds the old model, which the caller removes
    old = _beside(target, OLD)
    target.rename(old)
    draft.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def _exchange(one: Path, other: Path) -> bool:
    """Swap two directories atomically (Linux renameat2); False where that is not available."""
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
