"""The one directory where this package keeps what it can make again."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from yoro.errors import SourceError


def cache_directory() -> Path:
    """`$YORO_CACHE`, else the user's cache directory of the platform; not created here."""
    if own := os.environ.get("YORO_CACHE"):
        return Path(own).expanduser()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base).expanduser() / "yoro"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "yoro"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home())) / "yoro" / "cache"
    return Path.home() / ".cache" / "yoro"


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that another process sees all of it or none."""
    temporary: str | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)
        raise SourceError(
            f"The cache {str(path.parent)!r} cannot be written: {error.strerror}. Set YORO_CACHE to another directory."
        ) from error
