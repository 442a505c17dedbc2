"""`yoro fit`: labelled data in, a saved classifier out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.data_arguments import KINDS, LabelFrom, called, given, given_for
from yoro.cli.fit_summary import closing_lines, figures
from yoro.cli.options import (
    SENTENCES,
    SOLVING,
    ClusterOptions,
    DryRun,
    LoadingOptions,
    Out,
    PipelineOptions,
    Pipelines,
    Reads,
    ReportOptions,
    Reports,
    SolveOptions,
    Solves,
    Spreads,
    UsageError,
    Votes,
    VotingOptions,
    flag,
    preset_of,
    switch,
)
from yoro.cli.output import duration, print_json, print_text, resumable, say, spoken_warnings, tell_skipped, write_page
from yoro.errors import counted
from yoro.model.settings import FitSettings

if TYPE_CHECKING:
    from yoro.fit import FitOutcome
    from yoro.model.metrics import Evaluation
    from yoro.model.model import Model
    from yoro.model.open_model import OpenModel


@dataclass(frozen=True)
class FittingOptions:
    """What a fit does with the data."""

    fast: Annotated[bool, flag("Sooner done, less accurate: one reading, a smaller canvas.")] = False
    best: Annotated[bool, flag("More accurate, slower: two views, a larger network or canvas.")] = False
    val: Annotated[str | None, Parameter(metavar="DATA", help="Validation data.")] = None
    shots: Annotated[
        int | None, Parameter(metavar="K", help="Fit K drawn images a class; 0: none, by class names alone.")
    ] = FitSettings.shots
    classes: Annotated[
        Path | None,
        Parameter(metavar="FILE", help="More classes, known by their sentences: one name a line.", group=SENTENCES),
    ] = None
    refine: Annotated[
        int, Parameter(metavar="EPOCHS", help="Then train a prompt, and keep it if validation says so.")
    ] = FitSettings.refine
    reservoir: Annotated[bool, switch("Keep responses, to choose the shrinkage anew later.", SOLVING)] = True
    ledger: Annotated[
        bool, switch("Keep a digest of each image, to forget it later and to know it again.", SOLVING)
    ] = FitSettings.ledger
    label_from: LabelFrom = None
    resume: Annotated[bool, flag("Go on where a run that was ended left off.")] = FitSettings.resume
    dry_run: DryRun = False


def fit(
    *data: Annotated[str, Parameter(name="DATA", help=f"{KINDS}, or responses (.npz). None with --shots 0 --classes.")],
    out: Out,
    fitting: Annotated[FittingOptions, Parameter(name="*")] = FittingOptions(),
    pipeline: Pipelines = PipelineOptions(),
    solve: Solves = SolveOptions(),
    sentences: Votes = VotingOptions(),
    loading: Reads = LoadingOptions(),
    cluster: Spreads = ClusterOptions(),
    output: Reports = ReportOptions(),
) -> None:
    """Fit a classifier in one pass and save it."""
    from yoro.files.atomic import remove_folder
    from yoro.fit import run_fit
    from yoro.model.store import check_output, check_target
    from yoro.text.banks import read_classes

    if not data and (fitting.shots != 0 or fitting.classes is None):
        raise UsageError("Give labelled data, or --shots 0 with --classes FILE.")
    quiet, unfinished = output.quiet, out.with_name(f".{out.name}.part")
    if fitting.resume and out.exists() and not unfinished.exists():
        remove_folder(unfinished)  # a run that was killed while it tidied up has left pieces of it
        say(f"{out} is there, and no unfinished run beside it: nothing to resume.", quiet)
        return
    if not fitting.dry_run:
        check_target(out, force=output.force or (fitting.resume and unfinished.exists()))
    if output.html is not None:
        check_output(output.html, force=output.force)
    named = read_classes(fitting.classes) if fitting.classes is not None else ()
    preset = preset_of(fast=fitting.fast, best=fitting.best)
    settings = FitSettings(
        pipeline, solve, replace(sentences, classes=tuple(named)), loading, fitting.shots, fitting.refine, unfinished,
        fitting.resume, not quiet, lambda note: say(note, quiet), preset, fitting.ledger, cluster,
    )  # fmt: skip
    if fitting.dry_run:
        from yoro.model.call_forecast import fit_forecast

        val = given_for(fitting.val, fitting.label_from)
        print_text(fit_forecast(given(data, fitting.label_from) if data else None, val, settings))
        return
    with resumable(unfinished), spoken_warnings(quiet):
        found = given(data, fitting.label_from) if data else None
        outcome = run_fit(found, given_for(fitting.val, fitting.label_from), settings)
    left_out = finish(
        outcome, called(data) or str(fitting.classes), out, output, keep=fitting.reservoir, replace=fitting.resume
    )
    remove_folder(unfinished)
    if cluster.ray_storage is not None:
        from yoro.cluster.storage import Storage

        Storage(cluster.ray_storage).clear()
    if output.as_json:
        print_json(summary(outcome, left_out))
    tell_skipped(outcome.skipped)


def finish(
    outcome: FitOutcome, data: str, out: Path, output: ReportOptions, *, keep: bool, replace: bool
) -> Evaluation | None:
    """Save the model and the report, and say so; how good it is by leave-one-out."""
    from yoro.model.answers import left_out_evaluation

    classifier, page = outcome.classifier, None
    left_out = left_out_evaluation(classifier.model)
    if output.html is not None:
        from yoro.reports.evaluation import fit_report

        page = fit_report(classifier, outcome.examples, data, outcome.notes, outcome.skipped)
    if not keep:
        classifier.drop_reservoir()
    classifier.save(out, force=output.force or replace)
    for line in (sentence(classifier, out), *closing_lines(classifier.model, left_out)):
        say(line, output.quiet)
    for doubt in outcome.doubts:
        say(f"Warning: {doubt}", output.quiet)
    if output.html is not None and page is not None:
        write_page(output.html, page, output.quiet)
    elif output.html is not None:
        say("No report: no fitted image can be left out, so there is nothing to measure.", output.quiet)
    return left_out


def summary(outcome: FitOutcome, left_out: Evaluation | None) -> dict[str, object]:
    """What was fitted, for a machine."""
    model = outcome.classifier.model
    return {
        "classes": list(outcome.classifier.names),
        "examples": model.statistics.total,
        "skipped": [name for name, _ in outcome.skipped],
        "width": model.mapping.width,
        "source": model.origin.source,
        "shrinkage": model.choice.shrinkage,
        "rule": model.choice.rule,
        "temperature": model.choice.temperature,
        "alpha": model.choice.alpha,
        "leave_one_out": figures(model, left_out),
        "warnings": outcome.doubts,
        "history": model.history,
    }


def sentence(classifier: OpenModel, out: Path) -> str:
    """What was fitted, for a person."""
    model = classifier.model
    event = model.history[-1]
    took, images = duration(float(str(event["seconds"]))), counted(float(str(event["images"])), "example")
    if not model.statistics.total:
        classes = counted(len(classifier.names), "class")
        return f"{out}: {classes} by their sentences alone (zero-shot), {took}."
    head = f" The zero-shot head counts {model.choice.alpha:.3g}." if model.choice.alpha else ""
    return (
        f"{out}: {counted(len(classifier.names), 'class')} from {images} in one pass, "
        f"{took}, {event['peak_memory_mb']:.0f} MB. {_chosen(model)}{head}"
    )


def _chosen(model: Model) -> str:
    """What was chosen, in one sentence."""
    choice = model.choice
    if not choice.parts:
        return f"Shrinkage {choice.shrinkage:.3g} by {choice.rule}."
    shares = sorted(((part.weight, part.name) for part in choice.parts if part.weight > 0), reverse=True)
    views = " of two views" if model.statistics.layout.views == 2 else ""
    told = ", ".join(f"{name} {weight:.0%}" for weight, name in shares)
    return f"Readings{views} weighed by {choice.rule}: {told}."
