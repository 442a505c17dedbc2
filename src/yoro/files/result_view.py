"""Results that show themselves: a short text, an HTML table in a notebook, and a table of pandas."""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Generic, TypeVar

from yoro.errors import plain
from yoro.files.rows import Row, data_frame

if TYPE_CHECKING:
    from pandas import DataFrame

T = TypeVar("T")

FEW_ROWS, FEW_COLUMNS, NARROW = 6, 6, 28  # of a table as text, and characters of a cell
MOST_ROWS, MOST_PICTURES = 50, 24  # of a table in a notebook
LONGEST = 120  # characters of a cell in a notebook
SENTENCES = 600  # characters of a headline
SHORT = 300  # characters of a list that is shown as a list
PNG = b"\x89PNG\r\n\x1a\n"
BLUE, RED = "#4477aa", "#cc6677"


@dataclass(frozen=True)
class Table:
    """Rows of a result, and how a notebook shows them."""

    rows: Sequence[Row]
    title: str = ""
    bars: tuple[str, ...] = ()  # columns of shares or signed values that are drawn as bars
    picture: Callable[[Row], bytes | None] | None = None  # the thumbnail of a row, PNG or JPEG


class Result:
    """A result that shows itself; a subclass says in sentences what was found, and in which rows.

    The first table is what `to_frame` gives.
    """

    def headline(self) -> str:
        """The result in a sentence or two."""
        raise NotImplementedError

    def tables(self) -> Sequence[Table]:
        """What the result consists of."""
        raise NotImplementedError

    def called(self) -> str:
        """What stands before the headline."""
        return f"{type(self).__name__}: "

    def to_frame(self) -> DataFrame:
        """The result as a table of pandas."""
        return data_frame(self.tables()[0].rows)

    def __repr__(self) -> str:
        return "\n".join([f"<{self.called()}{_cut(self.headline(), SENTENCES)}>", *_lines(self.tables()[0])])

    def _repr_html_(self) -> str:
        head = f"<p><b>{self.called()}</b>{_safe(self.headline(), SENTENCES)}</p>"
        tables = "".join(map(_html, self.tables()))
        return f'<div style="max-height:32em;overflow:auto">{head}{tables}</div>'


class ResultList(Result, list[T], Generic[T]):
    """A list with a row for each of its items; one that is short shows itself as a list."""

    def __init__(self, items: Iterable[T], headline: str, table: Table) -> None:
        super().__init__(items)
        self._headline, self._table = headline, table

    def headline(self) -> str:
        return self._headline

    def called(self) -> str:
        return ""

    def tables(self) -> Sequence[Table]:
        return [self._table]

    def __repr__(self) -> str:
        listed = list.__repr__(self) if len(self) <= SHORT else ""
        return listed if 0 < len(listed) <= SHORT else super().__repr__()


def _lines(table: Table) -> list[str]:
    """The first rows as text, in columns."""
    rows = table.rows[:FEW_ROWS]
    if not rows:
        return []
    columns = list(rows[0])[:FEW_COLUMNS]
    cells = [columns, *([_cut(_text(row.get(column)), NARROW) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  " + "  ".join(f"{cell:<{w}}" for cell, w in zip(line, widths, strict=True)).rstrip() for line in cells]
    more = len(table.rows) - len(rows)
    return [*lines, f"  ... and {more:,} more; to_frame() gives all"] if more else lines


def _html(table: Table) -> str:
    if not table.rows:
        return ""
    rows, columns = table.rows[:MOST_ROWS], list(table.rows[0])
    largest = {c: max((abs(v) for row in rows if isinstance(v := row.get(c), float)), default=0.0) for c in table.bars}
    head = "".join(f"<th>{_safe(column)}</th>" for column in columns)
    body = []
    for i, row in enumerate(rows):
        image = table.picture(row) if table.picture is not None and i < MOST_PICTURES else None
        drawn = f"<img alt='' style='max-height:4em' src='{data_uri(image)}'>" if image else ""
        shown = "" if table.picture is None else f"<td>{drawn}</td>"
        for column in columns:
            value = row.get(column)
            bar = _bar(value, max(1.0, largest[column])) if column in largest and isinstance(value, float) else ""
            kept = ";white-space:nowrap" if bar else ""
            shown += f"<td style='text-align:left{kept}'>{bar}{_safe(_text(value))}</td>"
        body.append(f"<tr>{shown}</tr>")
    title = f"<p>{_safe(table.title)}</p>" if table.title else ""
    left = len(table.rows) - len(rows)
    more = f"<p>… and {left:,} more; <code>to_frame()</code> gives all.</p>" if left else ""
    first = "" if table.picture is None else "<th></th>"
    return f"{title}<table><tr>{first}{head}</tr>{''.join(body)}</table>{more}"


def _bar(value: float, largest: float) -> str:
    """A bar beside a value; red below zero."""
    width = min(100.0, 100 * abs(value) / largest) if abs(value) < float("inf") else 100.0
    inner = f"width:{width:.0f}%;height:100%;background:{BLUE if value >= 0 else RED}"
    outer = "display:inline-block;width:5em;height:.7em;background:#eee;margin-right:.4em"
    return f"<span style='{outer}'><span style='display:block;{inner}'></span></span>"


def data_uri(image: bytes) -> str:
    """A PNG or JPEG as a data URI."""
    kind = "png" if image.startswith(PNG) else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(image).decode()}"


def _text(value: object) -> str:
    """A value as a person reads it."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def _cut(text: str, longest: int) -> str:
    text = plain(text)
    return text if len(text) <= longest else f"{text[: longest // 2]}…{text[len(text) - longest // 2 + 1 :]}"


def _safe(text: str, longest: int = LONGEST) -> str:
    """Untrusted text made safe for HTML: bounded, without control characters, escaped, isolated in its direction."""
    return f"<bdi>{escape(bounded(text, longest))}</bdi>"


def bounded(text: str, longest: int) -> str:
    """Untrusted text of bounded length, without control characters."""
    cut = text if len(text) <= longest else f"{text[: longest // 2]}…{text[-(longest // 2) :]}"
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") else c for c in cut)
