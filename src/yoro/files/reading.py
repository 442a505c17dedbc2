"""Files of strangers, read whole where they are not too large for it."""

from __future__ import annotations

import json
from pathlib import Path


def read_bounded(path: Path, most: int) -> bytes:
    """The content of a file; a ValueError that says why if it cannot be read or has more bytes than that."""
    try:
        size = path.stat().st_size
        if size <= most:
            return path.read_bytes()
    except OSError as error:
        raise ValueError(f"it cannot be read ({error.strerror or error})") from error
    raise ValueError(f"it has {size:,} bytes; at most {most:,} are read")


def read_json(path: Path, most: int) -> object:
    """The value in a JSON file of at most so many bytes; a ValueError says what is wrong with it."""
    content = read_bounded(path, most)
    try:
        return json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is no JSON ({error})") from None


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is no number")
