"""What a `yoro serve --responses` says of its source, checked before it is trusted."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from typing import cast
from urllib.parse import urlsplit

from yoro import limits
from yoro.discriminant.readings import Layout
from yoro.errors import SourceError
from yoro.files.reading import json_digest
from yoro.sources.endpoint.config import RESPONSES, choice_check, number_check
from yoro.sources.protocol import Colour, Identity

SOURCE = "/v1/source"
FITS, FILTERS = ("squash", "crop"), ("bilinear", "bicubic")
READS = ("logits", "features", "all")
WORD = re.compile(r"[\w.:/-]{1,200}")


@dataclass(frozen=True)
class SourceDescription:
    """The identity of a served source, the width of its responses, and their readings."""

    identity: Identity
    width: int
    layout: Layout

    def digest(self) -> str:
        """Of everything that determines its responses; its name and licence do not."""
        same = replace(self.identity, name="", licence=None).as_dict()
        return json_digest([same, self.layout.config()])


def source_url(address: str) -> str:
    """The address of the description, next to that of the responses.

    >>> source_url("https://host/under/v1/responses")
    'https://host/under/v1/source'
    """
    parts = urlsplit(address)
    return parts._replace(path=parts.path.removesuffix(RESPONSES) + SOURCE).geturl()


def parse_description(content: bytes, where: str) -> SourceDescription:
    """The description in a response; anything else is a SourceError."""
    try:
        table = json.loads(content)
        source = table["source"]
        geometry = source["geometry"]
        identity = Identity(
            name=where,
            read=str(choice_check(*READS)("read", source["read"])),
            side=_whole("side", source["side"], limits.CANVAS_SIDE),
            mean=_colour(source["mean"]),
            std=_colour(source["std"]),
            digest=_word(source["digest"]),
            licence=None if source.get("licence") is None else str(source["licence"])[:200],
            digest_of=_word(source["digest_of"]),
            fit=str(choice_check(*FITS)("fit", geometry["fit"])),
            interpolation=str(choice_check(*FILTERS)("interpolation", geometry["interpolation"])),
        )
        width = _whole("width", table["width"], limits.RESPONSE_WIDTH)
        layout = Layout.from_config(table["readings"])
        if (layout.width, layout.views) != (width, 1):
            raise ValueError("the widths of its readings do not add up to its width")
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error)[:100].rstrip(".")
        raise SourceError(f"{where} does not describe itself like a `yoro serve --responses`: {said}.") from None
    return SourceDescription(identity, width, layout)


def _whole(name: str, value: object, most: int) -> int:
    return cast(int, number_check(1, most, whole=True)(name, value))


def _word(value: object) -> str:
    if not isinstance(value, str) or not WORD.fullmatch(value):
        raise ValueError(f"{str(value)[:40]!r} is not a digest")
    return value


def _colour(value: object) -> Colour:
    if isinstance(value, list) and len(value) == 3 and all(type(part) in (int, float) for part in value):
        red, green, blue = (float(part) for part in value)
        if all(math.isfinite(part) for part in (red, green, blue)):
            return red, green, blue
    raise ValueError("a colour must be three finite numbers")
