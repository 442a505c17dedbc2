"""`yoro endpoint`: checks an API endpoint, and exchanges files with batch endpoints."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from yoro.cli.arguments import Data, given
from yoro.cli.options import LABEL_FROM, LoadingOptions, QuietOption, WriteOptions, shown, verb_group
from yoro.cli.output import print_text, say
from yoro.errors import InputError, counted
from yoro.model.settings import PipelineSettings
from yoro.option import check_range, option

app = verb_group("endpoint")

MOST_LINES = 50_000  # per file of requests: what batch endpoints usually accept
MOST_MEGABYTES = 190
MOST_WRONG = 20  # lines that are named one by one
SHOWN = 5  # numbers of a vector

SourceName = Annotated[str, Parameter(name="--source", metavar="endpoint:FILE.toml", help="The endpoint.")]


@app.command
def check(
    file: Annotated[Path, Parameter(name="FILE.toml", help="The description of an endpoint.")],
    image: Annotated[str | None, Parameter(name="IMAGE", help="Also send this image: one call.")] = None,
    /,
) -> None:
    """Validate the description of an endpoint; with an image, call it once and show the answer."""
    from yoro.model.call_forecast import unasked

    settings = PipelineSettings(source=f"endpoint:{file}")
    _, source = unasked(settings)
    config = source.config
    print_text(f"{config.method} {config.shown}")
    for name, header in config.headers.items():
        kind = f"from the variable {header.env}" if header.env else "as written"
        header.value(name)  # a variable that is not set is known before the first call
        print_text(f"header {name}: {kind}")
    where = "what its server says" if config.ours else f"the vector at {config.answer}"
    print_text(f"side {source.side}, {config.encoding}; {where}")
    print_text(f"journal {source.journal.path}: {source.journal.totals(source.request).summary()}")
    if image is not None:
        _ask(settings, image)


def _ask(settings: PipelineSettings, image: str) -> None:
    """Send one image, and show the beginning of the answer."""
    from yoro.data.processes import decode_fenced
    from yoro.model.pipeline import make_pipeline

    pipeline = make_pipeline(replace(settings, budget=2))  # it may have to be asked for its width
    response = pipeline.respond(decode_fenced(Path(image), pipeline.geometry, str(image))[None])[0]
    print_text(f"{image}: {len(response):,} numbers, {', '.join(f'{number:.6g}' for number in response[:SHOWN])} ...")
    for sentence in pipeline.asked_of():
        say(sentence)


@shown()
class BatchOptions:
    """Which requests are written, and to how many files."""

    label_from: str | None = LABEL_FROM.field(None)
    most_lines: int = option(MOST_LINES, "Maximum requests per file; the rest go to further files.")
    most_megabytes: int = option(MOST_MEGABYTES, "Maximum size of a file.")
    mirrored: bool = option(False, "Also request the mirror images, for --views 2.")


@app.command(usage="Usage: yoro endpoint batch DATA... --source endpoint:FILE.toml --out REQUESTS.jsonl [OPTIONS]")
def batch(
    *data: Data,
    source: SourceName,
    out: Annotated[Path, Parameter(metavar="REQUESTS.jsonl", help="Where to write the requests.")],
    wanted: BatchOptions = BatchOptions(),
    loading: LoadingOptions = LoadingOptions(),
    output: WriteOptions = WriteOptions(),
) -> None:
    """Write a request for every image without an answer, as lines of JSON; nothing is sent."""
    from yoro.data.find import find
    from yoro.limits import MB
    from yoro.model.call_forecast import canvases, unasked
    from yoro.sources.endpoint.journal import Journal

    output.check(out)
    check_range("most_lines", wanted.most_lines, 1)
    check_range("most_megabytes", wanted.most_megabytes, 1)
    found = find(given(data, wanted.label_from), labelled=False)
    pipeline, endpoint = unasked(PipelineSettings(source=source, views=2 if wanted.mirrored else 1))
    from yoro.sources.endpoint.batch_files import request_lines, write_lines  # needs what the endpoint was opened with

    endpoint.journal = Journal(endpoint.journal.path)
    images = (endpoint.sendable(canvas) for canvas in canvases(pipeline, found.examples, loading))
    files = write_lines(request_lines(endpoint, images), out, wanted.most_lines, wanted.most_megabytes * MB)
    output.tell(*(f"{path}: {counted(count, 'request')}." for path, count in files))
    if not files:
        output.tell("Nothing to write: every image has an answer already.")
    elif endpoint.config.price is not None:
        output.tell("The price in the description is for single calls; batches often cost half.")


@app.command(usage="Usage: yoro endpoint take ANSWERS.jsonl... --source endpoint:FILE.toml [OPTIONS]")
def take(
    *files: Annotated[Path, Parameter(name="ANSWERS.jsonl", help="Results of the batch endpoint.")],
    source: SourceName,
    output: QuietOption = QuietOption(),
) -> None:
    """Import answers of a batch endpoint, so that a fit makes no calls for these images."""
    from yoro.model.call_forecast import unasked
    from yoro.sources.endpoint.journal import Journal

    if not files:
        raise InputError("No file of answers given.")
    _, endpoint = unasked(PipelineSettings(source=source))
    from yoro.sources.endpoint.batch_files import take_answers  # needs what the endpoint was opened with

    endpoint.journal = Journal(endpoint.journal.path)
    wrong: list[str] = []
    for path in files:
        taken = take_answers(endpoint, path)
        wrong += taken.wrong
        known = f", {taken.known:,} already known" if taken.known else ""
        output.tell(f"{path}: {counted(taken.new, 'answer')} imported{known}.")
    for sentence in wrong[:MOST_WRONG]:
        say(f"Ignored: {sentence}")
    if wrong:
        more = f" ({len(wrong) - MOST_WRONG:,} not listed)" if len(wrong) > MOST_WRONG else ""
        say(f"{counted(len(wrong), 'line')} ignored{more}; a fit will call the endpoint for these images.")
        sys.exit(1)
