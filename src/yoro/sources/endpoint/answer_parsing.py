"""The vector in an endpoint's answer, found by its JSON path and checked."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np

from yoro import limits
from yoro.errors import AnswerError, SourceError, plain
from yoro.sources.protocol import Responses

STEP = re.compile(r"\.?([A-Za-z_][\w-]*)|\[(\d{1,6})\]")
SHOWN = 200  # characters of a server's answer that an error repeats

Path = tuple[str | int, ...]


def parse_path(text: str) -> Path:
    """The steps of a JSON path: names joined by dots, indices of list items in brackets.

    >>> parse_path("data[0].embedding")
    ('data', 0, 'embedding')
    """
    steps: list[str | int] = []
    rest = text
    while rest and len(steps) < limits.ENDPOINT_DEPTH and (found := STEP.match(rest)):
        if found[1] is not None and found[0].startswith(".") != bool(steps):  # all names but the first have a dot
            break
        steps.append(found[1] if found[1] is not None else int(found[2]))
        rest = rest[found.end() :]
    if rest:
        raise SourceError(f"{text[:SHOWN]!r} is not a JSON path; expected one such as data[0].embedding.")
    return tuple(steps)


def spelled(path: Path) -> str:
    """The path as text; the reverse of `parse_path`."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def vector_in(content: bytes, path: Path, width: int | None) -> Responses:
    """The vector (width,) at a path in an answer's JSON; an AnswerError says what came instead."""
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError):
        raise AnswerError(f"the answer is not JSON: {excerpt(content)}") from None
    return vector_at(value, path, width)


def vector_at(value: object, path: Path, width: int | None) -> Responses:
    """The same, of parsed JSON."""
    found = value_at(value, path)
    if not isinstance(found, list) or not all(type(number) in (int, float) for number in found):
        raise AnswerError(
            f"at {spelled(path) or 'the top level'} the answer has {_kind(found)}; expected a list of numbers"
        )
    if not 0 < len(found) <= limits.RESPONSE_WIDTH:
        raise AnswerError(f"the vector has {len(found):,} numbers; expected 1 to {limits.RESPONSE_WIDTH:,}")
    if width is not None and len(found) != width:
        raise AnswerError(f"the vector has {len(found):,} numbers; expected {width:,}")
    try:
        with np.errstate(over="ignore"):  # too large becomes infinite, which is refused
            vector = np.array(found, dtype=np.float64).astype(np.float32)
    except OverflowError:
        raise AnswerError("the vector contains a number that is too large") from None
    if not np.isfinite(vector).all():
        raise AnswerError("the vector contains NaN, infinity or a number beyond single precision")
    return vector


def value_at(value: object, path: Path) -> object:
    """The value at a path in parsed JSON."""
    for i, step in enumerate(path):
        named = isinstance(value, dict) and step in value
        if named or (isinstance(value, list) and isinstance(step, int) and step < len(value)):
            value = value[step]  # type: ignore[index]
        else:
            there = f"at {spelled(path[:i])} {_kind(value)}" if i else f"{_kind(value)} at the top level"
            raise AnswerError(f"the answer has nothing at {spelled(path)}: {there}")
    return value


def excerpt(content: bytes, secrets: Sequence[str] = ()) -> str:
    """The beginning of an answer in one line, without the credentials that it may have repeated."""
    text = content[: limits.KB * 64].decode("utf-8", "replace")
    return repr(plain(" ".join(scrubbed(text, secrets).split()))[:SHOWN]) if text.strip() else "nothing"


def scrubbed(text: str, secrets: Sequence[str]) -> str:
    """The text with credentials replaced by ***."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***") if secret else text
    return text


def _kind(value: object) -> str:
    if isinstance(value, dict):
        names = ", ".join(repr(plain(str(name))[:40]) for name in list(value)[:5])
        return f"an object with {names}" if names else "an empty object"
    if isinstance(value, list):
        return f"a list of {len(value):,}"
    return {str: "a text", bool: "true or false", type(None): "null"}.get(type(value), "a number")
