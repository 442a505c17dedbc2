"""Untrusted files: read whole if they are not too large, and checked before they are used."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from yoro.errors import StoreError, YoroError, one_line, plain


def read_bounded(path: Path, most: int) -> bytes:
    """The content of a file; a ValueError says why it cannot be read, or that it has more than `most` bytes."""
    try:
        size = path.stat().st_size
        if size <= most:
            return path.read_bytes()
    except OSError as error:
        raise ValueError(f"it cannot be read ({error.strerror or error})") from error
    raise ValueError(f"it has {size:,} bytes; at most {most:,} are read")


def read_json(path: Path, most: int) -> object:
    """The value in a JSON file of at most `most` bytes; a ValueError says what is wrong with it."""
    content = read_bounded(path, most)
    try:
        return json.loads(content, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON ({error})") from None


def read_table(path: Path, kind: str, form: int, most: int) -> dict[str, object]:
    """The JSON object in a file of one kind and format; anything else is a StoreError."""
    name = plain(str(path))
    with refuse_unusable(f"'{name}'"):
        table = read_json(path, most)
    if not isinstance(table, dict) or table.get("kind") != kind:
        raise StoreError(f"'{name}' is not a {kind} file.")
    if table.get("format") != form:
        raise StoreError(f"'{name}' has format {table.get('format')!r:.20}; this version of yoro reads {form}.")
    return table


@contextmanager
def refuse_damaged(path: Path | str) -> Iterator[None]:
    """Turn whatever missing or odd fields of a file raise into a StoreError that names it."""
    try:
        yield
    except (StoreError, MemoryError):
        raise
    except Exception as error:  # a hostile file may hold anything in place of anything
        said = f"{type(error).__name__}: {one_line(error)[:200]}"
        raise StoreError(f"'{plain(str(path))}' is damaged: {said}") from error


@contextmanager
def refuse_unusable(name: str) -> Iterator[None]:
    """Turn what `read_bounded` found into a StoreError; of a file that is not there it does not say it is damaged."""
    try:
        yield
    except ValueError as error:
        verdict = "cannot be used" if isinstance(error.__cause__, OSError) else "is damaged"
        raise StoreError(f"{name} {verdict}: {error}.") from error


@contextmanager
def refusing(kind: type[YoroError], said: str) -> Iterator[None]:
    """Turn a ValueError about a file into an error of this kind: what is said of it, then the reason."""
    try:
        yield
    except ValueError as error:
        raise kind(f"{said}: {error}.") from error


def json_digest(value: object, *, ascii_only: bool = True) -> str:
    """The sha256 of a JSON value, independent of the order of its keys; `ascii_only` escapes other characters first."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, ensure_ascii=ascii_only).encode()).hexdigest()


def _refuse(constant: str) -> float:
    raise ValueError(f"{constant} is not a number")
