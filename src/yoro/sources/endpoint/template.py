"""Request bodies: an image encoded and put into the placeholders of a template."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from yoro import limits
from yoro.errors import SourceError

PLACEHOLDER = re.compile(r"\{\{(\w*)\}\}")
IMAGE = ("image_base64", "image_data_url")  # one of which a body must have
KNOWN = (*IMAGE, "media_type")


@dataclass(frozen=True)
class Encoded:
    """An image file as it is sent."""

    content: bytes
    media_type: str

    @cached_property
    def values(self) -> dict[str, str]:
        text = base64.b64encode(self.content).decode()
        url = f"data:{self.media_type};base64,{text}"
        return {"image_base64": text, "image_data_url": url, "media_type": self.media_type}


def encoded(pixels: NDArray[np.uint8], encoding: str, quality: int) -> Encoded:
    """Pixels (side, side, 3) as a PNG, which is lossless, or as a JPEG."""
    buffer = io.BytesIO()
    if encoding == "png":
        Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)  # the network is faster than a smaller file
    else:
        Image.fromarray(pixels).save(buffer, "JPEG", quality=quality)
    return Encoded(buffer.getvalue(), f"image/{encoding}")


def filled(template: object, images: Sequence[Mapping[str, str]]) -> object:
    """The template with the placeholders in its strings replaced; a list of one that holds an image, for each image."""
    if isinstance(template, Mapping):
        return {name: filled(value, images) for name, value in template.items()}
    if isinstance(template, list):
        if len(template) == 1 and _holds_image(template):
            return [filled(template[0], [values]) for values in images]
        return [filled(value, images) for value in template]
    if isinstance(template, str):
        return PLACEHOLDER.sub(lambda found: images[0][found[1]], template)
    return template


def is_repeatable(template: object) -> bool:
    """Whether all images of a request have a place in the template: a list of one that is repeated for each."""
    if isinstance(template, list):
        return (len(template) == 1 and _holds_image(template)) or any(map(is_repeatable, template))
    return isinstance(template, Mapping) and any(map(is_repeatable, template.values()))


def _holds_image(template: object) -> bool:
    return bool(set(PLACEHOLDER.findall(json.dumps(template))) & set(IMAGE))


def check_template(name: str, value: object) -> dict[str, object]:
    """A body of JSON values and known placeholders, one of them for the image."""
    if not isinstance(value, dict):
        raise SourceError(f"{name} must be a table: the JSON to send.")
    try:
        text = json.dumps(value, allow_nan=False)
        depth = _depth(value)
    except (TypeError, ValueError, RecursionError):
        raise SourceError(f"{name} contains a date, a time, NaN or infinity, which JSON does not have.") from None
    if depth > limits.ENDPOINT_DEPTH:
        raise SourceError(f"{name} is nested {depth} levels deep; at most {limits.ENDPOINT_DEPTH} are allowed.")
    used = set(PLACEHOLDER.findall(text))
    if odd := sorted(used - set(KNOWN)):
        raise SourceError(f"{name} has the unknown placeholder {odd[0][:60]!r}; use one of {', '.join(KNOWN)}.")
    if not used & set(IMAGE):
        raise SourceError(
            f"{name} has no placeholder for the image; add {{{{image_base64}}}} or {{{{image_data_url}}}}."
        )
    return cast("dict[str, object]", value)


def _depth(value: object) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + max(map(_depth, inner), default=0)
