"""`yoro inspect`: what a saved model is and how it came about."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yoro.cli.talk import AsJson, Force, ModelPath, Quiet, print_json, say

if TYPE_CHECKING:
    from yoro.model.store import Model


def run(
    model: ModelPath,
    prompt: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the visual prompt before and after training: a .png or .html file."),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show classes, counts, source, shrinkage and history of a model."""
    from yoro.model.store import read_model

    content = read_model(model)
    if prompt is not None:
        draw(content, prompt, force)
        say(f"{prompt}: the visual prompt.", quiet)
        if not as_json:
            return
    if as_json:
        print_json(facts(content))
    else:
        typer.echo(text(content))


def draw(model: Model, file: Path, force: bool) -> None:
    """Write the drawing of a model's prompt."""
    from yoro.errors import InputError
    from yoro.files.atomic import write_file
    from yoro.model.store import refuse_existing
    from yoro.prompts.restore import restore_prompt
    from yoro.reports.prompt_pictures import prompt_picture
    from yoro.reports.refinement import prompt_html

    if file.suffix.lower() not in (".png", ".html"):
        raise InputError(f"A prompt is drawn in a .png or .html file; {file.name!r} is neither.")
    if model.prompt is None:
        raise InputError("This model was fitted on responses alone: it has no visual prompt to draw.")
    refuse_existing(file, force=force)
    if file.suffix.lower() == ".png":
        write_file(file, prompt_picture(restore_prompt(model.prompt, model.prompt_arrays)))
    else:
        write_file(file, prompt_html(model).encode())


def facts(model: Model) -> dict[str, object]:
    """The model without its arrays."""
    statistics = model.statistics
    return {
        "classes": dict(zip(statistics.classes, statistics.counts.tolist(), strict=True)),
        "width": statistics.width,
        "source": model.source,
        "transform": model.transform,
        "prompt": model.prompt,
        "prior": model.prior if isinstance(model.prior, str) else dict(model.prior),
        "protocol": model.protocol,
        "shrinkage": model.choice.shrinkage,
        "rule": model.choice.rule,
        "temperature": model.choice.temperature,
        "alpha": model.choice.alpha,
        "bank": None if model.wording is None else model.wording.bank.facts() | {"votes": model.wording.votes},
        "delta": model.delta,
        "candidates": dict(zip(map(str, model.choice.candidates), model.choice.scores, strict=True)),
        "reservoir": None if model.reservoir is None else len(model.reservoir),
        "history": model.history,
    }


def text(model: Model) -> str:
    """The same for a person."""
    statistics, choice = model.statistics, model.choice
    kept = "none kept" if model.reservoir is None else f"{len(model.reservoir):,} kept"
    lines = [
        f"source       {model.source.get('name')}, responses of width {statistics.width}",
        f"examples     {statistics.total:,.0f} of {len(statistics.classes)} classes; individual responses: {kept}",
        f"shrinkage    {choice.shrinkage:g} by {choice.rule}; temperature {choice.temperature:.3g}",
        f"protocol     {model.protocol}; prior {model.prior if isinstance(model.prior, str) else 'given'}",
        *_words(model),
        "",
        *_curve(model),
        "class counts",
        *(f"{count:>9,.0f}  {name}" for name, count in zip(statistics.classes, statistics.counts, strict=True)),
        "",
        "history",
        *(
            f"  {e.get('when')}  {e.get('verb')}: {e.get('images')} examples, {e.get('seconds')} s"
            for e in model.history
        ),
    ]
    return "\n".join(lines)


def _words(model: Model) -> list[str]:
    if model.wording is None:
        return []
    bank = model.wording.bank
    voice = f"the zero-shot head counts {model.choice.alpha:.3g}" if model.wording.votes else "they do not vote"
    return [f"sentences    {len(bank.flat()[0]):,} from {bank.origin}; {voice}"]


def _curve(model: Model) -> list[str]:
    if not model.choice.candidates:
        return []
    what = "correct answers" if model.choice.rule == "validation" else "negative log-likelihood"
    rows = [
        f"{rho:>9g}  {score:<10.6g}{' <- chosen' if rho == model.choice.shrinkage else ''}"
        for rho, score in zip(model.choice.candidates, model.choice.scores, strict=True)
    ]
    return [f"shrinkage  {what}", *rows, ""]
