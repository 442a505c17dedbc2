"""Files of a model hub: resumed, checked by the hub's digests, and kept as the hub's own clients keep theirs.

The cache has the layout of `huggingface_hub`: a file is a blob, named by its digest, and a link to it in the snapshot
of a commit. A hub is a stranger: its names, sizes, digests and redirects are checked before anything is written.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from tqdm import tqdm

from yoro import limits
from yoro.errors import SourceError, one_line, plain
from yoro.files.atomic import locked, write_file
from yoro.sources.cache import writing_cache
from yoro.sources.hub_requests import HubAwayError, HubRefusalError, ask, hub_address, hub_host, read_some
from yoro.sources.weight_caches import hub_cache

COMMIT = re.compile(r"[0-9a-f]{40}")
DIGEST = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")  # sha1 of a git blob, or sha256 of a large file
REPOSITORY = re.compile(r"[A-Za-z0-9_][\w.-]{0,95}/[A-Za-z0-9_][\w.-]{0,95}", re.ASCII)
REVISION = re.compile(r"[A-Za-z0-9_][\w.-]{0,127}", re.ASCII)
LONGEST_NAME, LONGEST_PART = 1024, 200  # of a file; file systems take 255 bytes for a part, and some are added
CHUNK = 1 << 20


@dataclass(frozen=True)
class Revision:
    """One commit of a repository, and the files that the hub lists in it; None if the hub was not asked.

    Without a list the hub is not asked for files either: what is not in the cache is an error, `away` saying why.
    """

    repository: str
    commit: str
    listed: frozenset[str] | None = None
    away: str = ""

    @property
    def folder(self) -> Path:
        return _home(self.repository) / "snapshots" / self.commit

    def has(self, name: str) -> bool:
        """Whether a file is in the cache."""
        return (self.folder / check_file(name)).is_file()

    def knows(self, name: str) -> bool:
        """Whether a file is in the cache, or is known not to exist."""
        return self.has(name) or self._absent(name).is_file()

    def take(self, name: str, most: int) -> Path:
        """A file of at most `most` bytes, from the cache or else from the hub."""
        if not self.has(name):
            if self.listed is None:
                raise SourceError(f"{name!r} of {self.repository!r} is not on this machine{self.away or '.'}")
            _fetch(self, name, most)
        return self.folder / name

    def take_if_there(self, name: str, most: int) -> Path | None:
        """As `take`; None if there is no such file, or none in the cache where the hub is not asked."""
        if not self.has(name) and (self.listed is None or name not in self.listed):
            if self.listed is not None and not self.knows(name):
                with _writing(self.repository):
                    self._absent(name).parent.mkdir(parents=True, exist_ok=True)
                    self._absent(name).touch()
            return None
        return self.take(name, most)

    def _absent(self, name: str) -> Path:
        return _home(self.repository) / ".no_exist" / self.commit / name


def find_revision(repository: str, revision: str, complete: Callable[[Revision], bool]) -> Revision:
    """The commit of a revision: of the cache if it is a commit that is `complete` there, else as the hub says.

    If the hub is away, it is what the cache has under that revision.
    """
    known = cached_revision(repository, revision)
    if known is not None and COMMIT.fullmatch(revision) and complete(known):
        return known
    try:
        return _ask_revision(repository, revision)
    except HubAwayError as error:
        if known is None:
            here = "use a backbone that is here, such as embedded:lite0; `yoro models` lists them"
            raise HubAwayError(f"{one_line(error)} Connect once to download {repository!r}, or {here}.") from None
        return replace(known, away=f": {one_line(error)}")


def cached_revision(repository: str, revision: str) -> Revision | None:
    """What the cache has of a commit, or of the commit that a branch or tag was when it was last asked for."""
    check_names(repository, revision)
    commit = revision
    if not COMMIT.fullmatch(revision):
        try:
            commit = (_home(repository) / "refs" / revision).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None
    found = Revision(repository, commit)
    return found if COMMIT.fullmatch(commit) and found.folder.is_dir() else None


def remember(found: Revision, revision: str) -> None:
    """Record which commit a branch or tag points to, once its files are there."""
    if found.listed is None or revision == found.commit:
        return
    file = _home(found.repository) / "refs" / revision
    with _writing(found.repository):
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, found.commit.encode())


def is_file_name(name: str) -> bool:
    """Whether a repository can have a file of this name, and it can be kept nowhere else than in its folder."""
    safe = name.isprintable() and len(name) <= LONGEST_NAME and not set(name) & set('\\:*?"<>|')
    return safe and all(part not in ("", ".", "..") and len(part.encode()) <= LONGEST_PART for part in name.split("/"))


def check_file(name: str) -> str:
    """The name of a file in a repository; an error if it could lie elsewhere."""
    if not is_file_name(name):
        raise SourceError(f"{plain(name)[:200]!r} is not the name of a file in a repository.")
    return name


def check_names(repository: str, revision: str) -> None:
    """Raise if a repository or a revision has a name that no hub gives."""
    if not REPOSITORY.fullmatch(repository) or "--" in repository or ".." in repository:
        raise SourceError(f"{plain(repository)[:200]!r} is not a repository name; expected OWNER/NAME.")
    if not REVISION.fullmatch(revision) or ".." in revision:
        raise SourceError(f"{plain(revision)[:200]!r} is not a revision; expected a branch, a tag or a commit.")


def _home(repository: str) -> Path:
    return hub_cache() / f"models--{repository.replace('/', '--')}"


def _ask_revision(repository: str, revision: str) -> Revision:
    """The commit of a revision and the names of its files, by the hub."""
    url = f"{hub_address()}/api/models/{repository}/revision/{quote(revision, safe='')}"
    with ask("GET", url, f"{repository!r} at {revision!r}") as answer:
        content = read_some(answer, limits.HUB_LIST_BYTES + 1)
    try:
        said = json.loads(content if len(content) <= limits.HUB_LIST_BYTES else b"")
        commit, names = said["sha"], [str(item["rfilename"]) for item in said["siblings"]]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise SourceError(f"{hub_host()} does not say what is in {repository!r}. Is it a model hub?") from None
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        raise SourceError(f"{hub_host()} names no commit for {revision!r} of {repository!r}: {str(commit)[:80]!r}.")
    if COMMIT.fullmatch(revision) and commit != revision:
        raise SourceError(f"{hub_host()} answers with another commit of {repository!r} than {revision}.")
    return Revision(repository, commit, frozenset(filter(is_file_name, names)))


def _fetch(found: Revision, name: str, most: int) -> None:
    """Bring one file into the cache; it is linked from the snapshot once its digest is right."""
    home, what = _home(found.repository), f"{name!r} of {found.repository!r}"
    url = f"{hub_address()}/{found.repository}/resolve/{found.commit}/{quote(name)}"
    digest, size = _ask_digest(url, what, found.commit)
    if size > most:
        raise SourceError(f"{what} has {size:,} bytes, more than the limit of {most:,}.")
    blob, lock = home / "blobs" / digest, home.parent / ".locks" / home.name / f"{digest}.lock"
    with _writing(found.repository):
        for folder in (blob.parent, lock.parent, (found.folder / name).parent):
            folder.mkdir(parents=True, exist_ok=True)
        lock.touch()
        with locked(lock):  # the lock of the hub's own client too
            if not blob.is_file() or blob.stat().st_size != size:
                _download(url, blob, size, what)
            _link(blob, found.folder / name)


def _ask_digest(url: str, what: str, commit: str) -> tuple[str, int]:
    """The digest and size that the hub states for a file, before any other host is asked."""
    answer = ask("HEAD", url, what, stay=True)
    answer.close()
    headers = answer.headers
    digest = (headers.get("X-Linked-ETag") or headers.get("ETag") or "").removeprefix("W/").strip('"')
    size = headers.get("X-Linked-Size") or headers.get("Content-Length") or ""
    if headers.get("X-Repo-Commit", commit) != commit:
        raise SourceError(f"{hub_host()} answers with another commit of {what} than was asked for.")
    if not DIGEST.fullmatch(digest) or not (size.isascii() and size.isdigit() and len(size) < 20):
        raise SourceError(f"{hub_host()} states no digest and size for {what}, so it cannot be checked.")
    return digest, int(size)


def _download(url: str, blob: Path, size: int, what: str) -> None:
    """Fill a blob, going on where an earlier attempt stopped; it gets its name once its digest is right."""
    part = blob.with_name(f"{blob.name}.incomplete")
    with part.open("ab+") as file:
        try:
            _go_on(url, file, size, what)
        except HubRefusalError as error:
            if error.status == 416:  # what is there goes beyond the file
                part.unlink()
            raise
        file.flush()
        os.fsync(file.fileno())
        came = os.fstat(file.fileno()).st_size
        file.seek(0)
        right = _hash(blob.name, size, file) == blob.name
    if came < size:
        raise SourceError(
            f"The download of {what} stopped at {came:,} of {size:,} bytes. Run the command again to resume it."
        )
    if not right:
        part.unlink()
        raise SourceError(f"The download of {what} does not match the hub's digest; it was removed. Try again.")
    part.replace(blob)


def _go_on(url: str, file: BinaryIO, size: int, what: str) -> None:
    """Append what is missing of a file; a host that cannot resume sends all of it again."""
    have = file.tell()
    if have > size:
        have = file.truncate(0)
    if have == size:
        return
    free = shutil.disk_usage(Path(file.name).parent).free
    if free < size - have:
        raise SourceError(
            f"{what} needs {size - have:,} more bytes, but {str(Path(file.name).parent)!r} has only {free:,} free. "
            "Free some, or set HF_HUB_CACHE to another folder."
        )
    with ask("GET", url, what, headers={"Range": f"bytes={have}-"} if have else {}) as answer:
        resumed = answer.status == 206 and (answer.headers.get("Content-Range") or "").startswith(f"bytes {have}-")
        if have and not resumed:
            have = file.truncate(0)
        with tqdm(total=size, initial=have, desc=what, unit="B", unit_scale=True, disable=None, leave=False) as bar:
            while have < size and (chunk := read_some(answer, min(CHUNK, size - have))):
                file.write(chunk)
                have += len(chunk)
                bar.update(len(chunk))


def _hash(digest: str, size: int, file: BinaryIO) -> str:
    """The digest of a file, of the kind of the given one."""
    found = hashlib.sha256() if len(digest) == 64 else hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    while chunk := file.read(CHUNK):
        found.update(chunk)
    return found.hexdigest()


def _link(blob: Path, place: Path) -> None:
    """Link a blob from a snapshot; where there are no links, it is moved there, as the hub's client does."""
    beside = place.with_name(f".{place.name}.{os.getpid()}.link")
    beside.unlink(missing_ok=True)
    try:
        beside.symlink_to(os.path.relpath(blob, place.parent))
    except (OSError, NotImplementedError):
        blob.replace(place)
        return
    beside.replace(place)


def _writing(repository: str) -> AbstractContextManager[None]:
    advice = "Free some disk space, or set HF_HUB_CACHE to another folder."
    return writing_cache(f"the hub's cache {str(_home(repository))!r}", advice)
