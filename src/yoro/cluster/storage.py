"""A place for shards that every machine can write to: a folder, or a URL that fsspec knows."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from yoro import limits
from yoro.data.remote_files import file_system, is_away, is_url, patiently
from yoro.errors import StoreError, UnreachableError, one_line
from yoro.files.atomic import write_file

RUN = re.compile(r"[0-9a-f]{20}-[0-9a-f]{8}")  # a run's folder: its digest, and its own number
OURS = re.compile(r"(\d+-)?\d{9}-[0-9a-f]{20}\.(stats|parquet)")


def is_ours(name: str) -> bool:
    """Whether a file name is one that a run writes; other files in the place are left alone."""
    return OURS.fullmatch(name) is not None


@dataclass(frozen=True)
class Storage:
    """Files by name, each whole or not there; a name that is written again has the new content."""

    place: str

    def names(self) -> set[str]:
        """Names of the shards in the place."""
        with _speaking(self.place, "read"):
            system, root = self._system()
            entries = system.ls(root, detail=False) if system.exists(root) else []
        return {name for entry in entries if is_ours(name := str(entry).rsplit("/", 1)[-1])}

    def read(self, name: str) -> bytes:
        """The content of a file; one that is not there is a StoreError."""
        try:
            return patiently(partial(self._read, name))
        except FileNotFoundError as error:
            raise StoreError(
                f"{self.place}/{name} is not there. Can all machines of the cluster write to this place? --ray-storage "
                "names one that they can. If the file was removed, --resume makes it again."
            ) from error

    def write(self, name: str, content: bytes) -> None:
        """Write a file; it appears whole or not at all."""
        patiently(partial(self._write, name, content))

    def remove(self, names: set[str]) -> None:
        """Remove files; one that is already gone is no error."""
        for name in names:
            with suppress(FileNotFoundError):
                patiently(partial(self._remove, name))

    def clear(self) -> None:
        self.remove(self.names())

    def inside(self, folder: str) -> Storage:
        """A folder in this place, of one run."""
        return Storage(f"{self.place.rstrip('/')}/{folder}")

    def run_folder(self, run: str) -> str | None:
        """The folder of a run of this digest that was begun before; of several, that with the most files."""
        with _speaking(self.place, "read"):
            system, root = self._system()
            entries = system.ls(root, detail=False) if system.exists(root) else []
        found = [name for entry in entries if RUN.fullmatch(name := str(entry).rstrip("/").rsplit("/", 1)[-1])]
        counts = {name: len(self.inside(name).names()) for name in found if name.startswith(run[:20])}
        return max(counts, key=counts.__getitem__, default=None)

    def discard(self) -> None:
        """Remove a run's folder, with the drafts that killed writers left in it."""
        with suppress(FileNotFoundError), _speaking(self.place, "removed"):
            system, root = self._system()
            system.rm(root, recursive=True)

    def _read(self, name: str) -> bytes:
        with _speaking(f"{self.place}/{name}", "read"):
            system, root = self._system()
            if system.size(f"{root}/{name}") > limits.MODEL_FILE_BYTES:
                raise ValueError(f"it has more than {limits.MODEL_FILE_BYTES:,} bytes")
            content: bytes = system.cat_file(f"{root}/{name}")
            return content

    def _write(self, name: str, content: bytes) -> None:
        if not is_url(self.place):
            folder = Path(self.place)
            folder.mkdir(parents=True, exist_ok=True)
            write_file(folder / name, content)
            return
        with _speaking(f"{self.place}/{name}", "written"):
            system, root = self._system()
            system.makedirs(root, exist_ok=True)
            draft = f"{root}/.{name}.{secrets.token_hex(4)}"
            try:
                system.pipe_file(draft, content)
                system.mv(draft, f"{root}/{name}")
            except BaseException:
                with suppress(Exception):
                    system.rm_file(draft)
                raise

    def _remove(self, name: str) -> None:
        with _speaking(f"{self.place}/{name}", "removed"):
            system, root = self._system()
            system.rm_file(f"{root}/{name}")

    def _system(self) -> tuple[Any, str]:
        system, root = file_system(self.place)
        system.invalidate_cache()  # what other machines wrote is not in it
        return system, root.rstrip("/")


def storage_at(place: str) -> Storage:
    """The storage at a URL or in a folder of this machine, which all machines call by its whole path."""
    return Storage(place if is_url(place) else str(Path(place).absolute()))


@contextmanager
def _speaking(place: str, done: str) -> Iterator[None]:
    """Turn the errors of any file system into ours; a missing file stays a FileNotFoundError."""
    try:
        yield
    except (FileNotFoundError, StoreError):
        raise
    except Exception as error:  # every system behind fsspec has errors of its own
        why = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
        if is_url(place) and is_away(error):
            raise UnreachableError(
                f"{place} could not be {done}: {why.rstrip('.')}. Is its storage running?"
            ) from error
        raise StoreError(f"{place} could not be {done}: {why}.") from error
