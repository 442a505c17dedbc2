"""`yoro predict`, `respond` and `evaluate`: predictions and responses for new data, and their accuracy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from yoro.cli.arguments import Data, Images, ModelPath, Pictures, given
from yoro.cli.image_output import PictureOptions, attended, find_pictures, undo
from yoro.cli.options import (
    DRY_RUN,
    LABEL_FROM,
    OTHER_PRIOR,
    FitOptions,
    LoadingOptions,
    ProtocolOption,
    RayOptions,
    ReadingOptions,
    ReportOptions,
    SentenceOptions,
    WriteOptions,
    shown,
)
from yoro.cli.output import UsageError, interruptible, print_text, resumable, tell_calls, tell_skipped
from yoro.errors import InputError, counted, percent_text
from yoro.model.question import Question
from yoro.option import option

if TYPE_CHECKING:
    from yoro.cluster.block_output import BlockOutput
    from yoro.data.examples import Dataset
    from yoro.data.roles import Rows
    from yoro.model.answers import ImageAnswer
    from yoro.model.metrics import Evaluation
    from yoro.model.open_model import OpenModel


@shown()
class RowOptions(Question):
    """What is asked about each image, and where the rows are written."""

    out: Path | None = option(None, "Write to a file instead of stdout.", metavar="FILE")
    kind: str | None = option(
        None, "csv, json, jsonl or parquet; by default as --out ends.", metavar="FORMAT", flags=("--format",)
    )
    dry_run: bool = DRY_RUN.field(False)

    @property
    def format(self) -> str:
        """The format by name, by suffix, or CSV."""
        named = self.out.suffix.removeprefix(".").lower() if self.out is not None else ""
        return self.kind or named or "csv"


def predict(
    model: ModelPath | None = None,
    /,
    *images: Pictures,
    rows: RowOptions = RowOptions(),
    pictures: PictureOptions = PictureOptions(),
    reading: ReadingOptions = ReadingOptions(),
    cluster: RayOptions = RayOptions(),
    output: WriteOptions = WriteOptions(),
) -> None:
    """Predict classes, sort images by class, or show them on a page.

    Prints path, label and probability, unless --sort-into or --html is given.
    """
    from yoro.files.rows import write_rows
    from yoro.trust.answering import ask

    if pictures.sort_into is not None and pictures.undo:
        undo(pictures.sort_into, output)
        return
    if model is None:
        raise UsageError("M.yoro is missing.")
    if rows.dry_run:
        from yoro.data.find import find
        from yoro.model.call_forecast import model_forecast

        data = given(images)
        print_text(model_forecast(model, reading.source, lambda _: [list(find(data, labelled=False))], reading))
        return
    if cluster.ray is not None:
        _predict_on_ray(model, given(images), rows, pictures, reading, _task(rows.out, cluster, reading, output))
        return
    _check_outputs(rows, pictures, output)
    data = given(images)
    found = find_pictures(data, pictures)
    classifier = reading.load(model)
    question = replace(rows, top=max(rows.top, 2)) if pictures.asked else rows  # a page shows the best two
    answerer, answers = ask(classifier, found or data, question, loading=reading, progress=not output.quiet)
    output.tell(*answers.notes, *answerer.notes)
    stream: Iterable[list[ImageAnswer]] = (list(answerer.each(batch)) for batch in answers)
    if found and pictures.asked:
        stream = attended(stream, found, classifier.model, pictures, rows.threshold, output)
    before = found.before if found else ""
    lines = (answer.row(rows.top, before=before) for batch in stream for answer in batch)
    kept = "Rows printed so far are complete; the rest was not answered."
    with interruptible(kept if rows.out is None and not pictures.asked else "Nothing was written."):
        if pictures.asked and rows.out is None and rows.kind is None:  # the images are the answer
            count = sum(1 for _ in lines)
        else:
            count = write_rows(lines, rows.format, rows.out)
    if rows.out is not None:
        output.tell(f"{rows.out}: {counted(count, 'prediction')}.")
    tell_calls(classifier, output.quiet)
    tell_skipped(answers.skipped)


def _task(out: Path | None, cluster: RayOptions, loading: LoadingOptions, output: WriteOptions) -> BlockOutput:
    """What Ray writes, and where; raises before the first image if it cannot be written."""
    from yoro.cluster.block_output import BlockOutput
    from yoro.cluster.session import need_ray

    if out is None or out.suffix.lower() not in ("", ".parquet"):
        other = "" if out is None else f", not {out.suffix}"
        raise UsageError(f"--ray writes Parquet{other}; give a folder or a .parquet file with --out.")
    need_ray()
    task = BlockOutput(out, cluster, loading, cluster.resume, not output.quiet, output.tell)
    if out.is_dir() and not output.force:
        raise UsageError(f"{out} exists; --force overwrites it.")
    if not out.is_dir():
        output.check(out)
    return task


def _predict_on_ray(
    model: Path, data: object, rows: RowOptions, pictures: PictureOptions, reading: ReadingOptions, task: BlockOutput
) -> None:
    from yoro.cluster.block_output import predict_on_ray
    from yoro.trust.answering import make_answerer

    if rows.together:
        raise UsageError("--together needs all images in one process; remove it, or --ray.")
    if pictures.asked or rows.kind not in (None, "parquet"):
        raise UsageError("--ray writes rows as Parquet; remove --sort-into, --html and --format.")
    classifier = reading.load(model)
    answerer = make_answerer(classifier, rows, loading=task.loading)
    for note in answerer.notes:
        task.tell(note)
    with resumable(task.unfinished):
        written = predict_on_ray(classifier, data, task, answerer, reading.source)
    task.tell(f"{task.out}: {counted(written.rows, 'prediction')}.")
    tell_skipped(written.skipped)


def _check_outputs(rows: RowOptions, pictures: PictureOptions, output: WriteOptions) -> None:
    """Raise before the first image if an output cannot be written."""
    from yoro.files.rows import FORMATS

    if rows.format not in FORMATS:
        raise UsageError(f"Unknown format {rows.format!r}; choose one of {', '.join(FORMATS)}.")
    if rows.format == "parquet" and rows.out is None:
        raise UsageError("Parquet cannot be printed; give a file with --out.")
    output.check(rows.out, pictures.html)


@shown("fast", "best", "shots", "refine", "ledger")
class RespondSettings(FitOptions):
    """How images are read."""

    solve: ProtocolOption = field(default_factory=ProtocolOption)
    sentences: SentenceOptions = field(default_factory=SentenceOptions)
    resume: bool = option(False, "With --ray: resume an interrupted run.", expert=True)


@shown()
class RespondOptions:
    """Which images are read."""

    split: str | None = option(None, "Read only this split of the data.", metavar="NAME")
    unlabelled: bool = option(False, "Images without labels.")
    label_from: str | None = LABEL_FROM.field(None)
    dry_run: bool = DRY_RUN.field(False)


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
        from yoro.cluster.block_output import respond_on_ray

        task = _task(out, RayOptions(**vars(settings.cluster), resume=settings.resume), settings.loading, output)
        with resumable(task.unfinished):
            written = respond_on_ray(images, task, pipeline, labelled=labelled, split=wanted.split)
        output.tell(f"{out}: {counted(written.rows, 'response')} of width {written.width} from {pipeline.source}.")
        tell_skipped(written.skipped)
        return
    if not wanted.dry_run:
        output.check(out)
    found = find(images, labelled=labelled)
    chosen = found if wanted.split is None else found.select(wanted.split)
    if wanted.dry_run:
        made, source = unasked(pipeline)
        print_text(forecast(made, source, chosen.examples, settings.loading).summary(source.config))
        return
    if settings.sentences.attributes is not None:
        pipeline = replace(pipeline, read="logits")  # which are the similarities
    made = make_pipeline(pipeline)
    stream = made.stream(chosen.examples, settings.loading)
    batches, width = stream.shown("responding", not output.quiet), made.source.width
    identity = made.origin().identity() or {}
    if settings.sentences.attributes is not None:
        texts = need_texts(made.source, "--attributes")
        words = make_encoded_bank(texts, found.classes, settings.sentences, seed=settings.solve.seed)[0]
        batches = (replace(one, responses=words.scale * one.responses @ words.vectors.T) for one in batches)
        width = len(words.vectors)
        identity["sentences"] = words.digest
    count = write_responses(out, batches, width, labelled=labelled, identity=identity)
    output.tell(*found.notes)
    output.tell(f"{out}: {counted(count, 'response')} of width {width} from {pipeline.source}.")
    output.tell(*made.asked_of())
    tell_skipped(stream.skipped)


MOST_CLASSES = 60  # rows of the table
MOST_CONFUSIONS = 10


@shown()
class EvaluateOptions:
    """What is measured."""

    label_from: str | None = LABEL_FROM.field(None)
    outside: str | None = option(
        None, "Out-of-distribution images: measure how well they are told apart from DATA.", metavar="IMAGES"
    )
    known: bool = option(False, "Leave out images of classes that the model does not know.")
    dry_run: bool = DRY_RUN.field(False)
    prior: str | None = OTHER_PRIOR.field(None)


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
    output.check(output.html)
    asked = given(data, wanted.label_from)
    if wanted.dry_run:
        from yoro.data.roles import to_measure
        from yoro.model.call_forecast import model_forecast

        cost = model_forecast(model, reading.source, lambda one: [to_measure(asked, one.mapping.classes)[0]], reading)
        print_text(cost)
        return
    from yoro.data.roles import Rows

    classifier, progress = reading.load(model), not output.quiet
    measured = _of_known_classes(asked, classifier, output) if wanted.known else asked
    if output.html is None:
        evaluation = classifier.evaluate(measured, prior=wanted.prior, loading=reading, progress=progress)
    else:
        from yoro.reports.evaluation import evaluation_report

        evaluation, page = evaluation_report(
            classifier, measured, prior=wanted.prior, loading=reading, progress=progress
        )
        output.write_page(output.html, page)
    output.tell(*evaluation.notes)
    if isinstance(measured, Rows) and (strange := len(measured) - evaluation.n) > 0:
        output.tell(f"Left out: {counted(strange, 'response')} of classes that the model does not know.")
    value, text = evaluation.to_json(), table(evaluation)
    if wanted.outside is not None:
        from yoro.trust.out_of_distribution import evaluate_detection

        apart = evaluate_detection(classifier, measured, wanted.outside, loading=reading, progress=progress)
        said = f"AUROC {apart.auroc:.4f}, FPR95 {apart.fpr95:.2%}"
        text += f"\n\n{counted(apart.outside, 'image')} out of distribution: {said}"
        value["outside"] = asdict(apart)
    output.show(value, text)
    tell_calls(classifier, output.quiet)
    tell_skipped(evaluation.skipped)


def _of_known_classes(data: object, classifier: OpenModel, output: WriteOptions) -> Dataset | Rows:
    """The labelled images, or responses, of the classes that a model knows."""
    from yoro.data.examples import listed
    from yoro.data.find import find
    from yoro.data.response_streams import is_response_data
    from yoro.data.roles import Rows

    names = classifier.names
    if is_response_data(data):
        part, notes = classifier.to_measure(data)
        assert isinstance(part, Rows)
        output.tell(*notes)
        return replace(part, classes=frozenset(names))
    found = find(data, known=names)
    kept = tuple(example for example in found if example.label in names)
    if not kept:
        raise InputError(f"The model knows none of the classes of the data: {listed(found.classes)}.")
    if len(kept) < len(found):
        strangers, many = listed([name for name in found.classes if name not in names]), len(found) - len(kept)
        output.tell(f"Left out: {counted(many, 'image')} of classes that the model does not know, {strangers}.")
    return replace(found, examples=kept)


def table(evaluation: Evaluation) -> str:
    """An evaluation as text."""
    unseen = [] if evaluation.unseen is None else [_accuracy("accuracy, unseen", evaluation.unseen)]
    whole = {0: "accuracy", evaluation.n: "accuracy, fitted"}.get(evaluation.fitted, "accuracy, all")
    wrong = [f"{pair.n:>6}  {pair.truth} predicted as {pair.answer}" for pair in evaluation.confusions(MOST_CONFUSIONS)]
    lines = [
        *unseen,
        _accuracy(whole, evaluation),
        f"balanced accuracy  {percent_text(evaluation.balanced_accuracy, 2):>7}",
        f"macro F1           {percent_text(evaluation.macro_f1, 2):>7}",
        f"log loss           {evaluation.log_loss:7.4f}",
        f"calibration error  {evaluation.calibration_error:7.2%}",
        "",
        *_classes(evaluation),
        *(["", "most frequent confusions", *wrong] if wrong else []),
    ]
    return "\n".join(lines)


def _accuracy(what: str, evaluation: Evaluation) -> str:
    low, high = evaluation.interval
    bounds = f"95 %: {low:.2%} to {percent_text(high, 2)}"
    return f"{what:<17}  {percent_text(evaluation.accuracy, 2):>7}   ({bounds}, n = {evaluation.n:,})"


def _classes(evaluation: Evaluation) -> list[str]:
    from yoro.data.examples import natural_order

    worst = sorted(evaluation.per_class, key=lambda figures: (not figures.used, figures.f1, figures.name))
    listed = sorted(evaluation.per_class, key=lambda figures: natural_order(figures.name))
    shown = listed if len(worst) <= MOST_CLASSES else worst[:MOST_CLASSES]
    width = max(len("class"), *(len(figures.name) for figures in shown))
    rows = [
        f"{f.name:<{width}}  {f.n:>6}  {_percent(f.precision):>9}  {_percent(f.recall):>9}  "
        f"{_percent(f.f1 if f.used else None):>9}"
        for f in shown
    ]
    title = f"{'class':<{width}}  {'n':>6}  {'precision':>9}  {'recall':>9}  {'F1':>9}"
    cut = [] if len(shown) == len(worst) else [f"(the worst {MOST_CLASSES} of {len(worst)} classes; --json lists all)"]
    return [title, *rows, *cut]


def _percent(share: float | None) -> str:
    return "-" if share is None else percent_text(share)
