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


def parsed(content: bytes) -> object:
    """The JSON of an answer."""
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError):
        raise AnswerError(f"the answer is not JSON: {excerpt(content)}") from None
    return value


def order_in(value: object, path: Path, count: int) -> list[int]:
    """Which item of the list at a path answers each of `count` images: by the items' `index` if they name one.

    >>> order_in({"data": [{"index": 1}, {"index": 0}]}, ("data",), 2)
    [1, 0]
    """
    items = value_at(value, path)
    where = spelled(path) or "the top level"
    if not isinstance(items, list) or len(items) != count:
        raise AnswerError(f"at {where} the answer has {_kind(items)}; expected a list of {count:,}, one for each image")
    named = [item["index"] for item in items if isinstance(item, dict) and type(item.get("index")) is int]
    if len(set(named)) not in (0, count):
        raise AnswerError(f"at {where} only some of {count:,} items name their image by an `index` of their own")
    return sorted(range(count), key=named.__getitem__) if named else list(range(count))


def vector_at(value: object, path: Path, width: int | None) -> Responses:
    """The vector (width,) at a path in an answer's JSON; an AnswerError says what came instead."""
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
