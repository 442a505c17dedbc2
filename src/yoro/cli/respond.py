"""`yoro respond`: a source's responses to images, kept in a file for reuse."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yoro.cli.talk import (
    BatchSize,
    Device,
    Force,
    Quiet,
    Strict,
    Workers,
    make_reading,
    say,
    tell_skipped,
)

if TYPE_CHECKING:
    from yoro.data.responses import ResponseBatch
    from yoro.text.encoded_bank import Wording


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
    attributes: Annotated[
        str | None,
        typer.Option(metavar="BANK", help="Of an image-text source: similarities to these sentences, not vectors."),
    ] = None,
    sentences: Annotated[int, typer.Option(min=1, help="Sentences drawn a class.")] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the draw of sentences.")] = 0,
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
    from yoro.data.find import find
    from yoro.data.response_writing import write_responses
    from yoro.model.one_pass import shown
    from yoro.model.pipeline import make_pipeline
    from yoro.model.store import refuse_existing
    from yoro.prompts.prompt import parse_frame
    from yoro.text.encoded_bank import make_wording, need_texts

    refuse_existing(out, force=force)
    found = find(data, labelled=not unlabelled)
    chosen = found if split is None else found.select(split)
    pipeline = make_pipeline(
        source, read=read, prompt=prompt, frame=parse_frame(frame), image_side=image_side, device=device
    )
    stream = pipeline.stream(chosen.examples, make_reading(batch_size, workers, strict))
    batches, width = shown(stream, "responding", not quiet), pipeline.source.width
    if attributes is not None:
        words = make_wording(
            need_texts(pipeline.source, "--attributes"), found.classes, attributes, each=sentences, seed=seed
        )[0]
        batches, width = _similarities(batches, words), len(words.vectors)
    count = write_responses(out, batches, width, labelled=not unlabelled)
    for note in found.notes:
        say(note, quiet)
    say(f"{out}: {count:,} responses of width {width} from {source}.", quiet)
    tell_skipped(stream.skipped)


def _similarities(batches: Iterable[ResponseBatch], words: Wording) -> Iterator[ResponseBatch]:
    """Image vectors as the responses of an image-text model: its scale times the similarity to each sentence."""
    for batch in batches:
        yield replace(batch, responses=words.scale * batch.responses @ words.vectors.T)
