"""Uploads: image files from the body of a request (a form, one raw file, or base64 in JSON), and labels."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from yoro import limits
from yoro.data.examples import class_name, storable
from yoro.errors import InputError
from yoro.http.errors import RefusedError

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

MOST_NAME = 255  # characters of the name of an image that are shown
MOST_HEADERS = 8192  # bytes of the headers of one part of a form
KINDS = "multipart/form-data, application/json, an image type such as image/jpeg, or application/octet-stream"


@dataclass(frozen=True)
class Upload:
    """A file as it was sent; its name is text to show, never a path."""

    name: str
    content: bytes


def read_uploads(body: bytes, content_type: str, most: int) -> list[Upload]:
    """The files of a body in their order, at most `most` of them; nothing is decoded yet."""
    kind, options = parse_options_header(content_type)
    if kind == b"multipart/form-data":
        found = _form(body, options.get(b"boundary", b""), most)
    elif kind == b"application/json":
        found = _json(body, most)
    elif kind.startswith(b"image/") or kind == b"application/octet-stream":
        found = [Upload("image", body)] if body else []
    else:
        raise RefusedError(415, f"The content type is {storable(content_type)[:100]!r}; expected {KINDS}.")
    if not found:
        raise RefusedError(422, "The body contains no image; send at least one.")
    return found


def checked_label(text: str) -> str:
    """A label that a client sent, in its one spelling; an InputError if it is empty or too long."""
    label = class_name(text)
    if not label or len(label) > limits.TAUGHT_LABEL:
        raise InputError(f"The label has {len(label):,} visible characters; expected 1 to {limits.TAUGHT_LABEL}.")
    return label


def _too_many(most: int) -> RefusedError:
    return RefusedError(413, f"The request has more than {most} images; split it into several.")


class _Parts:
    """Collects the parts of a form; one too many raises."""

    def __init__(self, most: int) -> None:
        self.found: list[Upload] = []
        self._most = most
        self._data: list[bytes] = []
        self._header: list[bytes] = []
        self._size = 0

    def begin(self) -> None:
        if len(self.found) >= self._most:
            raise _too_many(self._most)
        self._data, self._header, self._size = [], [], 0

    def header(self, data: bytes, start: int, end: int) -> None:
        self._size += end - start
        if self._size > MOST_HEADERS:
            raise RefusedError(422, f"A part of the form has more than {MOST_HEADERS:,} bytes of headers.")
        self._header.append(data[start:end])

    def separate(self) -> None:
        self._header.append(b"\n")

    def data(self, data: bytes, start: int, end: int) -> None:
        self._data.append(data[start:end])

    def end(self) -> None:
        self.found.append(Upload(self._name(), b"".join(self._data)))

    def _name(self) -> str:
        """What the client calls the file, else the field, else its number."""
        for line in b"".join(self._header).split(b"\n"):
            if line.lower().startswith(b"content-disposition"):
                options = parse_options_header(line[len(b"content-disposition") :])[1]
                name = options.get(b"filename") or options.get(b"name") or b""
                if name:
                    return storable(name.decode("utf-8", "replace"))[:MOST_NAME]
        return f"image {len(self.found)}"


def _form(body: bytes, boundary: bytes, most: int) -> list[Upload]:
    """The parts of a form; every one is an image."""
    if not boundary:
        raise RefusedError(
            422, "The content type of the form has no boundary; let your HTTP library set the content type."
        )
    parts, ended = _Parts(most), list[bool]()
    callbacks: dict[str, Callable[..., None]] = {
        "on_part_begin": parts.begin,
        "on_header_field": parts.header,
        "on_header_value": parts.header,
        "on_header_end": parts.separate,
        "on_part_data": parts.data,
        "on_part_end": parts.end,
        "on_end": lambda: ended.append(True),
    }
    try:
        parser = MultipartParser(boundary, cast("MultipartCallbacks", callbacks))
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise RefusedError(422, f"The form cannot be read: {error}") from None
    if not ended:
        raise RefusedError(422, "The form is truncated: its last boundary is missing.")
    return parts.found


def _json(body: bytes, most: int) -> list[Upload]:
    expected = 'expected {"images": ["...", ...]}, each the base64 of an image file'
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError(422, f"The body is not valid JSON; {expected}.") from None
    images = value.get("images") if isinstance(value, dict) else None
    if not isinstance(images, list) or not all(isinstance(image, str) for image in images):
        raise RefusedError(422, f"The JSON has no list of strings under 'images'; {expected}.")
    if len(images) > most:
        raise _too_many(most)
    return [Upload(f"image {number}", _bytes(text, number)) for number, text in enumerate(images)]


def _bytes(text: str, number: int) -> bytes:
    """Decode base64, also in the form of a data URL."""
    plain = text.partition(",")[2] if text.startswith("data:") else text
    try:
        return base64.b64decode(plain, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RefusedError(422, f"Image {number} is not valid base64: {error}.") from None
