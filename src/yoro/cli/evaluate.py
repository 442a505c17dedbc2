"""`yoro evaluate`: how good a model is on labelled data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yoro.cli.options import Data, LoadingOptions, ModelPath, Moved, MovedOptions, Reads, ReportOptions, Reports
from yoro.cli.output import print_json, say, tell_skipped, write_page

if TYPE_CHECKING:
    from yoro.model.metrics import Evaluation

MOST_CLASSES = 60  # of which a table in a terminal is still read
MOST_CONFUSIONS = 10


def evaluate(
    model: ModelPath,
    data: Data,
    /,
    *,
    moved: Moved = MovedOptions(),
    loading: Reads = LoadingOptions(),
    output: Reports = ReportOptions(),
) -> None:
    """Accuracy, calibration, per-class figures and confusions on labelled data (of a split folder, its test split)."""
    from yoro.model.classifier import load
    from yoro.model.store import refuse_existing

    if output.html is not None:
        refuse_existing(output.html, force=output.force)
    classifier = load(model, source=moved.source, device=moved.device)
    if output.html is None:
        evaluation = classifier.evaluate(data, loading=loading, progress=not output.quiet)
    else:
        from yoro.reports.evaluation import evaluation_report

        evaluation, page = evaluation_report(classifier, data, loading=loading, progress=not output.quiet)
        write_page(output.html, page, output.quiet)
    for note in evaluation.notes:
        say(note, output.quiet)
    if output.as_json:
        print_json(evaluation.to_json())
    else:
        print(table(evaluation))
    tell_skipped(evaluation.skipped)


def table(evaluation: Evaluation) -> str:
    """The figures as text."""
    low, high = evaluation.interval
    lines = [
        f"accuracy           {evaluation.accuracy:7.2%}   (95 %: {low:.2%} to {high:.2%}, n = {evaluation.n:,})",
        f"balanced accuracy  {evaluation.balanced_accuracy:7.2%}",
        f"macro F1           {evaluation.macro_f1:7.2%}",
        f"log loss           {evaluation.log_loss:7.4f}",
        f"calibration error  {evaluation.calibration_error:7.2%}",
        "",
        *_classes(evaluation),
        *_confusions(evaluation),
    ]
    return "\n".join(lines)


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
    names = [figures.name for figures in evaluation.per_class]
    wrong = [
        (count, names[i], names[j])
        for i, row in enumerate(evaluation.confusion)
        for j, count in enumerate(row)
        if i != j and count
    ]
    wrong.sort(key=lambda item: (-item[0], item[1:]))
    rows = [f"{count:>6}  {true} taken for {answer}" for count, true, answer in wrong[:MOST_CONFUSIONS]]
    return ["", "most frequent mistakes", *rows] if rows else []


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.1%}"
