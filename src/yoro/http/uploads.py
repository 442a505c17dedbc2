"""Uploads: image files from the body of a request (a form, one raw file, or base64 in JSON), and labels."""

from __future__ import annotations

import base64
import binascii
import json
import math
from dataclasses import dataclass

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import File, FormParser, parse_options_header

from yoro.data.examples import storable
from yoro.http.errors import RefusedError

MOST_NAME = 255  # characters of the name of an image that are shown
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


def _too_many(most: int) -> RefusedError:
    return RefusedError(413, f"The request has more than {most} images; split it into several.")


def _form(body: bytes, boundary: bytes, most: int) -> list[Upload]:
    """The parts of a form, with or without file names; every one is an image."""
    if not boundary:
        said = "The content type of the form has no boundary; let your HTTP library set the content type."
        raise RefusedError(422, said)
    found, ended = list[Upload](), list[bool]()

    def take(name: bytes | None, content: bytes | None) -> None:
        if len(found) >= most:
            raise _too_many(most)
        shown = storable((name or b"").decode("utf-8", "replace"))[:MOST_NAME]
        found.append(Upload(shown or f"image {len(found)}", content or b""))

    def take_file(file: File) -> None:
        file.file_object.seek(0)
        take(file.file_name or file.field_name, file.file_object.read())

    try:
        parser = FormParser(
            "multipart/form-data", lambda field: take(field.field_name, field.value), take_file,
            on_end=lambda: ended.append(True), boundary=boundary, config={"MAX_MEMORY_FILE_SIZE": math.inf},
        )  # fmt: skip
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise RefusedError(422, f"The form cannot be read: {error}") from None
    if not ended:
        raise RefusedError(422, "The form is truncated: its last boundary is missing.")
    return found


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
