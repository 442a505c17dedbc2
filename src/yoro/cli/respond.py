"""`yoro respond`: a source's responses to images, kept in a file for reuse."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from yoro.cli.talk import (
    BatchSize,
    Device,
    Force,
    Quiet,
    Strict,
    Workers,
    make_reading,
    parse_frame,
    say,
    tell_skipped,
)


def run(
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="A folder of images or a list (.csv, .jsonl).", show_default=False)
    ],
    out: Annotated[Path, typer.Option(metavar="Z.npz", help="Where to write the responses.", show_default=False)],
    source: Annotated[
        str, typer.Option(metavar="S", help="The frozen model; `yoro models` lists them.")
    ] = "embedded:lite0",
    prompt: Annotated[str, typer.Option(metavar="P", help="watermark, padding or legacy-padding.")] = "watermark",
    frame: Annotated[str, typer.Option(metavar="START", help="How a padding's frame starts.")] = "grey",
    image_side: Annotated[int | None, typer.Option(min=1, help="Side of the image within a padding.")] = None,
    read: Annotated[str, typer.Option(metavar="logits|features", help="Where the source is read.")] = "logits",
    split: Annotated[str | None, typer.Option(metavar="NAME", help="Only this split of the data.")] = None,
    unlabelled: Annotated[bool, typer.Option("--unlabelled", help="Images without classes: keep no labels.")] = False,
    device: Device = "auto",
    batch_size: BatchSize = 32,
    workers: Workers = None,
    strict: Strict = False,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Write responses, labels and groups to a response file, which every verb takes in place of the images."""
    from yoro.data.finding import find
    from yoro.data.response_writing import write_responses
    from yoro.gathering import shown
    from yoro.pipeline import make_pipeline
    from yoro.store import refuse_existing

    refuse_existing(out, force=force)
    found = find(data, labelled=not unlabelled)
    chosen = found if split is None else found.select(split)
    pipeline = make_pipeline(
        source, read=read, prompt=prompt, frame=parse_frame(frame), image_side=image_side, device=device
    )
    stream = pipeline.stream(chosen.examples, make_reading(batch_size, workers, strict))
    count = write_responses(out, shown(stream, "responding", not quiet), pipeline.source.width, labelled=not unlabelled)
    for note in found.notes:
        say(note, quiet)
    say(f"{out}: {count:,} responses of width {pipeline.source.width} from {source}.", quiet)
    tell_skipped(stream.skipped)
