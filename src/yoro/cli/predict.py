"""`yoro predict` and `yoro respond`: answers and responses to new data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.options import (
    Data,
    LoadingOptions,
    ModelPath,
    Moved,
    MovedOptions,
    PipelineOptions,
    Pipelines,
    Reads,
    SentenceOptions,
    Speaks,
    UsageError,
    WriteOptions,
    Writes,
    flag,
)
from yoro.cli.output import say, tell_skipped
from yoro.model.settings import SolveSettings

if TYPE_CHECKING:
    from yoro.data.responses import ResponseBatch
    from yoro.model.classifier import Answers
    from yoro.text.encoded_bank import EncodedBank


def predict(
    model: ModelPath,
    data: Data,
    /,
    *,
    out: Annotated[Path | None, Parameter(metavar="FILE", help="Write to a file; by default to stdout.")] = None,
    kind: Annotated[
        str | None,
        Parameter(name="--format", metavar="csv|json|jsonl|parquet", help="By default the file's suffix, or csv."),
    ] = None,
    top: Annotated[int, Parameter(metavar="K", help="Give the K best classes of each.")] = 1,
    moved: Moved = MovedOptions(),
    loading: Reads = LoadingOptions(),
    output: Writes = WriteOptions(),
) -> None:
    """Predict classes: one row each, with path, label and probability."""
    from yoro.files.rows import FORMATS, write_rows
    from yoro.model.classifier import load
    from yoro.model.store import refuse_existing

    kind = kind or (out.suffix.removeprefix(".").lower() if out is not None and out.suffix else "csv")
    if kind not in FORMATS:
        raise UsageError(f"{kind!r} is no format; expected one of {', '.join(FORMATS)}.")
    if kind == "parquet" and out is None:
        raise UsageError("Parquet cannot be shown; give a file with --out.")
    if top < 1:
        raise UsageError(f"The {top} best classes were asked for; expected --top 1 or more.")
    if out is not None:
        refuse_existing(out, force=output.force)
    classifier = load(model, source=moved.source, device=moved.device)
    answers = classifier.answers(data, loading=loading, progress=not output.quiet)
    count = write_rows(rows(answers, classifier.classes, top, place(data)), kind, out)
    if out is not None:
        say(f"{out}: {count:,} predictions.", output.quiet)
    tell_skipped(answers.skipped)


def place(data: str) -> str:
    """What stands before a name in `data` so that it can be opened from here."""
    path = Path(data)
    if path.is_dir():
        return f"{data.rstrip('/')}/"
    listed = path.suffix.lower() in (".csv", ".tsv", ".jsonl") and path.parent != Path()
    return f"{path.parent}/" if listed else ""


def rows(
    answers: Iterable[Answers], classes: tuple[str, ...], top: int, before: str = ""
) -> Iterator[dict[str, object]]:
    """One row an image: path, label, probability, and further columns for the next best."""
    import numpy as np

    for batch in answers:
        order = np.argsort(-batch.log_probabilities, axis=1, kind="stable")[:, :top]
        for name, best, row in zip(batch.names, order.tolist(), np.exp(batch.log_probabilities), strict=True):
            result: dict[str, object] = {"path": name if Path(name).is_absolute() else before + name}
            for rank, i in enumerate(best, start=1):
                suffix = "" if rank == 1 else f"_{rank}"
                result[f"label{suffix}"] = classes[i]
                result[f"probability{suffix}"] = round(float(row[i]), 6)
            yield result


def respond(
    data: Annotated[str, Parameter(help="A folder of images or a list (.csv, .jsonl).")],
    /,
    *,
    out: Annotated[Path, Parameter(metavar="Z.npz", help="Where to write the responses.")],
    split: Annotated[str | None, Parameter(metavar="NAME", help="Only this split of the data.")] = None,
    unlabelled: Annotated[bool, flag("Images without classes: keep no labels.")] = False,
    seed: Annotated[int, Parameter(help="Seed of the draw of sentences.")] = SolveSettings.seed,
    pipeline: Pipelines = PipelineOptions(),
    sentences: Speaks = SentenceOptions(),
    loading: Reads = LoadingOptions(),
    output: Writes = WriteOptions(),
) -> None:
    """Write responses, labels and groups to a response file, which every verb takes in place of the images.

    With --attributes, the responses of an image-text source are its similarities to the sentences, not its vectors.
    """
    from yoro.data.find import find
    from yoro.data.responses import write_responses
    from yoro.model.pipeline import make_pipeline
    from yoro.model.store import refuse_existing
    from yoro.text.encoded_bank import make_encoded_bank, need_texts

    refuse_existing(out, force=output.force)
    found = find(data, labelled=not unlabelled)
    chosen = found if split is None else found.select(split)
    made = make_pipeline(pipeline)
    stream = made.stream(chosen.examples, loading)
    batches, width = stream.shown("responding", not output.quiet), made.source.width
    if sentences.attributes is not None:
        texts = need_texts(made.source, "--attributes")
        words = make_encoded_bank(texts, found.classes, sentences, seed=seed)[0]
        batches, width = _similarities(batches, words), len(words.vectors)
    count = write_responses(out, batches, width, labelled=not unlabelled)
    for note in found.notes:
        say(note, output.quiet)
    say(f"{out}: {count:,} responses of width {width} from {pipeline.source}.", output.quiet)
    tell_skipped(stream.skipped)


def _similarities(batches: Iterable[ResponseBatch], words: EncodedBank) -> Iterator[ResponseBatch]:
    """Image vectors as the responses of an image-text model: its scale times the similarity to each sentence."""
    for batch in batches:
        yield replace(batch, responses=words.scale * batch.responses @ words.vectors.T)
