"""Reports of a fit and of an evaluation: what the page of `report` is filled with."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from yoro.data.decoding import decode
from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.data.streams import is_response_data
from yoro.discriminant.calibration import log_probabilities
from yoro.discriminant.leave_one_out import LeaveOneOut
from yoro.errors import ImageError
from yoro.model.classifier import Answers, Classifier, find_examples
from yoro.model.metrics import Evaluation, Tally
from yoro.model.pipeline import Reading
from yoro.model.solve import evidence
from yoro.model.store import Model
from yoro.reports.report import MOST_MISTAKES, Mistake, report_html, thumbnail

THUMBNAIL = 112


@dataclass(frozen=True)
class _Wrong:
    """A wrong answer before its picture is made."""

    probability: float
    name: str
    truth: str
    answer: str


def evaluation_report(
    classifier: Classifier, data: object, *, reading: Reading, progress: bool = False
) -> tuple[Evaluation, str]:
    """Figures on labelled data, and the page about them."""
    examples = [] if is_response_data(data) else list(find_examples(data, labelled=True))
    tally = Tally(classifier.classes)
    answers = classifier.answers(examples or data, labelled=True, progress=progress, reading=reading)
    wrong = _worst(_wrong(_tallied(answers, tally), classifier.classes))
    evaluation = tally.result()
    pictures = {example.name: example for example in examples}
    basis = f"{evaluation.n:,} labelled examples of {data}"
    page = report_html(
        f"Evaluation: {len(classifier.classes)} classes",
        evaluation,
        classifier.model.choice,
        _mistakes(wrong, pictures),
        _facts(classifier.model),
        basis=basis,
    )
    return evaluation, page


def fit_report(classifier: Classifier, data: str) -> str | None:
    """The page about a fit, by exact leave-one-out answers; None if nothing can be left out."""
    model = classifier.model
    members = model.reservoir.members() if model.reservoir is not None else None
    if not members:
        return None
    known = evidence(model.statistics, model.reservoir, model.prior, model.wording)
    left_out = LeaveOneOut(known.statistics, known.spectrum, members, prior=model.prior)
    if not len(left_out):
        return None
    scored = left_out.scores(model.choice.shrinkage)
    if known.head is not None:
        opinion = known.head(members.responses[left_out.rows])
        scored = replace(scored, scores=scored.scores + model.choice.alpha * opinion)
    digests = [entry[0] for entry in model.ledger.entries()]
    pictures = dict(zip(digests, classifier.fitted, strict=False))
    names = [members.digests[row].hex() for row in left_out.rows]
    labels = [classifier.classes[i] for i in scored.truth]
    tally = Tally(classifier.classes)
    answers = Answers(names, log_probabilities(scored.scores, model.choice.temperature), labels)
    wrong = _worst(_wrong(_tallied([answers], tally), classifier.classes))
    evaluation = tally.result()
    return report_html(
        f"Fit: {len(classifier.classes)} classes from {data}",
        evaluation,
        model.choice,
        _mistakes(wrong, {digest.hex(): example for digest, example in pictures.items()}),
        _facts(model),
        basis=f"Exact leave-one-out answers for {evaluation.n:,} of {model.statistics.total:,.0f} fitted examples",
    )


def _tallied(answers: Iterable[Answers], tally: Tally) -> Iterator[Answers]:
    for batch in answers:
        tally.update(batch.log_probabilities, batch.labels or [])
        yield batch


def _wrong(answers: Iterable[Answers], classes: tuple[str, ...]) -> Iterator[_Wrong]:
    for batch in answers:
        best = batch.log_probabilities.argmax(axis=1)
        sure = np.exp(batch.log_probabilities[np.arange(len(best)), best])
        for name, label, i, probability in zip(batch.names, batch.labels or [], best, sure, strict=True):
            if classes[i] != label:
                yield _Wrong(float(probability), name, label, classes[i])


def _worst(wrong: Iterable[_Wrong]) -> list[_Wrong]:
    """The mistakes made with most certainty."""
    return heapq.nlargest(MOST_MISTAKES, wrong, key=lambda mistake: (mistake.probability, mistake.name))


def _mistakes(wrong: list[_Wrong], pictures: dict[str, Example]) -> list[Mistake]:
    """With thumbnails; responses alone have no pictures to show."""
    mistakes = []
    for item in wrong:
        example = pictures.get(item.name)
        if example is None:
            continue
        try:
            small = thumbnail(decode(example.image, Geometry(2 * THUMBNAIL, "squash")), THUMBNAIL)
        except ImageError:  # gone or changed since it was read
            continue
        mistakes.append(Mistake(example.name, item.truth, item.answer, item.probability, small))
    return mistakes


def _facts(model: Model) -> dict[str, str]:
    facts = {
        "Source": f"{model.source.get('name')}, width {model.statistics.width}",
        "Prompt": str((model.prompt or {}).get("prompt", "none")),
        "Classes": f"{len(model.mapping.classes):,}",
        "Fitted examples": f"{model.statistics.total:,.0f}",
        "Last change": _last_change(model.history),
        "Shrinkage": f"{model.choice.shrinkage:g}, by {model.choice.rule}",
        "Temperature": f"{model.choice.temperature:.3g}",
        "Protocol": model.protocol,
    }
    return {key: value for key, value in facts.items() if value}


def _last_change(history: Sequence[Mapping[str, object]]) -> str:
    """What was done last to a model, as far as its history tells, and how many changes there were."""
    if not history:
        return ""
    forms = {"verb": "{}", "images": "{} images", "seconds": "{} s", "peak_memory_mb": "peak memory {} MB"}
    told = ", ".join(form.format(history[-1][key]) for key, form in forms.items() if key in history[-1])
    return told if len(history) == 1 else f"{told}; {len(history):,} changes so far"
