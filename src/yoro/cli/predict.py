"""`yoro predict`, `respond` and `evaluate`: answers and responses to new data, and how good they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.data_arguments import KINDS, Images, LabelFrom, Pictures, given
from yoro.cli.image_output import PictureOptions, attended, find_pictures, undo
from yoro.cli.options import (
    ClusterOptions,
    DryRun,
    LoadingOptions,
    ModelPath,
    Moved,
    MovedOptions,
    PipelineOptions,
    Pipelines,
    Reads,
    ReportOptions,
    Reports,
    SentenceOptions,
    Speaks,
    Spreads,
    UsageError,
    WriteOptions,
    Writes,
    flag,
)
from yoro.cli.output import print_json, print_text, say, tell_calls, tell_skipped, write_page
from yoro.errors import counted
from yoro.model.question import SETS_BY, Question
from yoro.model.settings import SolveSettings

if TYPE_CHECKING:
    from yoro.cluster.block_output import BlockOutput
    from yoro.data.responses import ResponseBatch
    from yoro.model.answers import ImageAnswer
    from yoro.model.metrics import Evaluation
    from yoro.text.encoded_bank import EncodedBank


Resume = Annotated[bool, flag("With --ray: resume an interrupted run.")]
AnotherPrior = Annotated[
    str | None,
    Parameter(metavar="P", help="Class priors instead of the fit's: empirical, uniform, or shares cat=0.2,dog=0.8."),
]


@dataclass(frozen=True)
class RowOptions(Question):
    """What is asked about each image, and where the rows are written."""

    top: Annotated[int, Parameter(metavar="K", help="Give the K best classes of each.")] = Question.top
    threshold: Annotated[float, Parameter(metavar="P", help="Give no label where the probability is less.")] = (
        Question.threshold
    )
    unknown: Annotated[
        float | None,
        Parameter(
            metavar="S", help="Reject out-of-distribution images; S is the fraction of training images rejected."
        ),
    ] = None
    coverage: Annotated[
        float | None, Parameter(metavar="C", help="Also output a conformal prediction set with coverage C.")
    ] = None
    calibrate: Annotated[
        str | None, Parameter(metavar="DATA", help="With --coverage: labelled data, not fitted, to find the sets by.")
    ] = None
    sets_by: Annotated[
        str,
        Parameter(metavar="|".join(SETS_BY), help="With --coverage: how the sets are found; full is exact, and slow."),
    ] = Question.sets_by
    allow_empty: Annotated[bool, flag("With --coverage: a set may be empty, where no label fits.")] = False
    prior: AnotherPrior = None
    out: Annotated[Path | None, Parameter(metavar="FILE", help="Write to a file; by default to stdout.")] = None
    kind: Annotated[
        str | None,
        Parameter(name="--format", metavar="csv|json|jsonl|parquet", help="By default the file's suffix, or csv."),
    ] = None

    @property
    def format(self) -> str:
        """By name, by suffix, or CSV."""
        named = self.out.suffix.removeprefix(".").lower() if self.out is not None else ""
        return self.kind or named or "csv"


def predict(
    model: ModelPath,
    /,
    *images: Pictures,
    rows: Annotated[RowOptions, Parameter(name="*")] = RowOptions(),
    pictures: Annotated[PictureOptions, Parameter(name="*")] = PictureOptions(),
    resume: Resume = False,
    moved: Moved = MovedOptions(),
    loading: Reads = LoadingOptions(),
    cluster: Spreads = ClusterOptions(),
    output: Writes = WriteOptions(),
) -> None:
    """Predict classes, sort images by class, or show them on a page.

    One row each, with path, label and probability, unless the images themselves are asked for.
    """
    from yoro.files.rows import write_rows
    from yoro.model.open_model import load
    from yoro.trust.answering import make_answerer

    if pictures.sort_into is not None and pictures.undo:
        undo(pictures.sort_into, output.quiet)
        return
    if cluster.ray is not None:
        _predict_on_ray(model, given(images), rows, pictures, moved, _task(rows.out, cluster, loading, resume, output))
        return
    _check_outputs(rows, pictures, output)
    data = given(images)
    found = find_pictures(data, pictures)
    classifier = load(model, source=moved.source, device=moved.device, calls=moved.calls)
    answers = classifier.answers(found or data, prior=rows.prior, loading=loading, progress=not output.quiet)
    question = replace(rows, top=max(rows.top, 2)) if pictures.asked else rows  # a page shows the best two
    answerer = make_answerer(classifier, question, loading=loading)
    for note in (*answers.notes, *answerer.notes):
        say(note, output.quiet)
    stream: Iterable[list[ImageAnswer]] = (list(answerer.each(batch)) for batch in answers)
    if found and pictures.asked:
        stream = attended(stream, found, classifier.model, pictures, rows.threshold, output.quiet)
    before = found.before if found else ""
    lines = (answer.row(rows.top, before=before) for batch in stream for answer in batch)
    if pictures.asked and rows.out is None and rows.kind is None:  # the images are the answer
        count = sum(1 for _ in lines)
    else:
        count = write_rows(lines, rows.format, rows.out)
    if rows.out is not None:
        say(f"{rows.out}: {counted(count, 'prediction')}.", output.quiet)
    tell_calls(classifier, output.quiet)
    tell_skipped(answers.skipped)


def _task(
    out: Path | None, cluster: ClusterOptions, loading: LoadingOptions, resume: bool, output: WriteOptions
) -> BlockOutput:
    """What is written by Ray, and where; what cannot be written is known before the first image is read."""
    from yoro.cluster.block_output import BlockOutput
    from yoro.cluster.session import need_ray
    from yoro.model.store import check_output

    if out is None:
        raise UsageError("--ray writes Parquet; give a folder, or a file that ends in .parquet, with --out.")
    if out.suffix.lower() not in ("", ".parquet"):
        raise UsageError(f"--ray writes Parquet, not {out.suffix}: give a folder, or a file that ends in .parquet.")
    need_ray()
    task = BlockOutput(out, cluster, loading, resume, not output.quiet, lambda note: say(note, output.quiet))
    if out.is_dir() and not output.force:
        raise UsageError(f"{out} exists; --force replaces it.")
    if not out.is_dir():
        check_output(out, force=output.force)
    return task


def _predict_on_ray(
    model: Path, data: object, rows: RowOptions, pictures: PictureOptions, moved: MovedOptions, task: BlockOutput
) -> None:
    from yoro.cluster.block_output import predict_on_ray
    from yoro.model.open_model import load
    from yoro.trust.answering import make_answerer

    if pictures.asked or rows.kind not in (None, "parquet"):
        raise UsageError("--ray writes rows as Parquet: leave --sort-into, --html and --format out.")
    classifier = load(model, source=moved.source, device=moved.device)
    answerer = make_answerer(classifier, rows, loading=task.loading)
    for note in answerer.notes:
        task.tell(note)
    with _resumable(task):
        written = predict_on_ray(classifier, data, task, answerer, moved.source)
    task.tell(f"{task.out}: {counted(written.rows, 'prediction')}.")
    tell_skipped(written.skipped)


@contextmanager
def _resumable(task: BlockOutput) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        kept = "The same command with --resume goes on from here." if task.unfinished.exists() else ""
        raise KeyboardInterrupt(f"interrupted. {kept}") from None


def _check_outputs(rows: RowOptions, pictures: PictureOptions, output: WriteOptions) -> None:
    """Raise for what cannot be written, before the first image is read."""
    from yoro.files.rows import FORMATS
    from yoro.model.store import check_output

    if rows.format not in FORMATS:
        raise UsageError(f"Unknown format {rows.format!r}; choose one of {', '.join(FORMATS)}.")
    if rows.format == "parquet" and rows.out is None:
        raise UsageError("Parquet cannot be shown; give a file with --out.")
    for file in (rows.out, pictures.html):
        if file is not None:
            check_output(file, force=output.force)


def respond(
    *data: Annotated[str, Parameter(name="DATA", help=f"{KINDS}.")],
    out: Annotated[Path, Parameter(metavar="Z.npz", help="Where to write the responses.")],
    split: Annotated[str | None, Parameter(metavar="NAME", help="Only this split of the data.")] = None,
    unlabelled: Annotated[bool, flag("Images without classes: keep no labels.")] = False,
    label_from: LabelFrom = None,
    seed: Annotated[int, Parameter(help="Seed of the draw of sentences.")] = SolveSettings.seed,
    dry_run: DryRun = False,
    resume: Resume = False,
    pipeline: Pipelines = PipelineOptions(),
    sentences: Speaks = SentenceOptions(),
    loading: Reads = LoadingOptions(),
    cluster: Spreads = ClusterOptions(),
    output: Writes = WriteOptions(),
) -> None:
    """Write a network's responses to a file that verbs take as data.

    With --attributes, the responses of an image-text source are its similarities to the sentences, not its vectors.
    """
    from yoro.data.find import find
    from yoro.data.responses import write_responses
    from yoro.model.call_forecast import forecast, unasked
    from yoro.model.pipeline import make_pipeline
    from yoro.model.store import check_output
    from yoro.text.encoded_bank import make_encoded_bank, need_texts

    if cluster.ray is not None:
        if sentences.attributes is not None:
            raise UsageError("--ray writes the vectors of an image-text source; leave --attributes out.")
        task = _task(out, cluster, loading, resume, output)
        _respond_on_ray(given(data, label_from), pipeline, task, labelled=not unlabelled, split=split)
        return
    if not dry_run:
        check_output(out, force=output.force)
    found = find(given(data, label_from), labelled=not unlabelled)
    chosen = found if split is None else found.select(split)
    if dry_run:
        made, source = unasked(pipeline)
        print_text(forecast(made, source, chosen.examples, loading).summary(source.config))
        return
    made = make_pipeline(pipeline)
    stream = made.stream(chosen.examples, loading)
    batches, width = stream.shown("responding", not output.quiet), made.source.width
    identity = made.origin().identity() or {}
    if sentences.attributes is not None:
        texts = need_texts(made.source, "--attributes")
        words = make_encoded_bank(texts, found.classes, sentences, seed=seed)[0]
        batches, width = _similarities(batches, words), len(words.vectors)
        identity["sentences"] = words.digest
    count = write_responses(out, batches, width, labelled=not unlabelled, identity=identity)
    for note in found.notes:
        say(note, output.quiet)
    say(f"{out}: {counted(count, 'response')} of width {width} from {pipeline.source}.", output.quiet)
    for sentence in made.asked_of():
        say(sentence, output.quiet)
    tell_skipped(stream.skipped)


def _respond_on_ray(
    data: object, pipeline: PipelineOptions, task: BlockOutput, *, labelled: bool, split: str | None
) -> None:
    from yoro.cluster.block_output import respond_on_ray

    with _resumable(task):
        written = respond_on_ray(data, task, pipeline, labelled=labelled, split=split)
    counts = f"{counted(written.rows, 'response')} of width {written.width}"
    task.tell(f"{task.out}: {counts} from {pipeline.source}.")
    tell_skipped(written.skipped)


def _similarities(batches: Iterable[ResponseBatch], words: EncodedBank) -> Iterator[ResponseBatch]:
    """Image vectors as the responses of an image-text model: its scale times the similarity to each sentence."""
    for batch in batches:
        yield replace(batch, responses=words.scale * batch.responses @ words.vectors.T)


MOST_CLASSES = 60  # of which a table in a terminal is still read
MOST_CONFUSIONS = 10


def evaluate(
    model: ModelPath,
    /,
    *data: Images,
    label_from: LabelFrom = None,
    outside: Annotated[
        str | None, Parameter(metavar="IMAGES", help="Images of other things: how well are they told from DATA?")
    ] = None,
    prior: AnotherPrior = None,
    moved: Moved = MovedOptions(),
    loading: Reads = LoadingOptions(),
    output: Reports = ReportOptions(),
) -> None:
    """Measure accuracy, calibration and confusions on labelled data.

    Of data with splits, the test split is measured on.
    """
    from yoro.model.open_model import load
    from yoro.model.store import check_output

    if output.html is not None:
        check_output(output.html, force=output.force)
    measured = given(data, label_from)
    classifier = load(model, source=moved.source, device=moved.device, calls=moved.calls)
    if output.html is None:
        evaluation = classifier.evaluate(measured, prior=prior, loading=loading, progress=not output.quiet)
    else:
        from yoro.reports.evaluation import evaluation_report

        evaluation, page = evaluation_report(
            classifier, measured, prior=prior, loading=loading, progress=not output.quiet
        )
        write_page(output.html, page, output.quiet)
    for note in evaluation.notes:
        say(note, output.quiet)
    apart = None
    if outside is not None:
        from yoro.trust.out_of_distribution import measure_outside

        apart = measure_outside(classifier, measured, outside, loading=loading, progress=not output.quiet)
    if output.as_json:
        print_json(evaluation.to_json() | ({} if apart is None else {"outside": asdict(apart)}))
    else:
        print_text(table(evaluation))
        if apart is not None:
            said = f"AUROC {apart.auroc:.4f}, {apart.fpr95:.2%} accepted where 95 % of the known are"
            print_text(f"\n{counted(apart.outside, 'image')} of other things: {said}")
    tell_calls(classifier, output.quiet)
    tell_skipped(evaluation.skipped)


def table(evaluation: Evaluation) -> str:
    """The figures as text."""
    from yoro.model.metrics import percent_text

    unseen = [] if evaluation.unseen is None else [_accuracy("accuracy, unseen", evaluation.unseen)]
    whole = {0: "accuracy", evaluation.n: "accuracy, fitted"}.get(evaluation.fitted, "accuracy, all")
    lines = [
        *unseen,
        _accuracy(whole, evaluation),
        f"balanced accuracy  {percent_text(evaluation.balanced_accuracy, 2):>7}",
        f"macro F1           {percent_text(evaluation.macro_f1, 2):>7}",
        f"log loss           {evaluation.log_loss:7.4f}",
        f"calibration error  {evaluation.calibration_error:7.2%}",
        "",
        *_classes(evaluation),
        *_confusions(evaluation),
    ]
    return "\n".join(lines)


def _accuracy(what: str, evaluation: Evaluation) -> str:
    from yoro.model.metrics import percent_text

    low, high = evaluation.interval
    bounds = f"95 %: {low:.2%} to {percent_text(high, 2)}"
    return f"{what:<17}  {percent_text(evaluation.accuracy, 2):>7}   ({bounds}, n = {evaluation.n:,})"


def _classes(evaluation: Evaluation) -> list[str]:
    worst = sorted(evaluation.per_class, key=lambda figures: (figures.f1, figures.name))
    shown = evaluation.per_class if len(worst) <= MOST_CLASSES else worst[:MOST_CLASSES]
    width = max(len("class"), *(len(figures.name) for figures in shown))
    rows = [
        f"{f.name:<{width}}  {f.n:>6}  {_percent(f.precision):>9}  {_percent(f.recall):>9}  {_percent(f.f1):>9}"
        for f in shown
    ]
    title = f"{'class':<{width}}  {'n':>6}  {'precision':>9}  {'recall':>9}  {'F1':>9}"
    cut = [] if len(shown) == len(worst) else [f"(the {MOST_CLASSES} worst of {len(worst)} classes; --json has all)"]
    return [title, *rows, *cut]


def _confusions(evaluation: Evaluation) -> list[str]:
    wrong = evaluation.confusions(MOST_CONFUSIONS)
    rows = [f"{pair.n:>6}  {pair.truth} taken for {pair.answer}" for pair in wrong]
    return ["", "most frequent mistakes", *rows] if rows else []


def _percent(share: float | None) -> str:
    from yoro.model.metrics import percent_text

    return "-" if share is None else percent_text(share)
