"""`yoro explain`: the reasons for a class or a prediction."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from yoro.cli.arguments import ModelPath, Pictures, given
from yoro.cli.options import ReadingOptions, ReportOptions, shown
from yoro.cli.output import MOST_ON_SCREEN, UsageError, print_json, print_text, say, tell_skipped
from yoro.errors import percent_text
from yoro.option import option

if TYPE_CHECKING:
    from yoro.model.open_model import OpenModel
    from yoro.trust.explanations import ClassReasons, Explanation

WHOLE = 2  # classes or images that a terminal shows in full
FEW = 3  # terms on each side of a line


@shown()
class ExplainOptions:
    """What is explained, and how far."""

    labels: tuple[str, ...] = option(
        (), "Without images: explain only this class; repeatable.", flags=("--class",), metavar="NAME"
    )
    top: int = option(5, "Show the K strongest contributions on each side.", metavar="K")
    near: int = option(5, "Show the N most similar training images.", metavar="N")
    data: str | None = option(None, "The training data, to name the similar images.", metavar="DATA")
    occlusion: int = option(
        0, "Occlusion map with GRID x GRID parts, one forward pass each.", metavar="GRID", expert=True
    )


def explain(
    model: ModelPath,
    /,
    *images: Pictures,
    wanted: ExplainOptions = ExplainOptions(),
    reading: ReadingOptions = ReadingOptions(),
    output: ReportOptions = ReportOptions(),
) -> None:
    """Explain a class or a prediction.

    For an image: contributions that add up to the log odds of its two best classes, and the most similar training
    images.
    """
    _check(images, wanted)
    output.check(output.html)
    classifier = reading.load(model)
    if images:
        _explain_images(classifier, given(images), wanted, reading, output)
    else:
        _explain_classes(classifier, wanted, output)


def _check(images: Sequence[str], wanted: ExplainOptions) -> None:
    if images and wanted.labels:
        raise UsageError("Give images or --class, not both.")
    if not images and (wanted.occlusion or wanted.data is not None):
        raise UsageError("--occlusion and --data need images.")
    if wanted.top < 1 or wanted.near < 0:
        raise UsageError(f"--top is {wanted.top} and --near {wanted.near}; expected at least 1 and 0.")


def _explain_classes(classifier: OpenModel, wanted: ExplainOptions, output: ReportOptions) -> None:
    from yoro.trust.explanations import explain_classes

    reasons = explain_classes(classifier, wanted.labels)
    if output.html is not None:
        from yoro.reports.gallery import classes_html

        output.write_page(output.html, classes_html(reasons, classifier.model.origin.name, wanted.top))
    if output.as_json:
        print_json({"classes": [one.to_json(wanted.top) for one in reasons]})
    elif sys.stdout.isatty() and len(reasons) > WHOLE:
        print_text(classes_screen(reasons))
    else:
        print_text("\n\n".join(class_text(one, wanted.top) for one in reasons))


def _explain_images(
    classifier: OpenModel, data: object, wanted: ExplainOptions, reading: ReadingOptions, output: ReportOptions
) -> None:
    from yoro.reports.gallery import ImagesPage
    from yoro.trust.explanations import ExplanationRequest, ExplanationStream
    from yoro.trust.occlusion import passes

    asked = ExplanationRequest(wanted.near, wanted.data, wanted.occlusion)
    stream = ExplanationStream(classifier, data, asked, loading=reading, progress=not output.quiet)
    output.tell(*stream.answers.notes)
    if wanted.occlusion:
        cost = passes(wanted.occlusion, classifier.pipeline.layout.views)
        output.tell(f"Each occlusion map takes {cost:,} forward passes.")
    page = ImagesPage(classifier, stream, wanted.top)
    rows, short = [], sys.stdout.isatty() and len(stream.pictures) > WHOLE
    for one in stream:
        if output.as_json:
            rows.append(one.to_json(wanted.top))
        elif short:
            print_text(image_line(one))
        else:
            print_text(("\n" if page.total else "") + image_text(one, wanted.top))
        page.add(one)
    if output.html is not None:
        output.write_page(output.html, page.html())
    if output.as_json:
        print_json({"images": rows})
    elif short:
        say("'little X' means less of X than usual. For the full explanation give a single image, or --html PAGE.")
    tell_skipped(stream.answers.skipped)


def classes_screen(reasons: Sequence[ClassReasons]) -> str:
    """For a terminal: a line per class and layer."""
    lines = []
    for one in reasons[:MOST_ON_SCREEN]:
        like, unlike = (", ".join(_names(side)) for side in (one.speaking_for(FEW), one.speaking_against(FEW)))
        lines.append(f"{one.label}: like {like or 'nothing'}; unlike {unlike or 'nothing'}")
    more = f"... and {len(reasons) - len(lines):,} more. " if len(reasons) > len(lines) else ""
    return "\n".join([*lines, f"{more}For the full explanation: --class NAME, or --html PAGE."])


def image_line(one: Explanation) -> str:
    """For a terminal: a prediction, the second best, and what speaks for the first."""
    from yoro.trust.explanations import strongest

    best, second = percent_text(one.probability), percent_text(one.second_probability)
    named = [part for part in one.parts if part.named and part.contributions.any()]
    like = ", ".join(_names(strongest(named, FEW)[0])) if named else ""
    return f"{one.name}: {one.label} {best}, {one.second} {second}{like and f'; like {like}'}"


def _names(reasons: Sequence[tuple[str, float]]) -> list[str]:
    return [name for name, _ in reasons]


def class_text(reasons: ClassReasons, top: int) -> str:
    """The reasons for a class, as lines."""
    title = f"{reasons.label}: {reasons.reading}, {reasons.share:.0%} of the answer"
    lines = [f"  {value:+6.2f}  {name}" for name, value in reasons.speaking_for(top)]
    lines += [f"  {value:+6.2f}  {name}" for name, value in reversed(reasons.speaking_against(top))]
    return "\n".join([title, *(lines or ["  nothing"])])


def image_text(one: Explanation, top: int) -> str:
    """The reasons for a prediction, as lines: the sum by layers, the strongest terms, the most similar images."""
    from yoro.trust.explanations import strongest

    first, second = percent_text(one.probability), percent_text(one.second_probability)
    lines = [f"{one.name}: {one.label} {first}, {one.second} {second}", f"{one.difference:+10.4f}  log odds"]
    lines += [f"{value:+10.4f}    {name}" for name, value in one.sums]
    for label, reasons in zip((one.label, one.second), strongest(one.parts, top), strict=True):
        if reasons:
            lines += [f"evidence for {label}", *(f"{value:+10.4f}    {name}" for name, value in reasons)]
    if one.nearest:
        alike = [f"{n.similarity:10.4f}    {n.label}  {n.name}".rstrip() for n in one.nearest]
        named = "" if any(n.name for n in one.nearest) else " (--data FOLDER names their files)"
        lines += [f"most similar training images{named}", *alike]
    if one.occlusion is not None:
        lines += ["drop of the log odds when a part is covered"]
        lines += ["  " + "".join(f"{value:+8.2f}" for value in row) for row in one.occlusion]
    return "\n".join(lines)
