"""`yoro endpoint`: an endpoint checked, and its requests and answers as files for a batch endpoint."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from yoro.cli.data_arguments import KINDS, LabelFrom, given
from yoro.cli.options import LoadingOptions, QuietOption, Quiets, Reads, WriteOptions, Writes, flag
from yoro.cli.output import print_text, say
from yoro.errors import InputError, counted
from yoro.model.settings import PipelineSettings

app = App("endpoint", sort_key=102, help="Check an endpoint; its requests and answers as files.")

MOST_LINES = 50_000  # of one file of requests: what batch endpoints usually take
MOST_MEGABYTES = 190
MOST_WRONG = 20  # lines that are named one by one
SHOWN = 5  # numbers of a vector

SourceName = Annotated[str, Parameter(name="--source", metavar="endpoint:FILE.toml", help="The endpoint.")]


@app.command
def check(
    file: Annotated[Path, Parameter(name="FILE.toml", help="The file of an endpoint.")],
    image: Annotated[str | None, Parameter(name="IMAGE", help="Ask about this image: one call.")] = None,
    /,
) -> None:
    """Say what the file of an endpoint means; with an image, ask it once and show what came."""
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
    """Ask about one image, and show the beginning of what came."""
    from yoro.data.decoding import decode
    from yoro.model.pipeline import make_pipeline

    pipeline = make_pipeline(replace(settings, budget=2))  # it may have to be asked for its width
    response = pipeline.respond(decode(Path(image), pipeline.geometry)[None])[0]
    print_text(f"{image}: {len(response):,} numbers, {', '.join(f'{number:.6g}' for number in response[:SHOWN])} ...")
    for sentence in pipeline.asked_of():
        say(sentence)


@app.command
def batch(
    *data: Annotated[str, Parameter(name="DATA", help=f"{KINDS}.")],
    source: SourceName,
    out: Annotated[Path, Parameter(metavar="REQUESTS.jsonl", help="Where to write the requests.")],
    most_lines: Annotated[int, Parameter(help="Requests of one file; more go to further files.")] = MOST_LINES,
    most_megabytes: Annotated[int, Parameter(help="Size of one file.")] = MOST_MEGABYTES,
    mirrored: Annotated[bool, flag("Also the mirror images, for --views 2.")] = False,
    label_from: LabelFrom = None,
    loading: Reads = LoadingOptions(),
    output: Writes = WriteOptions(),
) -> None:
    """Write a request for every image that has no answer yet, as lines of JSON; nothing is sent."""
    from yoro.data.find import find
    from yoro.limits import MB
    from yoro.model.call_forecast import canvases, unasked
    from yoro.model.store import check_output
    from yoro.sources.endpoint.journal import Journal

    check_output(out, force=output.force)
    if most_lines < 1 or most_megabytes < 1:
        raise InputError("A file has at least one line and one megabyte; give larger numbers.")
    found = find(given(data, label_from), labelled=False)
    pipeline, endpoint = unasked(PipelineSettings(source=source, views=2 if mirrored else 1))
    from yoro.sources.endpoint.batch_files import request_lines, write_lines  # needs what the endpoint was opened with

    endpoint.journal = Journal(endpoint.journal.path)
    images = (endpoint.sendable(canvas) for canvas in canvases(pipeline, found.examples, loading))
    files = write_lines(request_lines(endpoint, images), out, most_lines, most_megabytes * MB)
    for path, count in files:
        say(f"{path}: {counted(count, 'request')}.", output.quiet)
    if not files:
        say("Every image has its answer already: there is nothing to write.", output.quiet)
    elif endpoint.config.price is not None:
        say("The price of the file is that of single calls; batches often cost half.", output.quiet)


@app.command
def take(
    *files: Annotated[Path, Parameter(name="ANSWERS.jsonl", help="What the batch endpoint gave back.")],
    source: SourceName,
    output: Quiets = QuietOption(),
) -> None:
    """Read answers of a batch endpoint into the journal; a fit then makes no call for these images."""
    from yoro.model.call_forecast import unasked
    from yoro.sources.endpoint.journal import Journal

    if not files:
        raise InputError("No file of answers came.")
    _, endpoint = unasked(PipelineSettings(source=source))
    from yoro.sources.endpoint.batch_files import take_answers  # needs what the endpoint was opened with

    endpoint.journal = Journal(endpoint.journal.path)
    wrong: list[str] = []
    for path in files:
        taken = take_answers(endpoint, path)
        wrong += taken.wrong
        known = f", {taken.known:,} known before" if taken.known else ""
        say(f"{path}: {counted(taken.new, 'answer')} taken{known}.", output.quiet)
    for sentence in wrong[:MOST_WRONG]:
        say(f"Left out: {sentence}")
    if wrong:
        more = f", of which {len(wrong) - MOST_WRONG:,} are not named" if len(wrong) > MOST_WRONG else ""
        say(f"{counted(len(wrong), 'line')} left out{more}; a fit asks about these images itself.")
        sys.exit(1)
