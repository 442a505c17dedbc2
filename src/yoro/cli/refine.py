"""`yoro refine`: a saved model refined for a few epochs, kept only if validation improves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from yoro.cli.arguments import Images, ModelPath, Out, given, given_for
from yoro.cli.options import LABEL_FROM, SHARED, ReadingOptions, ReportOptions, shown
from yoro.cli.output import print_json, resumable, tell_skipped
from yoro.option import option
from yoro.refining.settings import RefineRun, RefineSettings

if TYPE_CHECKING:
    from yoro.model.open_model import OpenModel
    from yoro.refining.outcome import Refinement


@shown()
class TrainingOptions(RefineSettings):
    """How the prompt is trained."""


@shown("batch_size")
class DecodingOptions(ReadingOptions):
    """How images are read; batches are those of the training."""


@shown()
class RefineOptions:
    """On which images the refined model is judged, and whether to resume."""

    val: str | None = option(None, "Validation images that decide (default: the val split).", metavar="DATA")
    label_from: str | None = LABEL_FROM.field(None)
    resume: bool = SHARED["resume"].field(False)


def refine(
    model: ModelPath,
    /,
    *data: Images,
    out: Out,
    wanted: RefineOptions = RefineOptions(),
    settings: TrainingOptions = TrainingOptions(),
    reading: DecodingOptions = DecodingOptions(),
    output: ReportOptions = ReportOptions(),
) -> None:
    """Train a visual prompt for a few epochs; kept only if it helps.

    Writes the refined model, or the unchanged one if refinement did not help.
    """
    from yoro.files.atomic import remove_folder
    from yoro.model.store import check_target
    from yoro.refining.settings import check_torch

    quiet, unfinished = output.quiet, out.with_name(f".{out.name}.part")
    check_target(out, force=output.force)
    output.check(output.html)
    with resumable(unfinished), output.spoken_warnings():
        check_torch()
        from yoro.refining.few_pass import refine

        run = RefineRun(reading, reading.source, reading.device, unfinished, wanted.resume, not quiet, output.tell)
        classifier = reading.load(model)
        images, deciding = given(data, wanted.label_from), given_for(wanted.val, wanted.label_from)
        refined, refinement = refine(classifier, images, deciding, settings, run)
    _finish(refined, refinement, out, output)
    if output.as_json:
        print_json(refinement.to_json())
    if refinement.interrupted:
        raise KeyboardInterrupt(f"Interrupted; the best model so far is in {out}. Resume with --resume --force.")
    remove_folder(unfinished)
    tell_skipped(refinement.skipped)


def _finish(refined: OpenModel, refinement: Refinement, out: Path, output: ReportOptions) -> None:
    refined.save(out, force=output.force)
    output.tell(f"{out}: {'the refined model' if refinement.kept else 'the model, unchanged'}.")
    if output.html is not None:
        from yoro.prompts.prompt import restore_prompt
        from yoro.reports.refinement import refinement_html

        origin = refined.model.origin
        prompt = restore_prompt(origin.prompt or {}, origin.prompt_arrays)
        output.write_page(output.html, refinement_html(refinement.to_json(), prompt, origin.name))
