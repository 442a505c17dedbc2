"""`yoro advise`: what labelled data achieve, and what to do next."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from yoro.cli.arguments import Images, given, list_format, parse_names
from yoro.cli.options import LABEL_FROM, JsonOptions, LoadingOptions, PipelineOptions, shown
from yoro.cli.output import UsageError, duration, tell_skipped
from yoro.errors import counted
from yoro.model.settings import FitSettings, silence
from yoro.option import option

if TYPE_CHECKING:
    from yoro.trust.active_learning import NextToLabel
    from yoro.trust.advice import Advice, BackboneTrial
    from yoro.trust.learning_curve import CurvePoint

MOST_NEEDY = 5  # classes that are named
MOST_SHOWN = 10  # images to label next that are shown where no list is written


@shown()
class AdviceOptions:
    """Which unlabelled images to label next, and which backbones to try."""

    label_from: str | None = LABEL_FROM.field(None)
    more: str | None = option(
        None, "Unlabelled images: choose which to label next (active learning).", metavar="IMAGES"
    )
    choose: int | None = option(None, "With --more: how many to choose (default: 10).", metavar="N")
    out: Path | None = option(None, "With --more: write the choice to a .csv, .json or .jsonl file.", metavar="LIST")
    sources: str | None = option(
        None, "Other backbones to compare on a sample of the images.", flags=("--try",), metavar="S,S"
    )


def advise(
    *data: Images,
    wanted: AdviceOptions = AdviceOptions(),
    pipeline: PipelineOptions = PipelineOptions(),
    loading: LoadingOptions = LoadingOptions(),
    output: JsonOptions = JsonOptions(),
) -> None:
    """Estimate what more images would gain, and which to label next.

    One pass over the data: accuracy now and with more images, the classes that need them, and what other layers and
    backbones would give. Nothing is saved.
    """
    from yoro.files.rows import write_rows
    from yoro.fit import run_fit
    from yoro.trust.active_learning import COUNT, choose_next
    from yoro.trust.advice import advise as from_model
    from yoro.trust.advice import try_source

    if wanted.more is None and wanted.out is not None:
        raise UsageError("--out needs unlabelled images: give them with --more.")
    kind, quiet = list_format(wanted.out), output.quiet
    output.check(wanted.out)
    settings = FitSettings(pipeline=pipeline, loading=loading, progress=not quiet, tell=output.tell)
    with output.spoken_warnings():
        outcome = run_fit(given(data, wanted.label_from), None, settings)
        advice, chosen = from_model(outcome.classifier.model), None
        others = parse_names(wanted.sources)
        if others and not outcome.examples:
            raise UsageError("--try needs images, not responses.")
        silent = replace(settings, tell=silence)
        tried = [try_source(outcome.classifier.model, outcome.examples, name, silent) for name in others]
        if wanted.more is not None:
            count = COUNT if wanted.choose is None else wanted.choose
            chosen = choose_next(outcome.classifier, wanted.more, count, loading=loading, progress=not quiet)
    rows = [one.row() for one in chosen.candidates] if chosen else []
    lines = [*advice_lines(advice), *map(_tried_line, tried), *(_next_lines(chosen) if chosen else [])]
    output.show(advice.to_json() | {"tried": [one.to_json() for one in tried], "next": rows}, "\n".join(lines))
    if wanted.out is not None:
        write_rows(iter(rows), kind, wanted.out)
        output.tell(f"{wanted.out}: {counted(len(rows), 'image')} to label next.")
    tell_skipped([*outcome.skipped, *(chosen.skipped if chosen else ())])


def advice_lines(advice: Advice) -> list[str]:
    """The advice as sentences."""
    from yoro.refining.settings import DEFAULT_BATCH, RefineSettings, prospects

    now, *more = advice.forecast
    what = f"{counted(advice.images, 'image')} of {counted(advice.classes, 'class')}"
    took = f"{duration(advice.seconds)} to read and fit"
    lines = [f"Expected on new images: {_shown(now)}."]
    lines += [f"  with {point.images:g} per class: {_shown(point)}." for point in more]
    if more:
        gain = 100 * (more[0].accuracy - now.accuracy)
        doubt = ": more images alone will not help much" if gain < 1 else ""
        lines.append(f"Twice as many images would gain about {gain:.1f} points{doubt}.")
    needy = [need for need in advice.needs if need.recall < 1][:MOST_NEEDY]
    if needy:
        lines.append("Classes that most need images:")
    for need in needy:
        taken = f", most often predicted as {need.mistaken_for}" if need.mistaken_for else ""
        lines.append(f"  {need.name}: {counted(need.images, 'image')}, {need.recall:.0%} correct{taken}.")
    lines.append(f"Leave-one-out accuracy: {_shown(advice.now)}.")
    lines.append(f"  {what}, {advice.each:g} in the median class; {took}.")
    lines += [f"  refitted with {point.images:.3g} per class: {_shown(point)}." for point in advice.curve]
    lines += _reading_lines(advice)
    few = prospects(advice.images, RefineSettings.epochs, DEFAULT_BATCH)
    enough = ["there are enough images for `yoro refine` to be worth a try."]
    return [*lines, *(f"Refinement: {sentence}" for sentence in few or enough), *advice.notes]


def _reading_lines(advice: Advice) -> list[str]:
    """The accuracy of each layer alone."""
    from yoro.discriminant.readings import FEATURES, LOGITS

    if not advice.readings:
        return ["One layer was read; `--read all` combines several, if the backbone has them."]
    told = ", ".join(f"{one.name} {one.accuracy:.1%}" for one in advice.readings)
    lines = [f"Layers alone: {told}; combined {advice.now.accuracy:.1%}."]
    spread = (advice.now.accuracy * (1 - advice.now.accuracy) / advice.images) ** 0.5
    enough = [one.name for one in advice.readings if one.accuracy >= advice.now.accuracy - spread]
    single = next((name for name in enough if name in (LOGITS, FEATURES)), None)
    if single is not None:
        lines.append(f"  `--read {single}` would do about as well, with a smaller model.")
    return lines


def _tried_line(tried: BackboneTrial) -> str:
    """How another backbone compares."""
    compared = f"{tried.accuracy:.1%} against {tried.present:.1%} on {counted(tried.images, 'image')}"
    took = f"{1000 * tried.seconds:.0f} ms per image against {1000 * tried.present_seconds:.0f}"
    return f"{tried.source}: {tried.verdict}, {compared} ({tried.gained} gained, {tried.lost} lost), {took}."


def _next_lines(chosen: NextToLabel) -> list[str]:
    lines = [f"Label next, out of {counted(chosen.looked_at, 'image')}:"]
    shown = chosen.candidates[:MOST_SHOWN]
    lines += [f"  {one.name}: {one.label} {one.probability:.0%}, or {one.other}." for one in shown]
    rest = len(chosen.candidates) - MOST_SHOWN
    return [*lines, f"  ... and {rest:,} more."] if rest > 0 else lines


def _shown(point: CurvePoint) -> str:
    return f"{point.accuracy:.1%} (90 %: {point.low:.1%} to {point.high:.1%})"
