"""`yoro refine`: a saved model refined for a few epochs, kept only if validation images say so."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from yoro.cli.talk import (
    AsJson,
    Data,
    Device,
    Force,
    ModelPath,
    Moved,
    Quiet,
    Strict,
    Workers,
    print_json,
    say,
    spoken_warnings,
    tell_skipped,
)

if TYPE_CHECKING:
    from yoro.model.classifier import Classifier
    from yoro.refining.verdict import Refinement


def run(
    model: ModelPath,
    data: Data,
    out: Annotated[Path, typer.Option(metavar="N.yoro", help="Where to write the model.", show_default=False)],
    val: Annotated[
        str | None, typer.Option(metavar="DATA", help="Images that decide; the model must not be fitted on them.")
    ] = None,
    epochs: Annotated[int, typer.Option(min=0, help="Passes with training.")] = 20,
    mapping: Annotated[
        str, typer.Option(metavar="momentum|refresh|frozen", help="What becomes of the mapping after each epoch.")
    ] = "momentum",
    beta: Annotated[float, typer.Option(min=0, max=1, help="Share of the old mapping under momentum.")] = 0.9,
    protocol: Annotated[
        str, typer.Option(metavar="default|paper", help="'paper': the paper's settings and nothing else.")
    ] = "default",
    canvas: Annotated[int | None, typer.Option(min=1, help="Side of the canvas; smaller is faster.")] = None,
    learning_rate: Annotated[float | None, typer.Option(min=0, help="Of Adam.", show_default=False)] = None,
    batch_size: Annotated[int | None, typer.Option(min=1, help="Images of one update.", show_default=False)] = None,
    warm_up: Annotated[float, typer.Option(min=0, help="Epochs over which the rate grows to its full size.")] = 0.0,
    temperature: Annotated[
        str | None, typer.Option(metavar="fitted|NUMBER", help="What scores are divided by in the loss.")
    ] = None,
    augment: Annotated[bool, typer.Option("--augment/--no-augment", help="Random resized crops.")] = True,
    flip: Annotated[
        bool, typer.Option("--flip/--no-flip", help="Mirror images; not where left and right matter.")
    ] = True,
    augmented_start: Annotated[
        bool, typer.Option("--augmented-start", help="Take the initial statistics from augmented images.")
    ] = False,
    mixed_precision: Annotated[bool, typer.Option("--amp", help="Mixed precision; other numbers, faster.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of order and augmentation.")] = 0,
    source: Moved = None,
    device: Device = "auto",
    workers: Workers = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where a run that was ended left off.")] = False,
    strict: Strict = False,
    html: Annotated[Path | None, typer.Option(metavar="REPORT", help="Also write a report as a web page.")] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Train a visual prompt for a few epochs; write the refined model, or the model unchanged if it did not help."""
    from yoro.model.classifier import load
    from yoro.model.pipeline import Reading
    from yoro.model.store import check_target, refuse_existing
    from yoro.refining.settings import Settings, check_torch

    unfinished = out.with_name(f".{out.name}.part")
    check_target(out, force=force)
    if html is not None:
        refuse_existing(html, force=force)
    check_torch()
    settings = Settings(
        epochs=epochs,
        mapping=mapping,
        beta=beta,
        protocol=protocol,
        canvas=canvas,
        learning_rate=learning_rate,
        batch_size=batch_size,
        warm_up=warm_up,
        temperature=parse_temperature(temperature),
        augmented_start=augmented_start,
        augment=augment,
        flip=flip,
        mixed_precision=mixed_precision,
        seed=seed,
    )
    from yoro.refining.few_pass import refine

    with spoken_warnings(quiet):
        given = load(model, source=source, device=device)
        refined, refinement = refine(
            given,
            data,
            val,
            settings=settings,
            reading=Reading(workers=workers, strict=strict),
            source=source,
            device=device,
            checkpoint=unfinished,
            resume=resume,
            progress=not quiet,
            tell=lambda sentence: say(sentence, quiet),
        )
    _finish(refined, refinement, out, html, force, quiet)
    if as_json:
        print_json(refinement.to_json())
    if refinement.interrupted:
        say(f"Interrupted; the best so far is in {out}, and --resume --force goes on.", quiet)
        raise typer.Exit(130)
    shutil.rmtree(unfinished, ignore_errors=True)
    tell_skipped(refinement.skipped)


def _finish(
    refined: Classifier,
    refinement: Refinement,
    out: Path,
    html: Path | None,
    force: bool,
    quiet: bool,
) -> None:
    """Save the model and the report, and say so."""
    refined.save(out, force=force)
    say(f"{out}: {'the refined model' if refinement.kept else 'the model as it came'}.", quiet)
    if html is not None:
        from yoro.files.atomic import write_file
        from yoro.prompts.restore import restore_prompt
        from yoro.reports.refinement import refinement_html

        model = refined.model
        prompt = restore_prompt(model.prompt or {}, model.prompt_arrays)
        write_file(html, refinement_html(refinement.to_json(), prompt, str(model.source.get("name"))).encode())
        say(f"{html}: the report.", quiet)


def parse_temperature(text: str | None) -> float | Literal["fitted"] | None:
    """A temperature: "fitted", a positive number, or nothing for the protocol's own."""
    if text is None or text == "fitted":
        return cast('Literal["fitted"] | None', text)
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not value > 0 or value == float("inf"):
        raise typer.BadParameter(f"{text!r} is no temperature; expected 'fitted' or a positive number.")
    return value
