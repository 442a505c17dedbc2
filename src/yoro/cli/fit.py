"""`yoro fit`: labelled data in, a saved classifier out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.arguments import KINDS, Out, called, given, given_for
from yoro.cli.fit_summary import closing_lines, figures, result_lines
from yoro.cli.options import DRY_RUN, LABEL_FROM, FitOptions, ReportOptions, shown
from yoro.cli.output import UsageError, duration, print_json, print_text, resumable, tell_skipped
from yoro.errors import counted
from yoro.option import option

if TYPE_CHECKING:
    from yoro.fit import FitOutcome
    from yoro.model.metrics import Evaluation
    from yoro.model.model import Model
    from yoro.model.open_model import OpenModel


@shown()
class FitData:
    """What a fit takes besides its data, and what it keeps of them."""

    val: str | None = option(None, "Validation data.", metavar="DATA", expert=True)
    unlabelled: str | None = option(None, "Unlabelled images to learn from as well, if they help.", metavar="DATA")
    label_from: str | None = LABEL_FROM.field(None)
    classes: Path | None = option(
        None,
        "File of more class names, one per line: classes with descriptions but no images.",
        metavar="FILE",
        expert=True,
    )
    reservoir: bool = option(True, "Keep responses, so that the shrinkage can be chosen again later.", expert=True)
    dry_run: bool = DRY_RUN.field(False)
    verbose: bool = option(False, "Also print layers, shrinkage, confusions, time, memory.", flags=("--verbose", "-v"))


def fit(
    *data: Annotated[
        str, Parameter(name="DATA", help=f"{KINDS}, or responses (.npz). Optional with --shots 0 --classes.")
    ],
    out: Out,
    taken: FitData = FitData(),
    settings: FitOptions = FitOptions(),
    output: ReportOptions = ReportOptions(),
) -> None:
    """Fit a classifier in one pass and save it."""
    from yoro.files.atomic import remove_folder
    from yoro.fit import run_fit
    from yoro.model.store import check_target
    from yoro.text.banks import read_classes

    if not data and (settings.shots != 0 or taken.classes is None):
        raise UsageError("Give labelled data, or --shots 0 with --classes FILE.")
    unfinished = out.with_name(f".{out.name}.part")
    if settings.resume and out.exists() and not unfinished.exists():
        remove_folder(unfinished)  # a run that was killed while it tidied up has left pieces of it
        output.tell(f"Nothing to resume: {out} is complete.")
        return
    if not taken.dry_run:
        check_target(out, force=output.force or (settings.resume and unfinished.exists()))
    output.check(output.html)
    named = tuple(read_classes(taken.classes)) if taken.classes is not None else ()
    sentences = replace(settings.sentences, classes=named)
    settings = replace(
        settings, sentences=sentences, checkpoint=unfinished, progress=not output.quiet, tell=output.tell
    )
    found, val = given(data, taken.label_from) if data else None, given_for(taken.val, taken.label_from)
    if taken.dry_run:
        from yoro.model.call_forecast import fit_forecast

        print_text(fit_forecast(found, val, settings))
        return
    with resumable(unfinished), output.spoken_warnings():
        outcome = run_fit(found, val, settings, taken.unlabelled)
    left_out = finish(outcome, called(data) or str(taken.classes), out, output, taken, replace=settings.resume)
    left = None
    if settings.cluster.ray_storage is not None:
        from yoro.cluster.engine import left_in_storage

        left = left_in_storage(settings.cluster.ray_storage, unfinished)
    remove_folder(unfinished)
    if left is not None:
        left.discard()
    if output.as_json:
        print_json(summary(outcome, left_out))
    tell_skipped(outcome.skipped)


def finish(
    outcome: FitOutcome, data: str, out: Path, output: ReportOptions, taken: FitData, *, replace: bool
) -> Evaluation | None:
    """Save the model and the report, and say so; returns its leave-one-out evaluation."""
    from yoro.model.answers import left_out_evaluation

    classifier, page = outcome.classifier, None
    left_out = left_out_evaluation(classifier.model)
    if output.html is not None:
        from yoro.reports.evaluation import fit_report

        page = fit_report(classifier, outcome.examples, data, outcome.notes, outcome.skipped)
    if not taken.reservoir:
        classifier.drop_reservoir()
    classifier.save(out, force=output.force or replace)
    more = [details(classifier), *closing_lines(classifier.model, left_out)] if taken.verbose else []
    output.tell(*result_lines(classifier, left_out, out), *more)
    output.tell(*(f"Warning: {doubt}" for doubt in outcome.doubts))
    if output.html is not None and page is not None:
        output.write_page(output.html, page)
    elif output.html is not None:
        output.tell("No report written: too few images for a leave-one-out estimate.")
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


def details(classifier: OpenModel) -> str:
    """How it was fitted: time, memory, and what was chosen."""
    model = classifier.model
    event = model.history[-1]
    cost = f"{duration(float(str(event['seconds'])))}, {event['peak_memory_mb']:.0f} MB."
    if not model.statistics.total:
        return cost
    head = f" Weight of the zero-shot head: {model.choice.alpha:.3g}." if model.choice.alpha else ""
    return f"One pass over {counted(float(str(event['images'])), 'example')}: {cost} {_chosen(model)}{head}"


def _chosen(model: Model) -> str:
    """What was chosen, in one sentence."""
    choice, soft = model.choice, f"Temperature {model.choice.temperature:.3g}."
    if not choice.parts:
        return f"Shrinkage {choice.shrinkage:.3g} by {choice.rule}. {soft}"
    shares = sorted(((part.weight, part.name) for part in choice.parts if part.weight > 0), reverse=True)
    views = " of two views" if model.statistics.layout.views == 2 else ""
    told = ", ".join(f"{name} {weight:.0%}" for weight, name in shares)
    return f"Layers{views}, weighted by {choice.rule}: {told}. {soft}"
