"""The one directory where this package keeps what it can make again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from yoro.errors import SourceError, StoreError
from yoro.files.atomic import write_file


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
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, data)
    except (OSError, StoreError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        reason = cause.strerror if isinstance(cause, OSError) else error
        raise SourceError(
            f"The cache {str(path.parent)!r} cannot be written: {reason}. Set YORO_CACHE to another directory."
        ) from error
