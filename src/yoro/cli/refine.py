"""`yoro refine`: a saved model refined for a few epochs, kept only if validation images say so."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Group, Parameter

from yoro.cli.data_arguments import Images, LabelFrom, given, given_for
from yoro.cli.options import (
    READING,
    ModelPath,
    Moved,
    MovedOptions,
    Out,
    ReportOptions,
    Reports,
    flag,
    switch,
)
from yoro.cli.output import print_json, say, spoken_warnings, tell_skipped, write_page
from yoro.model.settings import Loading
from yoro.refining.settings import RefineRun, RefineSettings

if TYPE_CHECKING:
    from yoro.model.open_model import OpenModel
    from yoro.refining.outcome import Refinement

TRAINING = Group("How the prompt is trained, for experts", sort_key=40)


@dataclass(frozen=True)
class RefineOptions(RefineSettings):
    """See `RefineSettings`."""

    epochs: Annotated[int, Parameter(help="Passes with training.")] = RefineSettings.epochs
    mapping: Annotated[
        str, Parameter(metavar="momentum|refresh|frozen", help="What becomes of the mapping after each epoch.")
    ] = RefineSettings.mapping
    beta: Annotated[float, Parameter(help="Share of the old mapping under momentum.")] = RefineSettings.beta
    protocol: Annotated[
        str, Parameter(metavar="default|paper", help="'paper': the paper's settings and nothing else.")
    ] = RefineSettings.protocol
    canvas: Annotated[int | None, Parameter(help="Side of the canvas; smaller is faster.")] = RefineSettings.canvas
    learning_rate: Annotated[float | None, Parameter(help="Of Adam.")] = RefineSettings.learning_rate
    batch_size: Annotated[int | None, Parameter(help="Images of one update.")] = RefineSettings.batch_size
    warm_up: Annotated[float, Parameter(help="Epochs over which the rate grows to its full size.")] = (
        RefineSettings.warm_up
    )
    temperature: Annotated[
        float | Literal["fitted"] | None,
        Parameter(metavar="fitted|NUMBER", help="What scores are divided by in the loss."),
    ] = RefineSettings.temperature
    augmented_start: Annotated[bool, flag("Take the initial statistics from augmented images.")] = (
        RefineSettings.augmented_start
    )
    augment: Annotated[bool, switch("Random resized crops.")] = RefineSettings.augment
    flip: Annotated[bool, switch("Mirror images; not where left and right matter.")] = RefineSettings.flip
    mixed_precision: Annotated[bool, flag("Mixed precision; other numbers, faster.", "--amp")] = (
        RefineSettings.mixed_precision
    )
    epoch_zero: Annotated[bool, Parameter(parse=False)] = RefineSettings.epoch_zero
    seed: Annotated[int, Parameter(help="Seed of order and augmentation.")] = RefineSettings.seed


@dataclass(frozen=True)
class DecodingOptions(Loading):
    """How images are read; a batch is the training's own."""

    batch_size: Annotated[int, Parameter(parse=False)] = Loading.batch_size
    workers: Annotated[int | None, Parameter(help="Decoding processes; by default one for each core.")] = None
    strict: Annotated[bool, flag("Stop at the first image that cannot be read.")] = Loading.strict


def refine(
    model: ModelPath,
    /,
    *data: Images,
    out: Out,
    val: Annotated[
        str | None, Parameter(metavar="DATA", help="Images that decide; the model must not be fitted on them.")
    ] = None,
    label_from: LabelFrom = None,
    resume: Annotated[bool, flag("Go on where a run that was ended left off.")] = False,
    settings: Annotated[RefineOptions, Parameter(name="*", group=TRAINING)] = RefineOptions(),
    moved: Moved = MovedOptions(),
    loading: Annotated[DecodingOptions, Parameter(name="*", group=READING)] = DecodingOptions(),
    output: Reports = ReportOptions(),
) -> None:
    """Train a visual prompt for a few epochs; kept only if it helps.

    The refined model is written, or the model unchanged if it did not help.
    """
    from yoro.files.atomic import remove_folder
    from yoro.model.open_model import load
    from yoro.model.store import check_output, check_target
    from yoro.refining.settings import check_torch

    quiet, unfinished = output.quiet, out.with_name(f".{out.name}.part")
    check_target(out, force=output.force)
    if output.html is not None:
        check_output(output.html, force=output.force)
    check_torch()
    from yoro.refining.few_pass import refine

    run = RefineRun(
        loading, moved.source, moved.device, unfinished, resume, not quiet, lambda sentence: say(sentence, quiet)
    )
    with spoken_warnings(quiet):
        classifier = load(model, source=moved.source, device=moved.device, calls=moved.calls)
        images, deciding = given(data, label_from), given_for(val, label_from)
        refined, refinement = refine(classifier, images, deciding, settings, run)
    _finish(refined, refinement, out, output)
    if output.as_json:
        print_json(refinement.to_json())
    if refinement.interrupted:
        raise KeyboardInterrupt(f"Interrupted; the best so far is in {out}, and --resume --force goes on.")
    remove_folder(unfinished)
    tell_skipped(refinement.skipped)


def _finish(refined: OpenModel, refinement: Refinement, out: Path, output: ReportOptions) -> None:
    """Save the model and the report, and say so."""
    refined.save(out, force=output.force)
    say(f"{out}: {'the refined model' if refinement.kept else 'the model as it came'}.", output.quiet)
    if output.html is not None:
        from yoro.prompts.prompt import restore_prompt
        from yoro.reports.refinement import refinement_html

        origin = refined.model.origin
        prompt = restore_prompt(origin.prompt or {}, origin.prompt_arrays)
        write_page(output.html, refinement_html(refinement.to_json(), prompt, origin.name), output.quiet)
