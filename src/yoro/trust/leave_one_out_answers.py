"""Leave-one-out answers for labelled examples: exact for those that were fitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.data.find import find
from yoro.data.response_streams import Collected, collect, is_response_data, open_responses
from yoro.discriminant.calibration import log_probabilities
from yoro.discriminant.mixture import Mixture
from yoro.discriminant.reservoir import Members
from yoro.errors import InputError, counted
from yoro.mappings.batches import Array, class_codes
from yoro.model.kept_responses import responses_of
from yoro.model.ledger import Ledger
from yoro.model.model import Model
from yoro.model.open_model import OpenModel
from yoro.model.settings import USUAL, Loading


@dataclass(frozen=True)
class LeftOutExamples:
    """Labelled examples, and their leave-one-out log-probabilities (n, classes)."""

    examples: Collected = field(repr=False)
    classes: tuple[str, ...]
    log_probabilities: Array = field(repr=False)
    fitted: NDArray[np.bool_] = field(repr=False)  # (n,) which of them the model was fitted on
    pictures: Mapping[str, Example] = field(repr=False)  # by name; none of responses
    notes: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def truth(self) -> NDArray[np.intp]:
        """The class of each, as an index into the classes (n,)."""
        return class_codes(self.examples.labels.tolist(), self.classes)


def left_out(
    classifier: OpenModel, data: object, *, loading: Loading = USUAL, progress: bool = False
) -> LeftOutExamples:
    """Leave-one-out answers for labelled data; what was not fitted is classified as it is.

    Stored responses are taken from the model; other images are read again. An image that was fitted under another label
    than the data's counts under the fitted one. An example that is alone in its class has no answer.
    """
    model = classifier.model
    if model.statistics.total == 0:
        raise InputError("This model was not fitted on any image, so there are no leave-one-out answers.")
    pictures, skipped = dict[str, Example](), list[tuple[str, str]]()
    if is_response_data(data):
        examples = collect(open_responses(data, labelled=True), "reading", progress=progress)  # type: ignore[arg-type]
    else:
        found = find(data, known=classifier.names)
        pictures = {example.name: example for example in found}
        examples, skipped = responses_of(classifier, found.examples, loading, progress=progress)
    examples, fitted, notes = _as_fitted(examples, model.ledger)
    stray = sorted(set(examples.labels.tolist()) - set(classifier.names))
    if stray:
        raise InputError(f"Unknown class {stray[0]!r}; the model's classes are {', '.join(classifier.names[:8])}.")
    logs, answered = _answers(model, examples, fitted)
    if not answered.all():
        notes.append(f"{counted((~answered).sum(), 'example')} alone in a class: no leave-one-out answer.")
    return LeftOutExamples(
        examples.take(np.flatnonzero(answered)), classifier.names, logs[answered], fitted[answered], pictures,
        tuple(notes), tuple(skipped),
    )  # fmt: skip


def members_of(examples: Collected) -> Members:
    """Examples as members that can be left out."""
    groups = np.array(examples.groups, dtype=np.str_)
    return Members(examples.responses, examples.labels, groups, np.ones(len(examples)), examples.digests)


def over(mixture: Mixture, members: Members) -> Mixture:
    """The same evidence with other individual responses to leave out."""
    parts = [replace(members, responses=members.responses[:, part]) for part in mixture.layout.slices]
    own = zip(mixture.evidences, parts, strict=True)
    return replace(mixture, evidences=tuple(replace(evidence, members=part) for evidence, part in own))


def _as_fitted(examples: Collected, ledger: Ledger) -> tuple[Collected, NDArray[np.bool_], list[str]]:
    """Examples under the labels they were fitted with, and which were fitted."""
    known: dict[bytes, set[str]] = defaultdict(set)
    for content, label in ledger.entries():
        known[content].add(label)
    labels, moved = examples.labels.tolist(), 0
    for i, (content, label) in enumerate(zip(examples.digests, examples.labels.tolist(), strict=True)):
        if known[content] and label not in known[content]:
            labels[i], moved = min(known[content]), moved + 1
    fitted = np.array([bool(known[content]) for content in examples.digests], dtype=bool)
    notes = []
    if moved:
        notes.append(f"{counted(moved, 'image')} fitted under another label than here: the fitted label counts.")
    if not len(ledger):
        notes.append("This model stores no image hashes, so nothing is left out and the answers are optimistic.")
    elif not fitted.all():
        notes.append(f"{counted((~fitted).sum(), 'image')} not in the model: judged by the model as it is.")
    return replace(examples, labels=np.array(labels, dtype=np.str_)), fitted, notes


def _answers(model: Model, examples: Collected, fitted: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
    """Log-probabilities (n, classes), and which rows have any."""
    scores = model.mapping(examples.responses)
    answered = ~fitted
    rows = np.flatnonzero(fitted)
    if len(rows):
        found = over(model.evidence(), members_of(examples.take(rows))).left_out(model.choice, every=True)
        if found is not None:
            scored, which = found
            scores[rows[which]], answered[rows[which]] = scored.scores, True
    return log_probabilities(scores, model.choice.temperature), answered
