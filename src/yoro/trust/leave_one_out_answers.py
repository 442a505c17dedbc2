"""What a model says of labelled examples, each without itself: exact leave-one-out for what was fitted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from yoro.data.decoding import digest
from yoro.data.examples import Example
from yoro.data.find import find
from yoro.data.response_streams import Collected, collect, is_response_data, open_responses
from yoro.discriminant.calibration import log_probabilities
from yoro.discriminant.mixture import Mixture
from yoro.discriminant.reservoir import Members
from yoro.errors import InputError, counted
from yoro.mappings.batches import class_codes
from yoro.model.ledger import Ledger
from yoro.model.model import Model
from yoro.model.open_model import OpenModel
from yoro.model.settings import HERE, Loading

Array = NDArray[np.float64]


@dataclass(frozen=True)
class LeftOutExamples:
    """Labelled examples, and log-probabilities (n, classes) by the model without each of them."""

    examples: Collected
    classes: tuple[str, ...]
    log_probabilities: Array
    fitted: NDArray[np.bool_]  # (n,) which of them the model was fitted on
    pictures: Mapping[str, Example]  # by name; none of responses
    notes: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def truth(self) -> NDArray[np.intp]:
        """The class of each, as an index into the classes (n,)."""
        return class_codes(self.examples.labels.tolist(), self.classes)


def left_out(
    classifier: OpenModel, data: object, *, loading: Loading = HERE, progress: bool = False
) -> LeftOutExamples:
    """Answers for labelled data: what was fitted is left out, exactly; what was not is answered as it is.

    Responses that the model keeps are taken from it; other images are read again. An image that was fitted under
    another label than the data's counts under the fitted one. Those that are alone in their class have no answer.
    """
    model = classifier.model
    if model.statistics.total == 0:
        raise InputError("This model was fitted on no image, so there is nothing to leave out.")
    pictures, skipped = dict[str, Example](), list[tuple[str, str]]()
    if is_response_data(data):
        examples = collect(open_responses(data, labelled=True), "reading", progress=progress)  # type: ignore[arg-type]
    else:
        found = find(data, known=classifier.names)
        pictures = {example.name: example for example in found}
        examples, skipped = _responses(classifier, found.examples, loading, progress)
    examples, fitted, notes = _as_fitted(examples, model.ledger)
    stray = sorted(set(examples.labels.tolist()) - set(classifier.names))
    if stray:
        raise InputError(f"{stray[0]!r} is no class of this model; its classes are {', '.join(classifier.names[:8])}.")
    logs, answered = _answers(model, examples, fitted)
    if not answered.all():
        notes.append(f"{counted((~answered).sum(), 'example')} alone in a class: without it there is no such class.")
    return LeftOutExamples(
        examples.take(np.flatnonzero(answered)),
        classifier.names,
        logs[answered],
        fitted[answered],
        pictures,
        tuple(notes),
        tuple(skipped),
    )


def members_of(examples: Collected) -> Members:
    """Examples as individual responses that can be left out."""
    groups = np.array(examples.groups, dtype=np.str_)
    return Members(examples.responses, examples.labels, groups, np.ones(len(examples)), examples.digests)


def over(mixture: Mixture, members: Members) -> Mixture:
    """The same evidence with other individual responses to leave out."""
    parts = [members.responses[:, part] for part in mixture.layout.slices]
    return replace(
        mixture,
        evidences=tuple(
            replace(evidence, members=replace(members, responses=part))
            for evidence, part in zip(mixture.evidences, parts, strict=True)
        ),
    )


def _responses(
    classifier: OpenModel, examples: Sequence[Example], loading: Loading, progress: bool
) -> tuple[Collected, list[tuple[str, str]]]:
    """The responses of images, in their order: those kept in the model, and the others read again."""
    members = classifier.model.members()
    kept = {content: row for row, content in enumerate(members.digests)} if members else {}
    contents = [_digest(example) for example in examples]
    rest = [example for example, content in zip(examples, contents, strict=True) if content not in kept]
    read, skipped = Collected(np.empty((0, 0)), np.empty(0, dtype=np.str_), (), (), ()), list[tuple[str, str]]()
    if rest:
        stream = classifier.pipeline.stream(rest, loading)
        read, skipped = collect(stream, "reading", progress=progress), stream.skipped
    again = {name: row for row, name in enumerate(read.names)}
    there = [i for i, (e, c) in enumerate(zip(examples, contents, strict=True)) if c in kept or e.name in again]
    rows = [
        members.responses[kept[contents[i]]]
        if members and contents[i] in kept
        else read.responses[again[examples[i].name]]
        for i in there
    ]
    return Collected(
        np.stack(rows) if rows else np.empty((0, classifier.model.statistics.width)),
        np.array([examples[i].label or "" for i in there], dtype=np.str_),
        tuple(examples[i].group or "" for i in there),
        tuple(examples[i].name for i in there),
        tuple(contents[i] if contents[i] in kept else read.digests[again[examples[i].name]] for i in there),
    ), skipped


def _digest(example: Example) -> bytes:
    """The content of an image; of one that cannot be had, nothing: it is named when it is read."""
    try:
        return bytes.fromhex(digest(example.image))
    except Exception:  # as in decoding: whatever is wrong with a stranger's file
        return b""


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
        notes.append(f"{counted(moved, 'image')} fitted under another label than here: the fitted one counts.")
    if not len(ledger):
        notes.append("This model keeps no list of what was fitted: nothing is left out, which flatters the answers.")
    elif not fitted.all():
        notes.append(f"{counted((~fitted).sum(), 'image')} not fitted: answered by the whole model.")
    return replace(examples, labels=np.array(labels, dtype=np.str_)), fitted, notes


def _answers(model: Model, examples: Collected, fitted: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
    """Log-probabilities (n, classes), and which rows have any."""
    scores = model.mapping(examples.responses)
    answered = ~fitted
    rows = np.flatnonzero(fitted)
    if len(rows):
        found = over(model.evidence(), members_of(examples.take(rows))).left_out(model.choice)
        if found is not None:
            scored, which = found
            scores[rows[which]], answered[rows[which]] = scored.scores, True
    return log_probabilities(scores, model.choice.temperature), answered
