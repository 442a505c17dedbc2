"""`yoro fit`: labelled data in, a saved classifier out."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yoro.cli.talk import (
    DATA,
    AsJson,
    BatchSize,
    Device,
    Force,
    Quiet,
    Strict,
    Workers,
    parse_shrinkage,
    print_json,
    say,
    spoken_warnings,
    tell_skipped,
)

if TYPE_CHECKING:
    from yoro.model.classifier import Classifier


def run(
    data: Annotated[str | None, typer.Argument(metavar="DATA", help=f"{DATA} None with --shots 0 --classes.")] = None,
    *,
    out: Annotated[Path, typer.Option(metavar="M.yoro", help="Where to write the model.", show_default=False)],
    val: Annotated[str | None, typer.Option(metavar="DATA", help="Validation data.")] = None,
    source: Annotated[
        str, typer.Option(metavar="S", help="The frozen model; `yoro models` lists them.")
    ] = "embedded:lite0",
    shots: Annotated[
        int | None, typer.Option(min=0, metavar="K", help="Fit K drawn images a class; 0: none, by class names alone.")
    ] = None,
    attributes: Annotated[
        str | None,
        typer.Option(metavar="BANK", help="Sentences for an image-text source: a JSON file, templates or names."),
    ] = None,
    sentences: Annotated[int, typer.Option(min=1, help="Sentences drawn a class.")] = 20,
    classes: Annotated[
        Path | None, typer.Option(metavar="FILE", help="More classes, known by their sentences: one name a line.")
    ] = None,
    zero_shot: Annotated[
        bool, typer.Option("--zero-shot/--no-zero-shot", help="Let the sentences vote beside the images.")
    ] = True,
    prompt: Annotated[str, typer.Option(metavar="P", help="watermark, padding or legacy-padding.")] = "watermark",
    frame: Annotated[
        str, typer.Option(metavar="START", help="How a padding's frame starts: grey, black, mean, or a number.")
    ] = "grey",
    image_side: Annotated[int | None, typer.Option(min=1, help="Side of the image within a padding.")] = None,
    read: Annotated[str, typer.Option(metavar="logits|features", help="Where the source is read.")] = "logits",
    shrinkage: Annotated[
        str, typer.Option(metavar="RULE", help="loo, validation, k-fold, oas, rblw, ledoit-wolf, or a number.")
    ] = "loo",
    protocol: Annotated[
        str, typer.Option(metavar="default|paper", help="'paper': the paper's rules and nothing else.")
    ] = "default",
    refine: Annotated[
        int, typer.Option(min=0, metavar="EPOCHS", help="Then train a prompt, and keep it if validation says so.")
    ] = 0,
    prior: Annotated[str, typer.Option(metavar="empirical|uniform", help="Class priors.")] = "empirical",
    reservoir: Annotated[
        bool, typer.Option("--reservoir/--no-reservoir", help="Keep responses, to choose the shrinkage anew later.")
    ] = True,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.")] = 0,
    device: Device = "auto",
    batch_size: BatchSize = 32,
    workers: Workers = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a run that was ended left off.")] = False,
    strict: Strict = False,
    html: Annotated[Path | None, typer.Option(metavar="REPORT", help="Also write a report as a web page.")] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fit a classifier in one pass and save it."""
    from yoro.fit import fit
    from yoro.model.store import check_target, refuse_existing
    from yoro.prompts.prompt import parse_frame
    from yoro.text.banks import read_classes

    if data is None and (shots != 0 or classes is None):
        raise typer.BadParameter("give labelled data, or --shots 0 with --classes FILE.", param_hint="DATA")
    rule = parse_shrinkage(shrinkage)
    unfinished = out.with_name(f".{out.name}.part")
    if resume and out.exists() and not unfinished.exists():
        say(f"{out} is there, and no unfinished run beside it: nothing to resume.", quiet)
        return
    check_target(out, force=force or (resume and unfinished.exists()))
    if html is not None:
        refuse_existing(html, force=force)
    with spoken_warnings(quiet):
        classifier = fit(
            data,
            val=val,
            shots=shots,
            source=source,
            attributes=attributes,
            sentences=sentences,
            classes=read_classes(classes) if classes is not None else (),
            zero_shot=zero_shot,
            read=read,
            prompt=prompt,
            frame=parse_frame(frame),
            image_side=image_side,
            shrinkage=rule,
            prior=prior,
            protocol=protocol,
            refine=refine,
            seed=seed,
            device=device,
            batch_size=batch_size,
            workers=workers,
            strict=strict,
            checkpoint=unfinished,
            resume=resume,
            progress=not quiet,
            tell=lambda note: say(note, quiet),
        )
    finish(classifier, data or str(classes), out, html, keep=reservoir, force=force or resume, quiet=quiet)
    shutil.rmtree(unfinished, ignore_errors=True)
    if as_json:
        print_json(summary(classifier))
    tell_skipped(classifier.skipped)


def finish(
    classifier: Classifier, data: str, out: Path, html: Path | None, *, keep: bool, force: bool, quiet: bool
) -> None:
    """Save the model and the report, and say so."""
    page = None
    if html is not None:
        from yoro.reports.evaluation import fit_report

        page = fit_report(classifier, data)
    if not keep:
        classifier.drop_reservoir()
    classifier.save(out, force=force)
    say(sentence(classifier, out), quiet)
    if html is not None and page is not None:
        from yoro.files.atomic import write_file

        write_file(html, page.encode())
        say(f"{html}: the report.", quiet)
    elif html is not None:
        say("No report: no fitted image can be left out, so there is nothing to measure.", quiet)


def summary(classifier: Classifier) -> dict[str, object]:
    """What was fitted, for a machine."""
    model = classifier.model
    return {
        "classes": list(classifier.classes),
        "examples": model.statistics.total,
        "skipped": [name for name, _ in classifier.skipped],
        "width": model.mapping.width,
        "source": model.source,
        "shrinkage": model.choice.shrinkage,
        "rule": model.choice.rule,
        "temperature": model.choice.temperature,
        "alpha": model.choice.alpha,
        "history": model.history,
    }


def sentence(classifier: Classifier, out: Path) -> str:
    """What was fitted, for a person."""
    model = classifier.model
    event = model.history[-1]
    if not model.statistics.total:
        return f"{out}: {len(classifier.classes)} classes by their sentences alone (zero-shot), {event['seconds']:g} s."
    head = f" The zero-shot head counts {model.choice.alpha:.3g}." if model.choice.alpha else ""
    return (
        f"{out}: {len(classifier.classes)} classes from {event['images']:,} examples in one pass, "
        f"{event['seconds']:g} s, {event['peak_memory_mb']:.0f} MB. "
        f"Shrinkage {model.choice.shrinkage:g} by {model.choice.rule}.{head}"
    )
