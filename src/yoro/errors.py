"""Every error this package raises on purpose.

YoroError
├── InputError (ValueError)              the data given cannot be used
│   ├── WidthError                       responses of another width
│   ├── NonFiniteError                   NaN or infinity among the responses
│   ├── ImageError                       a file that cannot be read as an image
│   ├── UnreachableError                 storage that does not answer; what it holds may be sound
│   └── DatasetError                     a dataset of the bench is missing, partial, or another than expected
├── StatisticsError (ValueError)         removal of what was never added, or of more than there is
├── SelectionError (ValueError)          the input of a shrinkage rule is missing
├── SourceError (ValueError)             a response source cannot be found, loaded or trusted
│   └── AnswerError                      an endpoint's answer contains no valid vector
├── StoreError (ValueError)              a file or model directory that cannot be trusted or written
└── OnePassError (RuntimeError)          a second traversal of the training data in one-pass mode

Each also inherits the standard error a caller would catch. The text says what came, what was
expected and what to do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

ALIKE = 0.5  # of difflib's ratio: what is less alike is not suggested
LONGEST_REASON = 300  # characters of a library's error that ours repeats


def one_line(error: BaseException) -> str:
    """The text of an error in one line; its kind where it has none."""
    return " ".join(str(error).split()) or type(error).__name__


def did_you_mean(name: str, known: Iterable[str], *, most: int = 1, alike: float = ALIKE, else_all: bool = True) -> str:
    """A sentence that suggests the most similar known names, or else lists all of them.

    >>> did_you_mean("yorro", ["yoro", "blm"]), did_you_mean("x", ["yoro", "blm"])
    ("Did you mean 'yoro'?", 'Choose one of yoro, blm.')
    """
    names = list(known)
    near = difflib.get_close_matches(name, names, n=most, cutoff=alike)
    if near:
        return f"Did you mean {' or '.join(map(repr, near))}?"
    return (f"Choose one of {', '.join(names)}." if names else "There are none.") if else_all else ""


def counted(number: float, noun: str) -> str:
    """A number of things, in the form that the number wants.

    >>> counted(1, "image"), counted(2000, "class")
    ('1 image', '2,000 classes')
    """
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,.0f} {noun}{ending}"


def percent_text(share: float, places: int = 1, unit: str = "%") -> str:
    """A share of one in per cent, never rounded to all or to nothing if it is neither.

    >>> percent_text(0.9996), percent_text(1.0), percent_text(0.0004), percent_text(0.5, 0)
    ('99.9%', '100.0%', '0.1%', '50%')
    """
    step = 10.0**-places
    shown = round(100 * share, places)
    if 0 < share < 1:
        shown = min(max(shown, step), 100 - step)
    return f"{shown:.{places}f}{unit}"


class YoroError(Exception):
    """Base of every error raised on purpose."""


class InputError(YoroError, ValueError):
    """The data given cannot be used."""


class WidthError(InputError):
    """Responses of another width than before."""


class NonFiniteError(InputError):
    """NaN or infinity among the responses."""


class ImageError(InputError):
    """A file that cannot be read as an image."""


class UnreachableError(InputError):
    """Storage that does not answer; what it holds may be sound, so nothing of it is left out."""


class DatasetError(InputError):
    """A dataset of the bench is missing, partial, or another than expected.

    `state` is "missing", "no split file", "partial", "two copies", "another split" or "broken"; `looked` are the places
    where it was looked for, `found` the images found by split, where they were counted.
    """

    def __init__(
        self, text: str, *, state: str = "broken", looked: Sequence[str] = (), found: Mapping[str, int] | None = None
    ) -> None:
        super().__init__(text)
        self.state = state
        self.looked = tuple(looked)
        self.found = dict(found or {})


class StatisticsError(YoroError, ValueError):
    """Removal of what was never added."""


class SelectionError(YoroError, ValueError):
    """The input of a shrinkage rule is missing."""


class SourceError(YoroError, ValueError):
    """A response source cannot be found, loaded or trusted."""


class AnswerError(SourceError):
    """An endpoint's answer contains no valid vector; `row` is the image's row in its batch."""

    def __init__(self, text: str, row: int | None = None) -> None:
        super().__init__(text)
        self.row = row


class StoreError(YoroError, ValueError):
    """A file or model directory that cannot be trusted or written."""


class OnePassError(YoroError, RuntimeError):
    """A second traversal of the training data was asked for in one-pass mode."""


@contextmanager
def explaining(kind: type[YoroError], said: str, advice: str = "") -> Iterator[None]:
    """Turn whatever a library raises within into an error of this kind: what failed, why, and what to do.

    It is for code whose errors share no base but Exception. Errors of this package pass.
    """
    try:
        yield
    except YoroError:
        raise
    except Exception as error:
        raise kind(
            f"{said}: {one_line(error)[:LONGEST_REASON].rstrip('.')}.{f' {advice}' if advice else ''}"
        ) from error


class DegenerateWarning(UserWarning):
    """The data leave the covariance undefined, and the plain Euclidean metric is used instead."""


class SkippedWarning(UserWarning):
    """Some images could not be read and were left out."""


class LabelWarning(UserWarning):
    """Labels to be doubted: one image under two of them, or a class of one or two images."""


class PrecisionWarning(UserWarning):
    """Numbers so different in size were combined that digits were lost."""


def plain(text: str, keep: str = "") -> str:
    """Text that a terminal shows and does not obey: what cannot be seen is written out.

    >>> plain("a\\x1b[2Jb\\n")
    'a\\\\x1b[2Jb\\\\n'
    """
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in text)
