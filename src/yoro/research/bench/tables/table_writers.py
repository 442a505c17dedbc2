"""A table as text: Markdown that can be read in a terminal, and LaTeX."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from yoro.research.bench.tables.table import MOST_COLUMNS, Heading, Kind, ResultsTable, TableCell, panels

PAGE_COLUMNS = 16  # that can be read on one page; the paper has 15
MINUS, TIMES, DASH = "\u2212", "\u00d7", "\u2013"
PAPER = "paper"  # the head of a row with the paper's numbers


@dataclass(frozen=True)
class Markup:
    """How one language writes what numbers need."""

    bold: Callable[[str], str]
    escape: Callable[[str], str]
    plus_minus: str = " ± "
    minus: str = MINUS
    times: str = TIMES
    percent: str = " %"
    dash: str = DASH  # what is missing


def cell_text(cell: TableCell | None, markup: Markup) -> str:
    """Our numbers of a cell; empty where the plan has none."""
    if cell is None:
        return ""
    if not cell.values:
        return markup.dash
    shown = numbers_text(cell.kind, cell.values, markup)
    return (markup.bold(shown) if cell.best else shown) + _deviation(cell.kind, cell.deviation, cell.values, markup)


def paper_text(cell: TableCell | None, markup: Markup) -> str:
    """The paper's numbers of a cell, and what ours are above them; empty where it has none."""
    if cell is None or not cell.paper:
        return ""
    shown = numbers_text(cell.kind, cell.paper, markup)
    shown += _deviation(cell.kind, cell.paper_deviation, cell.paper, markup)
    return f"{shown} ({', '.join(_signed(more, markup) for more in cell.differences)})" if cell.differences else shown


def numbers_text(kind: Kind, values: Sequence[float], markup: Markup) -> str:
    """Numbers of one kind: with one decimal, a sign where they are differences, the unit where it is not plain."""
    if kind == "counts":
        return "/".join(f"{value:.0f}" for value in values)
    if kind == "interval":
        return f"[{', '.join(_signed(value, markup) for value in values)}]"
    value = values[0]
    if kind == "points":
        return _signed(value, markup)
    if kind == "seconds":
        return f"{value:,.{_places(value)}f}"
    if kind == "number":
        return f"{round(value, 1):g}"
    return f"{value:.1f}" + {"share": markup.percent, "times": markup.times, "mebibytes": " MiB"}.get(kind, "")


def _deviation(kind: Kind, deviation: float | None, values: Sequence[float], markup: Markup) -> str:
    if deviation is None:
        return ""
    return f"{markup.plus_minus}{deviation:,.{_places(values[0]) if kind == 'seconds' else 1}f}"


def _signed(value: float, markup: Markup) -> str:
    rounded = round(value, 1)
    sign = "" if rounded == 0 else "+" if rounded > 0 else markup.minus
    return f"{sign}{abs(rounded):.1f}"


def _places(seconds: float) -> int:
    return 1 if seconds >= 10 else 2 if seconds >= 1 else 3


def markdown(tables: Iterable[ResultsTable]) -> str:
    """Tables under headings, with their notes; a wide one is a table for each group of columns."""
    return "\n".join(_markdown_table(table) for table in tables)


def _markdown_table(table: ResultsTable) -> str:
    lines = [f"## {MARKDOWN.escape(table.title)}", ""]
    for part in panels(table):
        groups = list(dict.fromkeys(column.group for column in part.columns))
        if len(groups) == 1 and groups[0]:
            lines += [f"### {MARKDOWN.escape(groups[0])}", ""]
        lines += [*_aligned(_grid(part, MARKDOWN, named=len(groups) > 1), len(part.columns)), ""]
    lines += [f"- {MARKDOWN.escape(note)}" for note in table.told]
    return "\n".join(lines).rstrip() + "\n"


def _grid(table: ResultsTable, markup: Markup, *, named: bool) -> list[list[str]]:
    """Heading and rows as text; the paper's numbers are a row below ours, a group of rows is named in its first."""
    grid = [[table.corner, *(_head(column, markup, named=named) for column in table.columns)]]
    group = ""
    for row in table.rows:
        if row.head.group != group:
            group = row.head.group
            grid.append([markup.bold(markup.escape(group)), *[""] * len(table.columns)])
        grid.append([_head(row.head, markup, named=False), *(cell_text(cell, markup) for cell in row.cells)])
        if any(cell is not None and cell.paper for cell in row.cells):
            grid.append([PAPER, *(paper_text(cell, markup) for cell in row.cells)])
    return grid


def _head(head: Heading, markup: Markup, *, named: bool) -> str:
    title = markup.escape(f"{head.group}: {head.title}" if named and head.group else head.title)
    return f"{title} ({','.join(head.mark)})" if head.mark else title


def _aligned(grid: Sequence[Sequence[str]], columns: int) -> list[str]:
    widths = [max(3, *(_width(line[i]) for line in grid)) for i in range(columns + 1)]
    rule = "|".join([":" + "-" * (widths[0] + 1), *("-" * (width + 1) + ":" for width in widths[1:])])
    lines = []
    for head, *cells in grid:
        shown = [head + " " * (widths[0] - _width(head))]
        shown += [" " * (width - _width(text)) + text for text, width in zip(cells, widths[1:], strict=True)]
        lines.append(f"| {' | '.join(shown)} |")
    return [lines[0], f"|{rule}|", *lines[1:]]


def _width(text: str) -> int:
    """Places that a text takes in a terminal."""
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _markdown_escape(text: str) -> str:
    plain = _one_line(text)
    plain = re.sub(r"([\\|`*<\[\]])", r"\\\1", plain)
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", plain)


def latex(tables: Iterable[ResultsTable]) -> str:
    """Tables for a document that loads booktabs, and graphicx where one is scaled to the page.

    One that would be too small to read on a page is a tabular for each group of columns.
    """
    return "\n".join(_latex_table(table) for table in tables)


def _latex_table(table: ResultsTable) -> str:
    parts = panels(table) if len(table.columns) > PAGE_COLUMNS else [table]
    scaled = any(len(part.columns) > MOST_COLUMNS for part in parts)
    notes = "\\par\n".join(LATEX.escape(note) for note in table.told)
    return "\n".join([
        "% needs booktabs" + (" and graphicx" if scaled else ""), r"\begin{table}[t]", r"\centering",
        rf"\caption{{{LATEX.escape(table.title)}}}", r"\small",
        "\n\\par\\medskip\n".join(_latex_tabular(part) for part in parts),
        r"\par\smallskip\begin{minipage}{\linewidth}\footnotesize", notes, r"\end{minipage}", r"\end{table}", "",
    ])  # fmt: skip


def _latex_tabular(table: ResultsTable) -> str:
    """The tabular itself, scaled to the page where it is wide."""
    body = [rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}", r"\toprule", *_latex_heads(table), r"\midrule"]
    body += [*_latex_rows(table), r"\bottomrule", r"\end{tabular}"]
    if len(table.columns) > MOST_COLUMNS:
        body = [r"\resizebox{\textwidth}{!}{%", *body[:-1], body[-1] + "}"]
    return "\n".join(body)


def _latex_heads(table: ResultsTable) -> list[str]:
    names = [table.corner, *(_latex_head(column) for column in table.columns)]
    if not any(column.group for column in table.columns):
        return [_latex_line(names)]
    above, rules, last = [""], [], 1  # the first column has the heads of the rows
    for group, columns in groupby(column.group for column in table.columns):
        size = len(list(columns))
        above.append(rf"\multicolumn{{{size}}}{{c}}{{{LATEX.escape(group)}}}")
        rules.append(rf"\cmidrule(lr){{{last + 1}-{last + size}}}")
        last += size
    return [_latex_line(above), "".join(rules), _latex_line(names)]


def _latex_rows(table: ResultsTable) -> list[str]:
    lines, group = [], ""
    for i, row in enumerate(table.rows):
        if row.head.group != group:
            group = row.head.group
            lines += [r"\midrule"] if i else []
            lines.append(rf"\multicolumn{{{len(table.columns) + 1}}}{{l}}{{\textit{{{LATEX.escape(group)}}}}} \\")
        elif row.summary:
            lines.append(r"\midrule")
        lines.append(_latex_line([_latex_head(row.head), *(cell_text(cell, LATEX) for cell in row.cells)]))
        if any(cell is not None and cell.paper for cell in row.cells):
            told = [rf"\footnotesize {text}" if (text := paper_text(cell, LATEX)) else "" for cell in row.cells]
            lines.append(_latex_line([rf"\quad\footnotesize {PAPER}", *told]))
    return lines


def _latex_head(head: Heading) -> str:
    mark = rf"\textsuperscript{{{','.join(head.mark)}}}" if head.mark else ""
    return LATEX.escape(head.title) + mark


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


SPECIAL = {
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "Δ": r"$\Delta$",
    MINUS: "$-$", TIMES: r"$\times$", DASH: "--", "…": r"\dots{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "]": "{]}", "*": "{*}",  # these three would be options of the line break before
} | {c: "\\" + c for c in "{}$&#_%"}  # fmt: skip


def _latex_escape(text: str) -> str:
    return "".join(SPECIAL.get(c, c) for c in _one_line(text))


def _one_line(text: str) -> str:
    shown = (" " if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") else c for c in text)
    return " ".join("".join(shown).split())


MARKDOWN = Markup(lambda text: f"**{text}**" if text else "", _markdown_escape)
LATEX = Markup(lambda text: rf"\textbf{{{text}}}", _latex_escape, r" $\pm$ ", "$-$", r"$\times$", r"\,\%", "--")
