"""HTML pages from templates; text from outside is bounded, cleaned and escaped."""

from __future__ import annotations

import base64
import re
import unicodedata
from functools import cache, partial

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from yoro.model.metrics import percent_text

LONGEST = 120  # characters of a name that are shown
SENTENCE = 600  # of a sentence or a fact
PNG = b"\x89PNG\r\n\x1a\n"


def render(template: str, **content: object) -> str:
    """A page or a part of one, by the name of its file in `templates`."""
    return _environment().get_template(template).render(content)


def text(value: object, longest: int = LONGEST) -> Markup:
    """Untrusted text made safe for HTML: escaped, of bounded length, without control characters.

    Markup is ours and stays as it is. Templates pass everything they print through this.
    """
    if isinstance(value, Markup):
        return value
    plain = str(value)
    if len(plain) > longest:
        plain = plain[: longest // 2] + "…" + plain[-(longest // 2) :]
    return escape("".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") else c for c in plain))


def name(value: object, longest: int = LONGEST) -> Markup:
    """An untrusted name, isolated so that it cannot change the direction of the text around it."""
    return Markup("<bdi>{}</bdi>").format(text(value, longest))


def breakable(value: object) -> Markup:
    """A name that may wrap after punctuation instead of within a word."""
    return name(Markup(re.sub(r"([/_.-])", r"\1<wbr>", str(text(value)))))  # escapes hold no such mark


def percent(share: float, places: int = 1) -> str:
    """A share in percent, with a non-breaking space; only exact 0 and 1 print as 0 and 100."""
    return percent_text(share, places, "\u00a0%")


def thousands(number: int) -> str:
    """A whole number with thousands separators."""
    return f"{number:,}"


def data_uri(image: bytes) -> Markup:
    """A PNG or JPEG as a data URI."""
    kind = "png" if image.startswith(PNG) else "jpeg"
    return Markup("data:image/{};base64,{}").format(kind, base64.b64encode(image).decode("ascii"))


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("yoro.reports"),
        autoescape=True,
        finalize=text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for function in (text, name, breakable, percent, thousands, data_uri):
        made.filters[function.__name__] = function
    made.filters["sentence"] = partial(text, longest=SENTENCE)
    return made
