"""`yoro advise`: what labelled data are worth, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.data_arguments import Images, LabelFrom, given
from yoro.cli.options import (
    Answers,
    JsonOptions,
    LoadingOptions,
    PipelineOptions,
    Pipelines,
    Reads,
    UsageError,
    parse_names,
)
from yoro.cli.output import duration, print_json, print_text, say, spoken_warnings, tell_skipped
from yoro.errors import counted
from yoro.model.settings import FitSettings, silence

if TYPE_CHECKING:
    from yoro.trust.active_learning import NextToLabel
    from yoro.trust.advice import Advice, Point
    from yoro.trust.backbone_trial import Tried

MOST_NEEDY = 5  # classes that are named
MOST_SHOWN = 10  # images to label next that are shown where no list is written


@dataclass(frozen=True)
class ChoiceOptions:
    """Which unlabelled images to label next."""

    more: Annotated[
        str | None, Parameter(metavar="IMAGES", help="Unlabelled images: say which of them to label next.")
    ] = None
    sources: Annotated[
        str | None, Parameter(name="--try", metavar="S,S", help="Other sources to compare on a sample of the images.")
    ] = None
    choose: Annotated[int | None, Parameter(metavar="N", help="With --more: how many; 10 unless told.")] = None
    out: Annotated[
        Path | None, Parameter(metavar="LIST", help="With --more: write them all to a .csv, .json or .jsonl.")
    ] = None


def advise(
    *data: Images,
    label_from: LabelFrom = None,
    choice: Annotated[ChoiceOptions, Parameter(name="*")] = ChoiceOptions(),
    pipeline: Pipelines = PipelineOptions(),
    loading: Reads = LoadingOptions(),
    output: Answers = JsonOptions(),
) -> None:
    """Say what labelled data are worth, and which images to label next.

    One pass over the data: how accurate it is and will be with more images, which classes need them, and what other
    readings and sources give. Nothing is saved.
    """
    from yoro.files.rows import FORMATS, write_rows
    from yoro.fit import run_fit
    from yoro.model.store import check_output
    from yoro.trust.active_learning import COUNT, choose_next
    from yoro.trust.advice import advise as from_model
    from yoro.trust.backbone_trial import try_source

    if choice.more is None and choice.out is not None:
        raise UsageError("--out writes a list of images to label; give them with --more.")
    kind = choice.out.suffix.removeprefix(".").lower() if choice.out else "csv"
    if kind not in FORMATS:
        raise UsageError(f"{kind!r} is no format; expected one of {', '.join(FORMATS)}.")
    if choice.out is not None:
        check_output(choice.out, force=output.force)
    quiet = output.quiet
    settings = FitSettings(pipeline, loading=loading, progress=not quiet, tell=lambda note: say(note, quiet))
    with spoken_warnings(quiet):
        outcome = run_fit(given(data, label_from), None, settings)
        advice, chosen = from_model(outcome.classifier.model), None
        others = parse_names(choice.sources)
        if others and not outcome.examples:
            raise UsageError("--try reads images; responses are those of one source.")
        silent = replace(settings, tell=silence)
        tried = [try_source(outcome.classifier.model, outcome.examples, name, silent) for name in others]
        if choice.more is not None:
            count = COUNT if choice.choose is None else choice.choose
            chosen = choose_next(outcome.classifier, choice.more, count, loading=loading, progress=not quiet)
    if output.as_json:
        rows = [one.row() for one in chosen.candidates] if chosen else []
        print_json(advice.to_json() | {"tried": [one.to_json() for one in tried], "next": rows})
    else:
        told = [*advice_lines(advice), *map(_tried_line, tried), *(_next_lines(chosen) if chosen else [])]
        for line in told:
            print_text(line)
    if choice.out is not None and chosen is not None:
        write_rows((one.row() for one in chosen.candidates), kind, choice.out)
        say(f"{choice.out}: {counted(len(chosen.candidates), 'image')} to label next.", quiet)
    tell_skipped([*outcome.skipped, *(chosen.skipped if chosen else ())])


def advice_lines(advice: Advice) -> list[str]:
    """The advice in sentences."""
    from yoro.refining.settings import DEFAULT_BATCH, RefineSettings, prospects

    now, *more = advice.forecast
    what = (
        f"{counted(advice.images, 'image')} of {counted(advice.classes, 'class')}, {advice.each:g} in the median class"
    )
    took = f"{duration(advice.seconds)} to read and fit"
    lines = [f"{what}; {took}.", f"Right by leave-one-out: {_shown(advice.now)}."]
    lines += [f"Measured with {point.images:.3g} a class: {_shown(point)}." for point in advice.curve]
    lines.append(f"To expect on new images, as it is: {_shown(now)}.")
    lines += [f"  with {point.images:g} a class: {_shown(point)}." for point in more]
    if more:
        lines.append(_worth(now, more[0]))
    needy = [need for need in advice.needs if need.recall < 1][:MOST_NEEDY]
    if needy:
        lines.append("Classes that need images most:")
    for need in needy:
        taken = f", most often taken for {need.mistaken_for}" if need.mistaken_for else ""
        lines.append(f"  {need.name}: {counted(need.images, 'image')}, {need.recall:.0%} of them right{taken}.")
    lines += _reading_lines(advice)
    few = prospects(advice.images, RefineSettings.epochs, DEFAULT_BATCH)
    long = "Refinement (`yoro refine`) may be worth its time: there are enough images for it."
    lines += [f"Refinement: {sentence}" for sentence in few] or [long]
    return [*lines, *advice.notes]


def _worth(now: Point, twice: Point) -> str:
    gain = 100 * (twice.accuracy - now.accuracy)
    if gain < 1:
        return f"Twice as many images would buy about {gain:.1f} points: more images alone will not help much."
    return f"Twice as many images would buy about {gain:.1f} points."


def _reading_lines(advice: Advice) -> list[str]:
    """What each reading of the pass gives alone."""
    from yoro.discriminant.readings import FEATURES, LOGITS

    if not advice.readings:
        return ["One reading was fitted; `--read all` weighs several of the same pass, where the source has them."]
    told = ", ".join(f"{one.name} {one.accuracy:.1%}" for one in advice.readings)
    lines = [f"Readings alone: {told}; all together {advice.now.accuracy:.1%}."]
    spread = (advice.now.accuracy * (1 - advice.now.accuracy) / advice.images) ** 0.5
    enough = [one.name for one in advice.readings if one.accuracy >= advice.now.accuracy - spread]
    single = next((name for name in enough if name in (LOGITS, FEATURES)), None)
    if single is not None:
        lines.append(f"  `--read {single}` would do about as well here, and make a smaller model in the same time.")
    return lines


def _tried_line(tried: Tried) -> str:
    """How another source did."""
    compared = f"{tried.accuracy:.1%} right beside {tried.present:.1%} on {counted(tried.images, 'image')}"
    took = f"{1000 * tried.seconds:.0f} ms an image beside {1000 * tried.present_seconds:.0f}"
    return f"{tried.source}: {tried.verdict}, {compared} ({tried.gained} gained, {tried.lost} lost), {took}."


def _next_lines(chosen: NextToLabel) -> list[str]:
    lines = [f"To label next, of {counted(chosen.looked_at, 'image')} that were not fitted:"]
    shown = chosen.candidates[:MOST_SHOWN]
    lines += [f"  {one.name}: {one.label} {one.probability:.0%}, or {one.other}." for one in shown]
    rest = len(chosen.candidates) - MOST_SHOWN
    return [*lines, f"  ... and {rest:,} more."] if rest > 0 else lines


def _shown(point: Point) -> str:
    return f"{point.accuracy:.1%} (90 %: {point.low:.1%} to {point.high:.1%})"
