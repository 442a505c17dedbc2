"""A place for shards that every machine can write to: a folder, or a URL that fsspec knows."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from yoro import limits
from yoro.data.remote_files import file_system
from yoro.errors import StoreError, one_line
from yoro.files.atomic import write_file
from yoro.files.reading import read_bounded

OURS = re.compile(r"(\d+-)?\d{9}-[0-9a-f]{20}\.(stats|parquet)")


def is_ours(name: str) -> bool:
    """Whether a file of that name is one that a run writes; others in the place are somebody else's."""
    return OURS.fullmatch(name) is not None


@dataclass(frozen=True)
class Storage:
    """Files by name, each whole or not there; a name that is written again has the new content."""

    place: str

    @property
    def folder(self) -> Path | None:
        """The place as a folder of this machine, if it is one by its name."""
        return None if "://" in self.place else Path(self.place)

    def names(self) -> set[str]:
        """The shards that are there."""
        with _speaking(self.place, "read"):
            if self.folder is not None:
                found = [path.name for path in self.folder.iterdir()] if self.folder.is_dir() else []
            else:
                system, root = self._system()
                system.invalidate_cache()  # what other machines wrote is not in it
                entries = system.ls(root, detail=False) if system.exists(root) else []
                found = [str(entry).rsplit("/", 1)[-1] for entry in entries]
        return {name for name in found if is_ours(name)}

    def read(self, name: str) -> bytes:
        """The content of one file."""
        with _speaking(f"{self.place}/{name}", "read"):
            if self.folder is not None:
                return read_bounded(self.folder / name, limits.MODEL_FILE_BYTES)
            system, root = self._system()
            if system.size(f"{root}/{name}") > limits.MODEL_FILE_BYTES:
                raise ValueError(f"it has more than {limits.MODEL_FILE_BYTES:,} bytes")
            content: bytes = system.cat_file(f"{root}/{name}")
            return content

    def write(self, name: str, content: bytes) -> None:
        """Write a file; it appears whole or not at all."""
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_file(self.folder / name, content)
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

    def remove(self, names: set[str]) -> None:
        """Remove files, those that are gone already among them."""
        for name in names:
            with suppress(FileNotFoundError), _speaking(f"{self.place}/{name}", "removed"):
                if self.folder is not None:
                    (self.folder / name).unlink()
                else:
                    system, root = self._system()
                    system.rm_file(f"{root}/{name}")

    def clear(self) -> None:
        """Remove all shards."""
        self.remove(self.names())

    def _system(self) -> tuple[Any, str]:
        system, root = file_system(self.place)
        return system, root.rstrip("/")


@contextmanager
def _speaking(place: str, done: str) -> Iterator[None]:
    """The errors of systems of any kind as ours; that a file is not there stays what it is."""
    try:
        yield
    except (FileNotFoundError, StoreError):
        raise
    except Exception as error:  # every system behind fsspec has errors of its own
        why = error.strerror if isinstance(error, OSError) and error.strerror else one_line(error)
        raise StoreError(f"{place} could not be {done}: {why}.") from error
