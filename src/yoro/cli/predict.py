"""`yoro predict`, `respond` and `evaluate`: predictions and responses for new data, and their accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.image_output import PictureOptions, attended, find_pictures, undo
from yoro.cli.options import (
    DRY_RUN,
    LABEL_FROM,
    OTHER_PRIOR,
    Data,
    FitOptions,
    Images,
    LoadingOptions,
    ModelPath,
    Pictures,
    RayOptions,
    ReadingOptions,
    ReportOptions,
    SeedOption,
    SentenceOptions,
    UsageError,
    WriteOptions,
    given,
    shown,
)
from yoro.cli.output import print_json, print_text, say, tell_calls, tell_skipped, write_page
from yoro.errors import counted, did_you_mean
from yoro.option import Option

if TYPE_CHECKING:
    from yoro.cluster.answering import Task
    from yoro.data.responses import ResponseBatch
    from yoro.model.answer_rows import Wanted
    from yoro.model.classifier import Answers, Classifier
    from yoro.model.metrics import Evaluation
    from yoro.text.encoded_bank import EncodedBank


@shown()
@dataclass(frozen=True)
class RowOptions:
    """What rows are written, and where to."""

    out: Annotated[Path | None, Option("Write to a file instead of stdout.", metavar="FILE")] = None
    kind: Annotated[
        str | None,
        Option("File format; by default that of --out, or csv.", metavar="csv|json|jsonl|parquet", flags=("--format",)),
    ] = None
    top: Annotated[int, Option("Output the K best classes.", metavar="K")] = 1
    threshold: Annotated[float, Option("Give no label below this probability.", metavar="P")] = 0.0
    unknown: Annotated[
        float,
        Option("Reject out-of-distribution images; S is the fraction of training images rejected.", metavar="S"),
    ] = 0.0
    coverage: Annotated[
        float | None, Option("Also output a conformal prediction set with coverage C.", metavar="C")
    ] = None
    calibrate: Annotated[
        str | None,
        Option("With --coverage: labelled data for calibration, not used in the fit.", metavar="DATA", expert=True),
    ] = None
    sets_by: Annotated[
        str,
        Option(
            "With --coverage: how the sets are computed; full is exact but slow.",
            metavar="leave-one-out|jackknife+|full",
            expert=True,
        ),
    ] = "leave-one-out"
    allow_empty: Annotated[bool, Option("With --coverage: allow empty sets.", expert=True)] = False
    prior: Annotated[str | None, OTHER_PRIOR] = None

    @property
    def format(self) -> str:
        """The format by name, by suffix, or CSV."""
        named = self.out.suffix.removeprefix(".").lower() if self.out is not None else ""
        return self.kind or named or "csv"

    def wanted(self, before: str) -> Wanted:
        """What a row holds; `before` stands before a name so that the file can be found from here."""
        from yoro.model.answer_rows import Wanted

        return Wanted(self.top, self.threshold, before, as_text=self.format == "csv")


def predict(
    model: ModelPath,
    /,
    *images: Pictures,
    rows: RowOptions = RowOptions(),
    pictures: PictureOptions = PictureOptions(),
    reading: ReadingOptions = ReadingOptions(),
    cluster: RayOptions = RayOptions(),
    output: WriteOptions = WriteOptions(),
) -> None:
    """Predict classes, sort images by class, or show them on a page.

    Prints one row per image with path, label and probability, unless --sort-into or --html asks for the images.
    """
    from yoro.files.rows import write_rows
    from yoro.model.answer_rows import answer_rows
    from yoro.model.priors import parse_prior

    if pictures.undo:
        undo(pictures.sort_into, output.quiet)
        return
    if cluster.ray is not None:
        _predict_on_ray(model, given(images), rows, pictures, reading, _task(rows.out, cluster, reading, output))
        return
    _check(rows, pictures, output)
    data = given(images)
    found = find_pictures(data, pictures)
    classifier = reading.load(model)
    prior = parse_prior(rows.prior)
    answers = classifier.answers(found or data, prior=prior, loading=reading, progress=not output.quiet)
    for note in answers.notes:
        say(note, output.quiet)
    stream = iter(answers)
    if rows.unknown:
        from yoro.trust.out_of_distribution import with_typicality

        stream = with_typicality(stream, classifier.model, rows.unknown)
    if rows.coverage is not None:
        stream = with_sets(stream, classifier, rows, reading, output.quiet)
    if found and pictures.asked:
        stream = attended(stream, found, classifier, pictures, rows.threshold, output.quiet)
    lines = answer_rows(stream, classifier.classes, rows.wanted(found.before if found else ""))
    if pictures.asked and rows.out is None and rows.kind is None:  # the images are the answer
        count = sum(1 for _ in lines)
    else:
        count = write_rows(lines, rows.format, rows.out)
    if rows.out is not None:
        say(f"{rows.out}: {counted(count, 'prediction')}.", output.quiet)
    tell_calls(classifier, output.quiet)
    tell_skipped(answers.skipped)


def _task(out: Path | None, cluster: RayOptions, loading: LoadingOptions, output: WriteOptions) -> Task:
    """What Ray writes, and where; raises before the first image is read if it cannot be written."""
    from yoro.cluster.answering import Task
    from yoro.cluster.session import need_ray

    if out is None:
        raise UsageError("--ray writes Parquet; give a folder or a .parquet file with --out.")
    if out.suffix.lower() not in ("", ".parquet"):
        raise UsageError(f"--ray writes Parquet, not {out.suffix}; give a folder or a .parquet file with --out.")
    need_ray()
    task = Task(out, cluster, loading, cluster.resume, not output.quiet, output.tell)
    if out.is_dir() and not output.force:
        raise UsageError(f"{out} exists; --force overwrites it.")
    if not out.is_dir():
        output.check(out)
    return task


def _predict_on_ray(
    model: Path, data: object, rows: RowOptions, pictures: PictureOptions, reading: ReadingOptions, task: Task
) -> None:
    from yoro.cluster.answering import predict_on_ray
    from yoro.cluster.tables import Answering
    from yoro.model.priors import parse_prior

    if pictures.asked or rows.coverage is not None or rows.kind not in (None, "parquet"):
        raise UsageError("--ray writes rows as Parquet; remove --sort-into, --html, --coverage and --format.")
    classifier = reading.load(model)
    work = Answering(classifier.model, rows.wanted(""), rows.unknown, parse_prior(rows.prior))
    with _resumable(task):
        written = predict_on_ray(classifier, data, task, work, reading.source)
    task.tell(f"{task.out}: {counted(written.rows, 'prediction')}.")
    tell_skipped(written.skipped)


@contextmanager
def _resumable(task: Task) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        kept = "Resume with --resume." if task.unfinished.exists() else ""
        raise KeyboardInterrupt(f"interrupted. {kept}") from None


def _check(rows: RowOptions, pictures: PictureOptions, output: WriteOptions) -> None:
    """Raise for what cannot be meant or written, before the first image is read."""
    from yoro.files.rows import FORMATS
    from yoro.model.store import check_output
    from yoro.trust.conformal_sets import WAYS

    if rows.format not in FORMATS:
        raise UsageError(f"{rows.format!r} is no format; expected one of {', '.join(FORMATS)}.")
    if rows.format == "parquet" and rows.out is None:
        raise UsageError("Parquet cannot be shown; give a file with --out.")
    if rows.top < 1:
        raise UsageError(f"The {rows.top} best classes were asked for; expected --top 1 or more.")
    if not 0.0 <= rows.threshold <= 1.0:
        raise UsageError(f"The threshold is {rows.threshold:g}; expected a probability from 0 to 1.")
    if not 0.0 <= rows.unknown < 1.0:
        raise UsageError(f"The share of --unknown is {rows.unknown:g}; expected a number from 0 to 1, such as 0.05.")
    if rows.calibrate is not None and rows.coverage is None:
        raise UsageError("--calibrate goes with --coverage.")
    if rows.sets_by not in WAYS:
        raise UsageError(f"Sets by {rows.sets_by!r} are not known; {did_you_mean(rows.sets_by, WAYS)}")
    if rows.prior is not None and rows.coverage is not None:
        raise UsageError("--coverage holds for the prior of the fit; leave --prior or --coverage out.")
    if rows.coverage is not None and not 0.0 < rows.coverage < 1.0:
        raise UsageError(f"The coverage is {rows.coverage:g}; expected a share between 0 and 1, such as 0.9.")
    if pictures.link and pictures.sort_into is None:
        raise UsageError("--link goes with --sort-into FOLDER.")
    for file in (rows.out, pictures.html):
        if file is not None:
            check_output(file, force=output.force)


def with_sets(
    answers: Iterable[Answers], classifier: Classifier, rows: RowOptions, loading: LoadingOptions, quiet: bool
) -> Iterator[Answers]:
    """The answers, with the labels that may be right."""
    from yoro.trust.conformal_sets import held_out_sets, left_out_sets

    coverage = rows.coverage or 0.0
    if rows.calibrate is None:
        sets = left_out_sets(classifier.model, coverage, rows.sets_by, empty=rows.allow_empty)
    else:
        sets = held_out_sets(classifier, rows.calibrate, coverage, empty=rows.allow_empty, loading=loading)
    if sets.everything:
        say(f"{counted(sets.n, 'example')} cannot tell a coverage of {coverage:g}: every set holds all classes.", quiet)
    for batch in answers:
        assert batch.responses is not None
        yield replace(batch, sets=sets(batch.responses, batch.log_probabilities))


@shown("fast", "best", "shots", "refine", "ledger")
@dataclass(frozen=True)
class RespondSettings(FitOptions):
    """How images are read."""

    solve: SeedOption = field(default_factory=SeedOption)
    sentences: SentenceOptions = field(default_factory=SentenceOptions)
    resume: Annotated[bool, Option("With --ray: resume an interrupted run.")] = False


@shown()
@dataclass(frozen=True)
class RespondOptions:
    """Which images are read."""

    split: Annotated[str | None, Option("Read only this split of the data.", metavar="NAME")] = None
    unlabelled: Annotated[bool, Option("Images without labels.")] = False
    label_from: Annotated[str | None, LABEL_FROM] = None
    dry_run: Annotated[bool, DRY_RUN] = False


def respond(
    *data: Data,
    out: Annotated[Path, Parameter(metavar="Z.npz", help="Where to write the responses.")],
    wanted: RespondOptions = RespondOptions(),
    settings: RespondSettings = RespondSettings(),
    output: WriteOptions = WriteOptions(),
) -> None:
    """Save a backbone's responses; every verb accepts them as data.

    With --attributes, the responses of an image-text backbone are similarities to the sentences, not image vectors.
    """
    from yoro.data.find import find
    from yoro.data.responses import write_responses
    from yoro.model.call_forecast import forecast, unasked
    from yoro.model.pipeline import make_pipeline
    from yoro.text.encoded_bank import make_encoded_bank, need_texts

    images, labelled, pipeline = given(data, wanted.label_from), not wanted.unlabelled, settings.pipeline
    if settings.cluster.ray is not None:
        if settings.sentences.attributes is not None:
            raise UsageError("--ray writes the image vectors of an image-text backbone; remove --attributes.")
        task = _task(out, RayOptions(**vars(settings.cluster), resume=settings.resume), settings.loading, output)
        _respond_on_ray(images, settings, task, labelled=labelled, split=wanted.split)
        return
    if not wanted.dry_run:
        output.check(out)
    found = find(images, labelled=labelled)
    chosen = found if wanted.split is None else found.select(wanted.split)
    if wanted.dry_run:
        made, source = unasked(pipeline)
        print_text(forecast(made, source, chosen.examples, settings.loading).spoken(source.config))
        return
    made = make_pipeline(pipeline)
    stream = made.stream(chosen.examples, settings.loading)
    batches, width = stream.shown("responding", not output.quiet), made.source.width
    identity = made.origin().identity() or {}
    if settings.sentences.attributes is not None:
        texts = need_texts(made.source, "--attributes")
        words = make_encoded_bank(texts, found.classes, settings.sentences, seed=settings.solve.seed)[0]
        batches, width = _similarities(batches, words), len(words.vectors)
        identity["sentences"] = words.digest
    count = write_responses(out, batches, width, labelled=labelled, identity=identity)
    for note in found.notes:
        say(note, output.quiet)
    say(f"{out}: {counted(count, 'response')} of width {width} from {pipeline.source}.", output.quiet)
    for sentence in made.asked_of():
        say(sentence, output.quiet)
    tell_skipped(stream.skipped)


def _respond_on_ray(data: object, settings: FitOptions, task: Task, *, labelled: bool, split: str | None) -> None:
    from yoro.cluster.answering import respond_on_ray

    with _resumable(task):
        written = respond_on_ray(data, task, settings.pipeline, labelled=labelled, split=split)
    counts = f"{counted(written.rows, 'response')} of width {written.width}"
    task.tell(f"{task.out}: {counts} from {settings.pipeline.source}.")
    tell_skipped(written.skipped)


def _similarities(batches: Iterable[ResponseBatch], words: EncodedBank) -> Iterator[ResponseBatch]:
    """Image vectors as the responses of an image-text model: its scale times the similarity to each sentence."""
    for batch in batches:
        yield replace(batch, responses=words.scale * batch.responses @ words.vectors.T)


MOST_CLASSES = 60  # rows of the table
MOST_CONFUSIONS = 10


@shown()
@dataclass(frozen=True)
class EvaluateOptions:
    """What is measured."""

    label_from: Annotated[str | None, LABEL_FROM] = None
    outside: Annotated[
        str | None,
        Option("Out-of-distribution images: measure how well they are told apart from DATA.", metavar="IMAGES"),
    ] = None
    prior: Annotated[str | None, OTHER_PRIOR] = None


def evaluate(
    model: ModelPath,
    /,
    *data: Images,
    wanted: EvaluateOptions = EvaluateOptions(),
    reading: ReadingOptions = ReadingOptions(),
    output: ReportOptions = ReportOptions(),
) -> None:
    """Measure accuracy, calibration and confusions on labelled data.

    If the data have splits, the test split is used.
    """
    from yoro.model.priors import parse_prior

    by = parse_prior(wanted.prior)
    output.check(output.html)
    measured = given(data, wanted.label_from)
    classifier = reading.load(model)
    if output.html is None:
        evaluation = classifier.evaluate(measured, prior=by, loading=reading, progress=not output.quiet)
    else:
        from yoro.reports.evaluation import evaluation_report

        evaluation, page = evaluation_report(classifier, measured, prior=by, loading=reading, progress=not output.quiet)
        write_page(output.html, page, output.quiet)
    for note in evaluation.notes:
        say(note, output.quiet)
    apart = None
    if wanted.outside is not None:
        from yoro.trust.out_of_distribution import measure_outside

        apart = measure_outside(classifier, measured, wanted.outside, loading=reading, progress=not output.quiet)
    if output.as_json:
        print_json(evaluation.to_json() | ({} if apart is None else {"outside": asdict(apart)}))
    else:
        print_text(table(evaluation))
        if apart is not None:
            said = f"AUROC {apart.auroc:.4f}, FPR95 {apart.fpr95:.2%}"
            print_text(f"\n{counted(apart.outside, 'image')} out of distribution: {said}")
    tell_calls(classifier, output.quiet)
    tell_skipped(evaluation.skipped)


def table(evaluation: Evaluation) -> str:
    """An evaluation as text."""
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
    cut = [] if len(shown) == len(worst) else [f"(the worst {MOST_CLASSES} of {len(worst)} classes; --json lists all)"]
    return [title, *rows, *cut]


def _confusions(evaluation: Evaluation) -> list[str]:
    wrong = evaluation.confusions(MOST_CONFUSIONS)
    rows = [f"{pair.n:>6}  {pair.truth} predicted as {pair.answer}" for pair in wrong]
    return ["", "most frequent confusions", *rows] if rows else []


def _percent(share: float | None) -> str:
    from yoro.model.metrics import percent_text

    return "-" if share is None else percent_text(share)
