"""A confusion matrix of many classes as SVG: names at its sides, and a hint on every cell that has images."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from yoro.reports.svg import drawing, element, label, line, shortened

NAMES, CELL = 96, 8  # units of a column of names, and of a cell
LONGEST = 26  # characters of a name at the side
HINTS = 4000  # cells with a hint; where there are more, those with the most images


def matrix_drawing(counts: NDArray[np.int64], names: list[str], linked: Collection[tuple[int, int]] = ()) -> Markup:
    """Rows are true classes, columns answers; right ones lie on the diagonal, in another colour.

    `linked` are the cells, by row and column, whose photos are on the page.
    """
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    truths, answers = np.nonzero(counts)
    order = np.argsort(-counts[truths, answers], kind="stable").tolist()
    side = len(names) * CELL
    parts = [element("rect", class_="ground", x=NAMES, y=NAMES, width=side, height=side)]
    for rank, i in enumerate(order):
        truth, answer = int(truths[i]), int(answers[i])
        cell = _cell(truth, answer, float(shares[truth, answer]), _hint(counts, names, truth, answer, rank))
        parts.append(element("a", cell, href=f"#cell-{truth}-{answer}") if (truth, answer) in linked else cell)
    for i, name in enumerate(names):
        at, middle = NAMES + i * CELL, NAMES + (i + 0.5) * CELL
        parts += [line("guide", (NAMES, at), (NAMES + side, at))] if i % 10 == 0 else []
        parts += [label(shortened(name, LONGEST), (NAMES - 3, middle + 2), "end"), _upright(name, middle + 2)]
    size = NAMES + side + 2, NAMES + side + 2
    about = f"Confusion matrix of {len(names)} classes: rows are true classes, columns answers."
    return drawing("confusions", size, parts, about, role="group" if linked else "img")


def _cell(truth: int, answer: int, share: float, hint: str) -> Markup:
    hints, kind = [element("title", hint)] if hint else [], "right" if truth == answer else "wrong"
    x, y, opacity = NAMES + answer * CELL, NAMES + truth * CELL, f"{0.35 + 0.65 * share:.2f}"
    return element("rect", *hints, class_=kind, x=x, y=y, width=CELL, height=CELL, opacity=opacity)


def _hint(counts: NDArray[np.int64], names: list[str], truth: int, answer: int, rank: int) -> str:
    """What a cell counts, in words; nothing beyond the first hints."""
    if rank >= HINTS:
        return ""
    of = f"{counts[truth, answer]:,} of {counts[truth].sum():,}"
    if truth == answer:
        return f"{names[truth]}: {of} right"
    return f"{names[truth]} mistaken for {names[answer]}: {of}"


def _upright(name: str, x: float) -> Markup:
    """The name of a column, read from below."""
    turned = f"rotate(-90 {x:g} {NAMES - 3})"
    return element("text", shortened(name, LONGEST), x=x, y=NAMES - 3, transform=turned)
