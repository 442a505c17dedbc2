"""How `--help` looks: names in one column, what they mean beside it, in plain text that reads well in a log."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING

from cyclopts.help import PlainFormatter

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

NAMES = 28  # characters of the column of names; a longer name has a line of its own
WIDEST = 110


class Columns(PlainFormatter):
    """The plain formatter of cyclopts, in columns."""

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print one group of verbs or options."""
        if not panel.entries:
            return
        lines = [f"{panel.title}:"] if panel.title else []
        width = min(console.width, WIDEST)
        for entry in panel.entries:
            lines += _lines(entry, width, options=panel.format == "parameter")
        for line in [*lines, ""]:
            console.print(line, highlight=False, markup=False, soft_wrap=True)


def _text(shown: object) -> str:
    """What a description says, in one line without styles."""
    if shown is None:
        return ""
    from rich.console import Console

    page = io.StringIO()
    Console(file=page, width=10_000, no_color=True, highlight=False, markup=False).print(shown)
    return " ".join(page.getvalue().split())


def _lines(entry: HelpEntry, width: int, *, options: bool) -> list[str]:
    """An entry as lines of at most `width` characters."""
    names = entry.display_labels_with_metavar if options else entry.positive_names + entry.positive_shorts
    label = "  " + ", ".join(names)
    about = _text(entry.description)
    if options and entry.default is not None:
        about += f" [{entry.default}]"
    if entry.required and about:
        about += " (required)"
    wrapped = textwrap.wrap(about, width - NAMES) or [""]
    if len(label) < NAMES:
        wrapped[0] = f"{label:<{NAMES}}{wrapped[0]}"
    else:
        wrapped[0] = " " * NAMES + wrapped[0]
        wrapped.insert(0, label)
    return [wrapped[0], *(line if line.startswith(" ") else " " * NAMES + line for line in wrapped[1:])]
