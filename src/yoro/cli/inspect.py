"""`yoro inspect`, `models` and `export`: what a saved model is, which sources there are, and a model in other forms."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.data_arguments import Images
from yoro.cli.issues import IssueOptions, list_issues
from yoro.cli.options import (
    Answers,
    JsonOptions,
    LoadingOptions,
    ModelPath,
    Moved,
    MovedOptions,
    Reads,
    UsageError,
    WriteOptions,
    Writes,
    flag,
)
from yoro.cli.output import print_json, print_text, say
from yoro.cli.stats import STATS, show_shard
from yoro.errors import counted

if TYPE_CHECKING:
    from yoro.model.model import Model

ON_CPU = MovedOptions(device="cpu")


def inspect(
    model: ModelPath,
    /,
    *data: Images,
    issues: Annotated[IssueOptions, Parameter(name="*")] = IssueOptions(),
    prompt: Annotated[
        Path | None,
        Parameter(metavar="FILE", help="Draw the visual prompt before and after training: a .png or .html file."),
    ] = None,
    moved: Moved = MovedOptions(),
    loading: Reads = LoadingOptions(),
    output: Answers = JsonOptions(),
) -> None:
    """Show classes, counts, source, shrinkage and history of a model.

    Of a file of statistics (.stats): what it holds, and what it reveals.

    With --issues and labelled data: which labels look wrong, which images are odd or there twice.
    """
    from yoro.model.store import read_model

    if issues.issues:
        list_issues(model, data, issues, moved, loading, output)
        return
    if data or issues.out or issues.html:
        raise UsageError("DATA, --out and --html go with --issues.")
    if model.suffix == STATS:
        if prompt is not None:
            raise UsageError("--prompt is for models; a file of statistics has none to draw.")
        show_shard(model, as_json=output.as_json)
        return
    content = read_model(model)
    if prompt is not None:
        draw(content, prompt, output.force)
        say(f"{prompt}: the visual prompt.", output.quiet)
        if not output.as_json:
            return
    if output.as_json:
        print_json(facts(content))
    else:
        print_text(text(content))


def models(*, as_json: Annotated[bool, flag("Print one JSON object on stdout.", "--json")] = False) -> None:
    """List frozen models: what is installed, how to get the rest."""
    from yoro.sources import catalogue

    rows = catalogue()
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    width = max(len(row.name) for row in rows)
    print_text(f"{'source':<{width}}  {'here':<5} {'side':>5} {'width':>6}  what")
    for row in rows:
        here = "yes" if row.installed else "no"
        print_text(f"{row.name:<{width}}  {here:<5} {row.side or '-':>5} {row.width or '-':>6}  {row.what}")
        how = "" if row.installed else f"{row.how}; "
        print_text(f"{'':<{width}}  {how}licence: {row.licence}")


def export(
    model: ModelPath,
    /,
    *,
    onnx: Annotated[Path | None, Parameter(metavar="FILE", help="Write one ONNX graph here.")] = None,
    web: Annotated[
        Path | None,
        Parameter(metavar="FOLDER", help="Write a page here that classifies in the browser, without a server."),
    ] = None,
    runtime: Annotated[
        Path | None,
        Parameter(metavar="FOLDER", help="With --web: where onnxruntime-web is; by default in node_modules upwards."),
    ] = None,
    moved: Moved = ON_CPU,
    output: Writes = WriteOptions(),
) -> None:
    """Write a model as one ONNX graph or as a web page, checked before.

    The graph holds prompt, normalisation, source and mapping; its answers are compared with those of `predict`.
    """
    from yoro.files.atomic import write_file
    from yoro.model.onnx_export import checked_export
    from yoro.model.open_model import load
    from yoro.model.store import check_output
    from yoro.web.browser_runtime import find_runtime
    from yoro.web.page_export import check_web_target, export_web

    if onnx is None and web is None:
        raise UsageError("Nothing to write was named; expected --onnx FILE or --web FOLDER.")
    if runtime is not None and web is None:
        raise UsageError("--runtime goes with --web FOLDER.")
    if onnx is not None:
        check_output(onnx, force=output.force)
    if web is not None:
        check_web_target(web, force=output.force)
        engine = find_runtime(runtime)
    device = "cpu" if moved.device == "auto" else moved.device
    classifier = load(model, source=moved.source, device=device, calls=moved.calls)
    if onnx is not None:
        graph, difference = checked_export(classifier)
        write_file(onnx, graph)
        size = len(graph) / 1e6
        say(f"{onnx}: {size:.1f} MB; probabilities equal those of `predict` within {difference:.1g}.", output.quiet)
    if web is not None:
        made = export_web(classifier, web, engine, force=output.force)
        equal = f"probabilities equal those of `predict` within {made.difference:.1g}"
        say(f"{web}: {made.size / 1e6:.1f} MB; {equal}.", output.quiet)
        if not made.unknown:
            say("The page cannot say what is unknown: this model keeps too few individual responses.", output.quiet)
        say(f"To look at it: python -m http.server --directory {shlex.quote(str(web))}", output.quiet)


def draw(model: Model, file: Path, force: bool) -> None:
    """Write the drawing of a model's prompt."""
    from yoro.errors import InputError
    from yoro.files.atomic import write_file
    from yoro.model.store import check_output
    from yoro.prompts.prompt import restore_prompt
    from yoro.reports.refinement import is_trained, prompt_html, prompt_picture

    origin = model.origin
    if file.suffix.lower() not in (".png", ".html"):
        raise InputError(f"A prompt is drawn in a .png or .html file; {file.name!r} is neither.")
    if origin.prompt is None:
        raise InputError("This model was fitted on responses alone: it has no visual prompt to draw.")
    own = restore_prompt(origin.prompt, origin.prompt_arrays)
    if not is_trained(own):
        raise InputError(
            "This model's prompt was never trained, so there is nothing to draw. `yoro refine` trains one."
        )
    check_output(file, force=force)
    if file.suffix.lower() == ".png":
        write_file(file, prompt_picture(own))
    else:
        write_file(file, prompt_html(model).encode())


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
    """The same for a person."""
    statistics = model.statistics
    kept = "none kept" if model.reservoir is None else f"{len(model.reservoir):,} kept"
    kept += "; no list of what was fitted" if statistics.total and not len(model.ledger) else ""
    lines = [
        f"source       {model.origin.name}, responses of width {statistics.width}",
        f"examples     {statistics.total:,.0f} of {len(statistics.classes)} classes; individual responses: {kept}",
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
        *(
            f"  {e.get('when')}  {e.get('verb')}: {_examples(e.get('images'))}, {e.get('seconds')} s"
            for e in model.history
        ),
    ]
    return "\n".join(lines)


def _noise(model: Model) -> list[str]:
    from yoro.model.merging import shard_facts_of
    from yoro.model.noise_facts import noise_told

    return [f"noise        {told.removeprefix('Noise: ')}" for told in noise_told(shard_facts_of(model))]


def _examples(count: object) -> str:
    return counted(count, "example") if isinstance(count, int) else f"{count} examples"


def _readings(model: Model) -> list[str]:
    """The shrinkage; of several readings, that of each and its share in the answer."""
    choice = model.choice
    if not choice.parts:
        return [f"shrinkage    {choice.shrinkage:g} by {choice.rule}; temperature {choice.temperature:.3g}"]
    views = ", image and mirror image" if model.statistics.layout.views == 2 else ""
    rows = (f"{part.weight:>9.0%}  {part.name}, shrinkage {part.shrinkage:g}" for part in choice.parts)
    return [f"readings     by {choice.rule}{views}; temperature {choice.temperature:.3g}", *rows]


def _words(model: Model) -> list[str]:
    if model.words is None:
        return []
    bank = model.words.bank
    voice = f"the zero-shot head counts {model.choice.alpha:.3g}" if model.words.votes else "they do not vote"
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
