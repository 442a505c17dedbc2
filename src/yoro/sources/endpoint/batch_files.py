"""Files for batch APIs: requests as JSON lines, to be uploaded by other means, and their answers read back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray

from yoro import limits
from yoro.errors import AnswerError, InputError, SourceError
from yoro.files.atomic import drafted_file
from yoro.sources.endpoint.answer_parsing import parse_path, vector_at
from yoro.sources.endpoint.journal import CallEvent
from yoro.sources.endpoint.source import EndpointSource
from yoro.sources.endpoint.template import encoded, filled

KEY = re.compile(r"[0-9a-f]{64}")
BODY_PATH = "response.body"  # of a line: what the endpoint would have answered
ANSWERS_PER_WRITE = 256  # in one transaction of the journal


@dataclass
class ImportedAnswers:
    """How many answers of a file were new or known, and what is wrong with the others."""

    new: int = 0
    known: int = 0
    wrong: list[str] = field(default_factory=list)


def request_lines(source: EndpointSource, images: Iterable[NDArray[np.uint8]]) -> Iterator[bytes]:
    """A line for each image without an answer; the journal notes which were written."""
    config = source.config
    if config.body is None:
        raise SourceError(f"{config.shown} takes no JSON, so it has no batch API; its file has no [body].")
    url = config.batch_url or urlsplit(config.address).path
    written = set[bytes]()
    for batch in images:
        fresh = [(source.key(batch[row]), batch[row]) for row in source.unanswered(batch)]
        fresh = [(key, pixels) for key, pixels in fresh if key not in written]
        source.journal.write(source.request, [CallEvent(key, noted=True) for key, _ in fresh])
        for key, pixels in fresh:
            written.add(key)
            values = encoded(pixels, config.encoding, config.quality).values
            body = filled(config.body, [values])
            line = {"custom_id": key.hex(), "method": config.method, "url": url, "body": body}
            yield json.dumps(line).encode() + b"\n"


def write_lines(lines: Iterable[bytes], out: Path, most_lines: int, most_bytes: int) -> list[tuple[Path, int]]:
    """Write files of at most so many lines and bytes: `out`, then `out-2` and so on; their paths and line counts."""
    files: list[tuple[Path, int]] = []
    rest = iter(lines)
    line = next(rest, None)
    while line is not None:
        path = out if not files else out.with_stem(f"{out.stem}-{len(files) + 1}")
        count = size = 0
        with drafted_file(path) as draft, draft.open("wb") as file:
            while line is not None and count < most_lines and (not count or size + len(line) <= most_bytes):
                file.write(line)
                count, size = count + 1, size + len(line)
                line = next(rest, None)
        files.append((path, count))
    return files


def take_answers(source: EndpointSource, path: Path) -> ImportedAnswers:
    """Read answers into the journal; lines that answer no request of ours are reported and skipped."""
    taken, waiting, width = ImportedAnswers(), dict[bytes, CallEvent](), source.known_width
    for number, line in enumerate(_lines(path), start=1):
        where = f"'{path}', line {number}"
        try:
            key, event = _answer(line, source, width)
        except AnswerError as error:
            taken.wrong.append(f"{where}: {error}.")
            continue
        assert event.vector is not None
        width = len(event.vector)
        waiting[key] = event
        if len(waiting) >= ANSWERS_PER_WRITE:
            _keep(source, waiting, taken, path)
    _keep(source, waiting, taken, path)
    return taken


def _keep(source: EndpointSource, waiting: dict[bytes, CallEvent], taken: ImportedAnswers, path: Path) -> None:
    ours = source.journal.known(source.request, list(waiting))
    there = source.journal.vectors(list(ours))
    strange = [key for key in waiting if key not in ours]
    taken.wrong += [f"'{path}': {key.hex()} was never requested from this endpoint." for key in strange]
    new = [waiting[key] for key in ours if key not in there]
    source.journal.write(source.request, new)
    taken.new, taken.known = taken.new + len(new), taken.known + len(there)
    waiting.clear()


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while line := file.readline(limits.BATCH_LINE_BYTES + 1):
                if len(line) > limits.BATCH_LINE_BYTES:
                    raise InputError(f"'{path}' has a line of more than {limits.BATCH_LINE_BYTES:,} bytes.")
                if line.strip():
                    yield line
    except OSError as error:
        raise InputError(f"'{path}' cannot be read: {error.strerror or error}.") from None


def _answer(line: bytes, source: EndpointSource, width: int | None) -> tuple[bytes, CallEvent]:
    """The key and the vector of a line; an AnswerError says what is wrong."""
    try:
        value: object = json.loads(line)
    except (ValueError, RecursionError):
        raise AnswerError("it is not JSON") from None
    named = value.get("custom_id") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(named, str) or not KEY.fullmatch(named):
        raise AnswerError("its custom_id is missing or not one of ours")
    response = value.get("response")
    status = response.get("status_code", 200) if isinstance(response, dict) else None
    if value.get("error") is not None or status != 200:
        said = json.dumps(value.get("error") or (response if status is None else status))[:200]
        raise AnswerError(f"{named[:12]} failed: {said}")
    key = bytes.fromhex(named)
    return key, CallEvent(key, vector=vector_at(value, (*parse_path(BODY_PATH), *source.config.place), width))
