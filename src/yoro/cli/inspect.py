"""`yoro inspect` and `export`: what a saved model contains, and a model in other forms."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.arguments import ModelPath, given
from yoro.cli.issues import IssueFiles, list_issues
from yoro.cli.options import JsonOptions, MovedOptions, ReadingOptions, WriteOptions, shown
from yoro.cli.output import UsageError, tell_skipped
from yoro.cli.stats import STATS, shard_facts, shard_text
from yoro.errors import counted, percent_text
from yoro.option import option

if TYPE_CHECKING:
    from yoro.model.model import Model


@shown()
class IssueFlag:
    """The earlier spelling of `yoro issues`."""

    issues: bool = option(False, "Now `yoro issues DATA --model M.yoro`.", expert=True)
    out: Path | None = option(None, "With --issues: where to write the list.", metavar="LIST", expert=True)
    html: Path | None = option(None, "With --issues: also write a page.", metavar="PAGE", expert=True)


@shown()
class DrawOption:
    """A picture of the prompt."""

    prompt: Path | None = option(
        None, "Draw the visual prompt before and after training: a .png or .html file.", metavar="FILE", expert=True
    )


@shown()
class ExportOptions:
    """In which forms a model is written."""

    onnx: Path | None = option(None, "Write one ONNX graph.", metavar="FILE")
    web: Path | None = option(
        None, "Write a web page that classifies in the browser, without a server.", metavar="FOLDER"
    )
    runtime: Path | None = option(
        None, "With --web: an onnxruntime-web to use instead of the bundled one.", metavar="FOLDER"
    )


def inspect(
    model: ModelPath,
    /,
    *data: Annotated[str, Parameter(name="DATA", help="With --issues: labelled data.")],
    issues: IssueFlag = IssueFlag(),
    drawing: DrawOption = DrawOption(),
    reading: ReadingOptions = ReadingOptions(),
    output: JsonOptions = JsonOptions(),
) -> None:
    """Show classes, counts, backbone, shrinkage and history of a model.

    For a file of statistics (.stats): its contents, and what they reveal.
    """
    from yoro.model.store import read_model

    if issues.issues:
        output.tell("Note: `yoro inspect --issues` is now `yoro issues DATA --model M.yoro`.")
        output.check(issues.out, issues.html)
        files = IssueFiles(issues.out, issues.html)
        tell_skipped(list_issues(reading.load(model), given(data), files, reading, output))
        return
    if data or issues.out or issues.html:
        raise UsageError("DATA, --out and --html need --issues.")
    if model.suffix == STATS:
        if drawing.prompt is not None:
            raise UsageError("--prompt needs a model; a file of statistics has no prompt.")
        from yoro.model.shards import read_shard

        shard = read_shard(model)
        output.show(shard_facts(shard), shard_text(shard))
        return
    content = read_model(model)
    if drawing.prompt is not None:
        draw(content, drawing.prompt, output)
        output.tell(f"Visual prompt drawn in {drawing.prompt}")
        if not output.as_json:
            return
    output.show(facts(content), text(content))


def export(
    model: ModelPath,
    file: Annotated[Path | None, Parameter(name="FILE.onnx", help="The same as --onnx FILE.")] = None,
    /,
    *,
    wanted: ExportOptions = ExportOptions(),
    moved: MovedOptions = MovedOptions(device="cpu"),
    output: WriteOptions = WriteOptions(),
) -> None:
    """Export a model as an ONNX graph or a web page, verified first.

    The graph contains prompt, normalisation, backbone and mapping; its answers are compared with those of `predict`.
    """
    from yoro.files.atomic import write_file
    from yoro.model.onnx_export import checked_export
    from yoro.web.browser_runtime import find_runtime
    from yoro.web.page_export import check_web_target, export_web

    onnx, web = wanted.onnx or file, wanted.web
    if file is not None and (file.suffix.lower() != ".onnx" or wanted.onnx is not None):
        raise UsageError(f"Cannot tell what to write to {file.name!r}; expected FILE.onnx, or --web FOLDER.")
    if onnx is None and web is None:
        raise UsageError("Nothing to write; expected FILE.onnx or --web FOLDER.")
    if wanted.runtime is not None and web is None:
        raise UsageError("--runtime needs --web FOLDER.")
    output.check(onnx)
    if web is not None:
        check_web_target(web, force=output.force)
        engine = find_runtime(wanted.runtime)
    classifier = (replace(moved, device="cpu") if moved.device == "auto" else moved).load(model)
    if onnx is not None:
        graph, difference = checked_export(classifier)
        write_file(onnx, graph)
        size = len(graph) / 1e6
        output.tell(f"{onnx}: {size:.1f} MB; probabilities equal those of `predict` within {difference:.1g}.")
    if web is not None:
        made = export_web(classifier, web, engine, force=output.force)
        equal = f"probabilities equal those of `predict` within {made.difference:.1g}"
        output.tell(f"{web}: {made.size / 1e6:.1f} MB; {equal}.")
        if not made.unknown:
            lacking = "this model keeps too few individual responses"
            output.tell(f"The page cannot reject out-of-distribution images: {lacking}.")
        output.tell(f"To view it: python -m http.server --directory {shlex.quote(str(web))}")


def draw(model: Model, file: Path, output: WriteOptions) -> None:
    """Write a picture of a model's prompt."""
    from yoro.errors import InputError
    from yoro.files.atomic import write_file
    from yoro.prompts.prompt import restore_prompt
    from yoro.reports.refinement import prompt_html, prompt_picture

    origin = model.origin
    if file.suffix.lower() not in (".png", ".html"):
        raise InputError(f"Cannot draw the prompt in {file.name!r}; expected a .png or .html file.")
    if origin.prompt is None:
        raise InputError("This model was fitted on responses, so it has no visual prompt.")
    own = restore_prompt(origin.prompt, origin.prompt_arrays)
    if own.program is None:
        told = "This model's prompt was never trained, so there is nothing to draw."
        raise InputError(f"{told} Train one with `yoro refine`.")
    output.check(file)
    write_file(file, prompt_picture(own) if file.suffix.lower() == ".png" else prompt_html(model).encode())


def facts(model: Model) -> dict[str, object]:
    """The model without its arrays."""
    statistics = model.statistics
    return {
        "classes": dict(zip(statistics.classes, statistics.counts.tolist(), strict=True)),
        "width": statistics.width,
        "source": model.origin.source,
        "transform": model.origin.transform,
        "prompt": model.origin.prompt,
        "prior": model.prior if isinstance(model.prior, str) else dict(model.prior),
        "protocol": model.protocol,
        "shrinkage": model.choice.shrinkage,
        "rule": model.choice.rule,
        "temperature": model.choice.temperature,
        "alpha": model.choice.alpha,
        "bank": None if model.words is None else model.words.bank.facts() | {"votes": model.words.votes},
        "delta": model.delta,
        "readings": [
            {"name": part.name, "weight": part.weight, "shrinkage": part.shrinkage} for part in model.choice.parts
        ],
        "candidates": dict(zip(map(str, model.choice.candidates), model.choice.scores, strict=True)),
        "reservoir": None if model.reservoir is None else len(model.reservoir),
        "history": model.history,
    }


def text(model: Model) -> str:
    """The model as text."""
    statistics = model.statistics
    kept = "none kept" if model.reservoir is None else f"{len(model.reservoir):,} kept"
    kept += "; no image hashes" if statistics.total and not len(model.ledger) else ""
    lines = [
        f"source       {model.origin.name}, width {statistics.width:,}",
        f"examples     {statistics.total:,.0f} of {len(statistics.classes)} classes; individual responses: {kept}",
        *_accuracy(model),
        *_readings(model),
        *_noise(model),
        f"protocol     {model.protocol}; prior {model.prior if isinstance(model.prior, str) else 'given'}",
        *_words(model),
        "",
        *_curve(model),
        "class counts",
        *(f"{count:>9,.0f}  {name}" for name, count in zip(statistics.classes, statistics.counts, strict=True)),
        "",
        "history",
    ]
    for event in model.history:
        count = event.get("images")
        examples = counted(count, "example") if isinstance(count, int) else f"{count} examples"
        lines.append(f"  {event.get('when')}  {event.get('verb')}: {examples}, {event.get('seconds')} s")
    return "\n".join(lines)


def _accuracy(model: Model) -> list[str]:
    """The recorded leave-one-out accuracy, if there is one."""
    from yoro.model.metrics import wilson_interval

    if model.recorded_accuracy is None:
        return []
    low, high = (percent_text(bound) for bound in wilson_interval(*model.recorded_accuracy))
    return [f"accuracy     {percent_text(model.recorded_accuracy[0])} by leave-one-out (95 %: {low} to {high})"]


def _noise(model: Model) -> list[str]:
    from yoro.model.card import noise_told
    from yoro.model.shards import shard_facts_of

    return [f"noise        {told.removeprefix('Noise: ')}" for told in noise_told(shard_facts_of(model))]


def _readings(model: Model) -> list[str]:
    """The shrinkage; of several layers, that of each and its ensemble weight."""
    choice = model.choice
    if not choice.parts:
        return [f"shrinkage    {choice.shrinkage:g} by {choice.rule}; temperature {choice.temperature:.3g}"]
    views = ", image and mirror image" if model.statistics.layout.views == 2 else ""
    rows = (f"{part.weight:>9.0%}  {part.name}, shrinkage {part.shrinkage:g}" for part in choice.parts)
    return [f"layers       by {choice.rule}{views}; temperature {choice.temperature:.3g}", *rows]


def _words(model: Model) -> list[str]:
    if model.words is None:
        return []
    bank = model.words.bank
    voice = f"weight of the zero-shot head {model.choice.alpha:.3g}" if model.words.votes else "no zero-shot head"
    return [f"sentences    {len(bank.flat()[0]):,} from {bank.origin}; {voice}"]


def _curve(model: Model) -> list[str]:
    if not model.choice.candidates:
        return []
    what = "correct answers" if model.choice.rule == "validation" else "negative log-likelihood"
    tried = dict(zip(model.choice.candidates, model.choice.scores, strict=True))
    chosen = {model.choice.shrinkage: " <- chosen"}
    rows = [f"{rho:>9g}  {score:<10.6g}{chosen.get(rho, '')}" for rho, score in tried.items()]
    return [f"shrinkage  {what}", *rows, ""]
