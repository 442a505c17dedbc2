"""Drawings of a report as HTML text: the confusion matrix and the curve of the shrinkage."""

from __future__ import annotations

import base64
import html
import io
import math
import unicodedata
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from yoro.discriminant.evidence import Choice
from yoro.model.metrics import Evaluation
from yoro.reports.axes import Frame

Counts = NDArray[np.int64]

FEW = 12  # classes up to which the cells of a matrix are roomy
CELLS = 40  # classes up to which a matrix is a table of numbers; above, a picture
SIDE = 1000  # pixels of a picture at most; above, neighbouring classes share a pixel
LEVELS = 10  # of colour
LONGEST = 120  # characters of a stranger's name that are shown
RIGHT, WRONG = (46, 118, 220), (226, 96, 26)  # colours of a picture, seen on white and on black
WIDTH, HEIGHT = 480, 260  # of the curve, in its own units
LEFT, BELOW, ABOVE, BESIDE = 58, 46, 44, 18  # its margins
FRAME = Frame(LEFT, WIDTH - BESIDE, ABOVE, HEIGHT - BELOW)


def text(value: object, longest: int = LONGEST) -> str:
    """A stranger's text made safe for HTML: escaped, of bounded length, without control characters."""
    plain = str(value)
    if len(plain) > longest:
        plain = plain[: longest // 2] + "…" + plain[-(longest // 2) :]
    shown = ("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") else c for c in plain)
    return html.escape("".join(shown), quote=True)


def name(value: object) -> str:
    """A stranger's name, escaped and kept from turning the direction of the text around it."""
    return f"<bdi>{text(value)}</bdi>"


def confusion_matrix(evaluation: Evaluation) -> str:
    """Rows are true classes, columns answers: a table of counts, or a picture where classes are many."""
    counts = np.array(evaluation.confusion, dtype=np.int64)
    names = [figures.name for figures in evaluation.per_class]
    return _matrix_table(counts, names) if len(names) <= CELLS else _matrix_picture(counts)


def _matrix_table(counts: Counts, names: Sequence[str]) -> str:
    columns = "".join(f'<th scope="col" title="{text(label)}">{name(label)}</th>' for label in names)
    level = np.ceil(LEVELS * shares(counts)).astype(int)
    rows = "".join(
        f'<tr><th scope="row" title="{text(label)}">{name(label)}</th>'
        + "".join(_cell(int(counts[i, j]), int(level[i, j]), right=i == j) for j in range(len(names)))
        + "</tr>\n"
        for i, label in enumerate(names)
    )
    kind = "matrix few" if len(names) <= FEW else "matrix"
    head = f"<thead><tr><td></td>{columns}</tr></thead>"
    return f'<div class="scroll"><table class="{kind}">{head}\n<tbody>{rows}</tbody></table></div>'


def _cell(count: int, level: int, *, right: bool) -> str:
    return f'<td class="{"r" if right else "w"}{level}">{count}</td>' if count else "<td></td>"


def matrix_colours() -> str:
    """Style rules of the cells; the weakest can still be seen, the strongest carry light text."""
    rules = []
    for kind, colour in (("r", "right"), ("w", "wrong")):
        for level in range(1, LEVELS + 1):
            ink = "; color: var(--strong-ink)" if level > 7 else ""
            rules.append(
                f".matrix .{kind}{level} {{ background: rgb(var(--{colour}) / {0.08 + 0.092 * level:.2f}){ink} }}"
            )
    return "\n".join(rules)


def _matrix_picture(counts: Counts) -> str:
    step = -(-len(counts) // SIDE)  # rounded up
    starts = np.arange(0, len(counts), step)
    blocks = np.add.reduceat(np.add.reduceat(counts, starts, axis=0), starts, axis=1)
    share = shares(blocks)
    pixels = np.zeros((*blocks.shape, 4), dtype=np.uint8)
    pixels[..., :3] = np.where(np.eye(len(blocks), dtype=bool)[..., None], RIGHT, WRONG)
    pixels[..., 3] = np.where(blocks > 0, np.round(255 * (0.45 + 0.55 * share)), 0)
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG", optimize=True)
    about = f"Confusion matrix of {len(counts)} classes: rows are true classes, columns answers."
    picture = f'<img class="picture" alt="{about}" src="{data_uri(stream.getvalue(), "png")}">'
    return picture if step == 1 else f'{picture}\n<p class="quiet">{step} neighbouring classes share a pixel.</p>'


def shares(counts: Counts) -> NDArray[np.float64]:
    """Share of each answer among the images of the true class (rows); zero for a class without images."""
    result: NDArray[np.float64] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    return result


def data_uri(image: bytes, kind: str) -> str:
    """An image as an address that holds it."""
    return f"data:image/{kind};base64,{base64.b64encode(image).decode('ascii')}"


def shrinkage_curve(choice: Choice) -> str:
    """How every candidate fared, over the logarithm of the shrinkage; empty without candidates."""
    pairs = [(rho, score) for rho, score in zip(choice.candidates, choice.scores, strict=True) if math.isfinite(score)]
    if not pairs:
        return ""
    across, ticks_across = FRAME.logarithmic([rho for rho, _ in pairs])
    up, ticks_up = FRAME.linear([score for _, score in pairs], whole=choice.rule == "validation")
    label = "correct answers" if choice.rule == "validation" else "negative log-likelihood"
    parts = [FRAME.grid_up(up, ticks_up), FRAME.grid_across(across, ticks_across)]
    parts.append(f'<text x="4" y="14">{label}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - BESIDE) / 2:.1f}" y="{HEIGHT - 6}" text-anchor="middle">shrinkage</text>')
    route = " ".join(f"{across(rho):.1f},{up(score):.1f}" for rho, score in pairs)
    parts.append(f'<polyline class="path" points="{route}"/>')
    parts += [f'<circle class="point" cx="{across(rho):.1f}" cy="{up(score):.1f}" r="3"/>' for rho, score in pairs]
    chosen = [(across(rho), up(score)) for rho, score in pairs if rho == choice.shrinkage]
    parts += [_chosen(x, y, choice.shrinkage) for x, y in chosen[:1]]
    about = f"Curve of {label} over {len(pairs)} candidate shrinkages; {choice.shrinkage:g} was chosen."
    return f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{about}">{"".join(parts)}</svg>'


def epoch_curve(values: Sequence[tuple[int, float]], label: str, chosen: int) -> str:
    """A figure over the epochs of a training, with the chosen epoch marked; empty without values."""
    pairs = [(epoch, value) for epoch, value in values if math.isfinite(value)]
    if not pairs:
        return ""
    across, epochs = FRAME.epochs(pairs[0][0], pairs[-1][0])
    up, ticks = FRAME.linear([value for _, value in pairs])
    parts = [FRAME.grid_up(up, ticks), FRAME.grid_across(across, epochs)]
    parts.append(f'<text x="4" y="14">{label}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - BESIDE) / 2:.1f}" y="{HEIGHT - 6}" text-anchor="middle">epoch</text>')
    route = " ".join(f"{across(epoch):.1f},{up(value):.1f}" for epoch, value in pairs)
    parts.append(f'<polyline class="path" points="{route}"/>')
    parts += [f'<circle class="point" cx="{across(e):.1f}" cy="{up(value):.1f}" r="3"/>' for e, value in pairs]
    parts += [_chosen(across(e), up(value), chosen) for e, value in pairs if e == chosen]
    about = f"Curve of {label} over {len(pairs)} epochs; epoch {chosen} was chosen."
    return f'<svg class="curve" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{about}">{"".join(parts)}</svg>'


def _chosen(x: float, y: float, shrinkage: float) -> str:
    anchor = "start" if x < WIDTH / 3 else "end" if x > 2 * WIDTH / 3 else "middle"
    return (
        f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{ABOVE - 6}" y2="{HEIGHT - BELOW}"/>'
        f'<circle class="chosen" cx="{x:.1f}" cy="{y:.1f}" r="6"/>'
        f'<text class="name" x="{x:.1f}" y="{ABOVE - 11}" text-anchor="{anchor}">chosen: {shrinkage:g}</text>'
    )
