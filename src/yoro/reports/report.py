"""A report on a classifier: one HTML page that needs nothing besides itself."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from yoro.discriminant.evidence import Choice
from yoro.errors import InputError
from yoro.model.metrics import ClassFigures, Evaluation
from yoro.reports.charts import CELLS, confusion_matrix, data_uri, matrix_colours, name, shares, shrinkage_curve, text

MOST_MISTAKES = 24  # thumbnails on a page
MOST_CONFUSIONS = 20  # listed beside a picture; beside a table of numbers half as many
MOST_BYTES = 65_536  # of one thumbnail; one made by `thumbnail` has about 4,000
SIGNATURES = {b"\xff\xd8\xff": "jpeg", b"\x89PNG\r\n\x1a\n": "png"}
# Names are a stranger's: should one ever slip through the escaping, the browser still runs and fetches nothing.
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


@dataclass(frozen=True)
class Mistake:
    """A wrong answer: the file's name, the true class, the answer and its probability, a small JPEG or PNG."""

    name: str
    truth: str
    answer: str
    probability: float
    thumbnail: bytes


def thumbnail(image: NDArray[np.uint8], side: int = 112) -> bytes:
    """A JPEG of an image (height, width, 3) whose longer side is at most `side`; small images stay as they are."""
    pixels = np.asarray(image)
    if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8 or not pixels.size:
        raise InputError(f"An image of shape {pixels.shape}, {pixels.dtype} was given; expected (h, w, 3), uint8.")
    picture = Image.fromarray(pixels)
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    picture.save(stream, "JPEG", quality=85, optimize=True)
    return stream.getvalue()


def report_html(
    title: str,
    evaluation: Evaluation,
    choice: Choice | None,
    mistakes: Sequence[Mistake],
    facts: Mapping[str, str],
    *,
    basis: str,
) -> str:
    """The whole page, to be written as UTF-8.

    It asks for no other file, runs no script, and is bounded in size: of the mistakes the 24 most
    certain are shown. `basis` says what the figures were measured on, such as "597 held-out images".
    """
    sections = [
        _headline(title, evaluation, basis),
        facts_list(facts),
        _confusions(evaluation),
        _mistakes(mistakes),
        _classes(evaluation),
        _curve(choice),
    ]
    return page(title, sections, matrix_colours())


def page(title: str, sections: Sequence[str], style: str = "") -> str:
    """A page of its own from sections of HTML; empty ones are left out."""
    rules = resources.files("yoro.reports").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)}</title>\n<style>\n{rules}{style}\n</style>\n</head>\n<body>\n"
        + "\n".join(section for section in sections if section)
        + "\n</body>\n</html>\n"
    )


def _headline(title: str, evaluation: Evaluation, basis: str) -> str:
    low, high = evaluation.interval
    cards = [
        ("Accuracy", _percent(evaluation.accuracy), f"{100 * low:.1f} to {_percent(high)} (95\u00a0% interval)"),
        ("Balanced accuracy", _percent(evaluation.balanced_accuracy), "mean recall of the classes"),
        ("Macro F1", _percent(evaluation.macro_f1), "mean F1 of the classes"),
        ("Log loss", f"{evaluation.log_loss:.3f}", "lower is better"),
        ("Calibration error", _percent(evaluation.calibration_error), "confidence against accuracy; lower is better"),
    ]
    shown = "\n".join(
        f'<div class="card"><span>{label}</span><b>{figure}</b><small>{note}</small></div>'
        for label, figure, note in cards
    )
    return (
        f'<header><h1>{name(title)}</h1>\n<p class="quiet">Measured on: {text(basis, 400)}</p></header>\n'
        f'<div class="cards">\n{shown}\n</div>'
    )


def facts_list(facts: Mapping[str, str]) -> str:
    """A section of names and values; nothing without any."""
    if not facts:
        return ""
    rows = "\n".join(
        f"<div><dt>{name(key)}</dt><dd><bdi>{text(value, 400)}</bdi></dd></div>" for key, value in facts.items()
    )
    return f'<section><h2>Facts</h2>\n<dl class="facts">\n{rows}\n</dl></section>'


def _mistakes(mistakes: Sequence[Mistake]) -> str:
    if not mistakes:
        return ""
    worst = sorted(mistakes, key=lambda mistake: (-mistake.probability, mistake.name))[:MOST_MISTAKES]
    kept = "" if len(worst) == len(mistakes) else f" The {len(worst)} most certain of {len(mistakes):,} are shown."
    shown = "\n".join(_figure(mistake) for mistake in worst)
    return (
        "<section><h2>Worst mistakes</h2>\n"
        f'<p class="quiet">Wrong answers, the most certain first; some may be wrong labels.{kept}</p>\n'
        f'<div class="gallery">\n{shown}\n</div></section>'
    )


def _figure(mistake: Mistake) -> str:
    address = data_uri(mistake.thumbnail, _kind(mistake))
    sure = f"{100 * mistake.probability:.0f}\u00a0%"
    return (
        f'<figure><img src="{address}" alt="" loading="lazy"><figcaption>'
        f'<span class="answer">answer: {_breakable(mistake.answer)} ({sure})</span><br>'
        f"true: {_breakable(mistake.truth)}<small>{_breakable(mistake.name)}</small></figcaption></figure>"
    )


def _breakable(value: str) -> str:
    """A name whose line may end after a mark, rather than within a word."""
    return "<bdi>" + re.sub(r"([/_.-])", r"\1<wbr>", text(value)) + "</bdi>"  # escapes hold no such mark


def _kind(mistake: Mistake) -> str:
    """The type of a thumbnail, from its first bytes."""
    if len(mistake.thumbnail) > MOST_BYTES:
        raise InputError(
            f"The thumbnail of {mistake.name!r} has {len(mistake.thumbnail):,} bytes; "
            f"expected at most {MOST_BYTES:,}. Make it with yoro.reports.report.thumbnail."
        )
    for signature, kind in SIGNATURES.items():
        if mistake.thumbnail.startswith(signature):
            return kind
    raise InputError(f"The thumbnail of {mistake.name!r} is neither a JPEG nor a PNG.")


def _confusions(evaluation: Evaluation) -> str:
    what = "cell" if len(evaluation.per_class) <= CELLS else "pixel"
    key = (
        '<p class="quiet">Rows are true classes, columns are answers. A '
        f"{what}'s colour is the share of the true class: "
        '<span class="keys"><span class="key right"></span>right, <span class="key wrong"></span>wrong.</span></p>'
    )
    return (
        f"<section><h2>Confusion matrix</h2>\n{key}\n{confusion_matrix(evaluation)}\n{_frequent(evaluation)}</section>"
    )


def _frequent(evaluation: Evaluation) -> str:
    """The most frequent confusions, as a list."""
    counts = np.array(evaluation.confusion, dtype=np.int64)
    share = shares(counts)
    np.fill_diagonal(counts, 0)
    truths, answers = np.nonzero(counts)
    if not len(truths):
        return '<p class="quiet">Nothing was confused.</p>'
    most = MOST_CONFUSIONS if len(counts) > CELLS else MOST_CONFUSIONS // 2
    order = np.argsort(-counts[truths, answers], kind="stable")[:most]
    names = [figures.name for figures in evaluation.per_class]
    rows = "\n".join(
        f'<tr><th scope="row">{_breakable(names[i])}</th><td>{_breakable(names[j])}</td>'
        f'<td class="number">{counts[i, j]:,}</td><td class="number">{_percent(share[i, j])}</td></tr>'
        for i, j in zip(truths[order].tolist(), answers[order].tolist(), strict=True)
    )
    head = '<th>True class</th><th>Answer</th><th class="number">Images</th><th class="number">Share</th>'
    return (
        '<h2>Most frequent confusions</h2>\n<p class="quiet">The share is of the images of the true class.</p>\n'
        f'<table class="list confused"><thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody></table>'
    )


def _curve(choice: Choice | None) -> str:
    drawing = shrinkage_curve(choice) if choice else ""
    if not choice or not drawing:
        return ""
    better = "more is better" if choice.rule == "validation" else "less is better"
    told = f"Every candidate under the rule {text(choice.rule)}; {better}."
    return f'<section><h2>Choice of the shrinkage</h2>\n<p class="quiet">{told}</p>\n{drawing}</section>'


def _classes(evaluation: Evaluation) -> str:
    worst = sorted(evaluation.per_class, key=lambda figures: (figures.n == 0, figures.f1, figures.name))
    rows = "\n".join(_class_row(figures) for figures in worst)
    head = '<th>Class</th><th class="number">Images</th>' + "".join(
        f'<th class="number">{what}</th>' for what in ("Precision", "Recall", "F1")
    )
    return (
        f'<section><h2>Classes</h2>\n<p class="quiet">{len(worst):,} classes, the worst F1 first.</p>\n'
        f'<div class="scroll long"><table class="list"><thead><tr>{head}</tr></thead>\n'
        f"<tbody>\n{rows}\n</tbody></table></div></section>"
    )


def _class_row(figures: ClassFigures) -> str:
    f1 = figures.f1 if figures.n else None
    bars = "".join(_bar(share) for share in (figures.precision, figures.recall, f1))
    return f'<tr><th scope="row">{_breakable(figures.name)}</th><td class="number">{figures.n:,}</td>{bars}</tr>'


def _bar(share: float | None) -> str:
    if share is None:
        return '<td class="number">&ndash;</td>'
    return f'<td class="bar" style="--share:{100 * share:.0f}%">{_percent(share)}</td>'


def _percent(share: float) -> str:
    return f"{100 * share:.1f}\u00a0%"  # the space does not break
