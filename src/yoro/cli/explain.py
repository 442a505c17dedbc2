"""`yoro explain`: what speaks for a class, and why an image was given its class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.data_arguments import Pictures, given
from yoro.cli.options import (
    LoadingOptions,
    ModelPath,
    Moved,
    MovedOptions,
    Reads,
    ReportOptions,
    Reports,
    UsageError,
)
from yoro.cli.output import print_json, print_text, say, tell_skipped, write_page

if TYPE_CHECKING:
    from yoro.model.open_model import OpenModel
    from yoro.trust.explanations import ClassReasons, Explanation


@dataclass(frozen=True)
class ExplainOptions:
    """What is explained, and how far."""

    labels: Annotated[
        tuple[str, ...],
        Parameter(
            name="--class", metavar="NAME", help="Without images: this class alone; repeatable.", show_default=False
        ),
    ] = ()
    top: Annotated[int, Parameter(metavar="K", help="Name the K strongest on each side.")] = 5
    near: Annotated[int, Parameter(metavar="N", help="Name the N most similar fitted images.")] = 5
    data: Annotated[
        str | None, Parameter(metavar="DATA", help="The fitted data, so that similar images have names.")
    ] = None
    occlusion: Annotated[
        int,
        Parameter(
            metavar="GRID",
            help="Map what matters, covering GRID x GRID parts: a pass each.",
            show_default=False,
        ),
    ] = 0


def explain(
    model: ModelPath,
    /,
    *images: Pictures,
    wanted: Annotated[ExplainOptions, Parameter(name="*")] = ExplainOptions(),
    moved: Moved = MovedOptions(),
    loading: Reads = LoadingOptions(),
    output: Reports = ReportOptions(),
) -> None:
    """Say what speaks for a class, or why images got theirs.

    Of an image, contributions that add up to the log odds of its best two classes, and the fitted images most like it.
    """
    from yoro.model.open_model import load
    from yoro.model.store import check_output

    _check(images, wanted)
    if output.html is not None:
        check_output(output.html, force=output.force)
    classifier = load(model, source=moved.source, device=moved.device, calls=moved.calls)
    if images:
        _explain_images(classifier, given(images), wanted, loading, output)
    else:
        _explain_classes(classifier, wanted, output)


def _check(images: Sequence[str], wanted: ExplainOptions) -> None:
    if images and wanted.labels:
        raise UsageError("--class explains a class of the model; leave it or the images out.")
    if not images and (wanted.occlusion or wanted.data is not None):
        raise UsageError("--occlusion and --data go with images.")
    if wanted.top < 1 or wanted.near < 0:
        raise UsageError(f"--top is {wanted.top} and --near {wanted.near}; expected at least 1 and 0.")


def _explain_classes(classifier: OpenModel, wanted: ExplainOptions, output: ReportOptions) -> None:
    from yoro.trust.explanations import explain_classes

    reasons = explain_classes(classifier, wanted.labels)
    if output.html is not None:
        from yoro.reports.explanations_page import classes_html

        write_page(output.html, classes_html(reasons, classifier.model.origin.name, wanted.top), output.quiet)
    if output.as_json:
        print_json({"classes": [one.to_json(wanted.top) for one in reasons]})
    else:
        print_text("\n\n".join(class_text(one, wanted.top) for one in reasons))


def _explain_images(
    classifier: OpenModel, data: object, wanted: ExplainOptions, loading: LoadingOptions, output: ReportOptions
) -> None:
    from yoro.reports.explanations_page import ImagesPage
    from yoro.trust.explanations import Asked, ExplanationStream
    from yoro.trust.occlusion import passes

    asked = Asked(wanted.near, wanted.data, wanted.occlusion)
    stream = ExplanationStream(classifier, data, asked, loading=loading, progress=not output.quiet)
    for note in stream.answers.notes:
        say(note, output.quiet)
    if wanted.occlusion:
        cost = passes(wanted.occlusion, classifier.pipeline.layout.views)
        say(f"The map of an image costs {cost:,} forward passes.", output.quiet)
    page = ImagesPage(classifier, stream, wanted.top)
    rows = []
    for one in stream:
        if output.as_json:
            rows.append(one.to_json(wanted.top))
        else:
            print_text(("\n" if page.total else "") + image_text(one, wanted.top))
        page.add(one)
    if output.html is not None:
        write_page(output.html, page.html(), output.quiet)
    if output.as_json:
        print_json({"images": rows})
    tell_skipped(stream.answers.skipped)


def class_text(reasons: ClassReasons, top: int) -> str:
    """What speaks for a class, as lines."""
    title = f"{reasons.label}: by {reasons.reading}, {reasons.share:.0%} of the answer"
    lines = [f"  {value:+6.2f}  {name}" for name, value in reasons.speaking_for(top)]
    lines += [f"  {value:+6.2f}  {name}" for name, value in reversed(reasons.speaking_against(top))]
    return "\n".join([title, *(lines or ["  nothing"])])


def image_text(one: Explanation, top: int) -> str:
    """Why an image got its class, as lines: the sum by readings, then the strongest terms, then what is like it."""
    from yoro.model.metrics import percent_text
    from yoro.trust.explanations import strongest

    first, second = percent_text(one.probability), percent_text(one.second_probability)
    lines = [f"{one.name}: {one.label} {first}, {one.second} {second}", f"{one.difference:+10.4f}  log odds"]
    sums = [(part.reading, part.value) for part in one.parts]
    lines += [f"{value:+10.4f}    {name}" for name, value in [*sums, ("prior", one.prior), ("offset", one.offset)]]
    for label, reasons in zip((one.label, one.second), strongest(one.parts, top), strict=True):
        if reasons:
            lines += [f"speaks for {label}", *(f"{value:+10.4f}    {name}" for name, value in reasons)]
    if one.nearest:
        alike = [f"{n.similarity:10.4f}    {n.label}  {n.name or n.digest}" for n in one.nearest]
        lines += ["most similar fitted images", *alike]
    if one.occlusion is not None:
        lines += ["how much covering a part lowers the log odds"]
        lines += ["  " + "".join(f"{value:+8.2f}" for value in row) for row in one.occlusion]
    return "\n".join(lines)
