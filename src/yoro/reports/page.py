"""HTML pages from templates; text from outside is bounded, cleaned and escaped."""

from __future__ import annotations

import re
from functools import cache, partial

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from yoro.errors import percent_text
from yoro.files.result_view import bounded, data_uri

LONGEST = 120  # characters of a name that are shown
SENTENCE = 600  # of a sentence or a fact


def render(template: str, **content: object) -> str:
    """A page or a part of one, by the name of its file in `templates`."""
    return _environment().get_template(template).render(content)


def text(value: object, longest: int = LONGEST) -> Markup:
    """Untrusted text made safe for HTML: escaped, of bounded length, without control characters.

    Markup is ours and stays as it is. Templates pass everything they print through this.
    """
    if isinstance(value, Markup):
        return value
    return escape(bounded(str(value), longest))


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
    for function in (text, name, breakable, percent, thousands):
        made.filters[function.__name__] = function
    made.filters |= {"sentence": partial(text, longest=SENTENCE), "data_uri": lambda image: Markup(data_uri(image))}
    return made
