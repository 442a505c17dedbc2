"""OpenModel: a model with the network that reads images for it, which is opened when it is first needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro import limits
from yoro.data.examples import class_name, listed
from yoro.data.python_data import joined
from yoro.data.response_streams import ResponseStream, identity_of, is_response_data
from yoro.data.responses import ResponseBatch
from yoro.data.roles import Part, Rows, to_change, to_measure
from yoro.discriminant.calibration import Prior
from yoro.errors import InputError, StatisticsError, counted
from yoro.files.result_view import Result, Table
from yoro.model.answers import Answers, log_answers
from yoro.model.gathered import Gathered
from yoro.model.ledger import Entry
from yoro.model.metrics import Evaluation, Measure, refuse_strangers
from yoro.model.model import LEFT_OUT, Model, Verb, difference
from yoro.model.one_pass import add_pile, gather, pile_notes, unlabelled_stream, waiting
from yoro.model.pipeline import Pipeline, reopen_pipeline
from yoro.model.priors import prior_shift
from yoro.model.settings import USUAL, Loading, SolveSettings
from yoro.model.shards import PARTS, parts_of, refuse_twice
from yoro.model.solve import settings_of, solve
from yoro.model.store import read_model, write_model
from yoro.model.unlearning_receipt import Receipt, digest_of, make_receipt
from yoro.sources.protocol import FREE, Calls
from yoro.text.encoded_bank import EncodedBank, extended, need_texts
from yoro.text.settings import Attributes

Skipped = list[tuple[str, str]]  # names of images that could not be read, and why


@dataclass(frozen=True)
class AnswerStream:
    """Answers batch by batch, so that memory does not grow with the data; they can be traversed once."""

    model: Model
    stream: ResponseStream
    notes: Sequence[str] = ()  # what a user may want to know before the answers
    labelled: bool = False
    progress: bool = False
    prior: Prior | None = None

    def __post_init__(self) -> None:
        prior_shift(self.model, self.prior)  # refuses one that does not fit, before anything is read

    @property
    def skipped(self) -> Skipped:
        """What could not be read so far, and why."""
        return self.stream.skipped

    def __iter__(self) -> Iterator[Answers]:
        what, shift = "evaluating" if self.labelled else "predicting", prior_shift(self.model, self.prior)
        for batch in self.stream.shown(what, self.progress):
            logs = log_answers(self.model, batch.responses, shift)
            labels = batch.labels if self.labelled else None
            yield Answers(batch.names, logs, labels, batch.digests, batch.responses)


@dataclass(frozen=True, repr=False)
class Change(Result):
    """The result of a change: notes for the user, and what could not be read."""

    notes: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    receipt: Receipt | None = None  # of what was forgotten
    told: str = "Done."  # how many examples and classes there are now

    def headline(self) -> str:
        forgotten = "" if self.receipt is None else f" {self.receipt.headline()}"
        unread = f" {counted(len(self.skipped), 'image')} could not be read." if self.skipped else ""
        return f"{' '.join((self.told, *self.notes))}{forgotten}{unread}"

    def tables(self) -> list[Table]:
        """The notes, and what could not be read."""
        notes = Table([{"note": note} for note in self.notes])
        return [notes, Table([{"path": name, "reason": why} for name, why in self.skipped], "Not read")]


def tell_nobody(_: Change | Evaluation) -> None:
    """Ignore the outcome; the caller reads it from the return value."""


def load(path: str | Path, *, source: str | None = None, device: str = "auto", calls: Calls = FREE) -> OpenModel:
    """Load a saved classifier; nothing in it is executed.

    `source` is the location of the backbone, if it has moved, and is needed for a backbone that
    runs code (`callable:...`) or calls a host. `calls` limits the calls to it.
    """
    return OpenModel(read_model(path), source=source, device=device, calls=calls)


class OpenModel:
    """A model, and the network that reads images for it.

    Statistics are kept, so that data can be added, merged and taken back exactly. Data are a folder, a list file,
    images in memory, or responses: a response file or an array; labels may also come as a second argument.
    `tell` gets the outcome of each verb, with its notes and the images that could not be read.
    """

    def __init__(
        self, model: Model, *, pipeline: Pipeline | None = None, source: str | None = None, device: str = "auto",
        calls: Calls = FREE, tell: Callable[[Change | Evaluation], None] = tell_nobody,
    ) -> None:  # fmt: skip
        self._model, self._pipeline = model, pipeline
        self._source, self._device, self._calls, self._tell = source, device, calls, tell

    @property
    def names(self) -> tuple[str, ...]:
        """The classes as text, in the order of the columns of `answers`."""
        return self._model.mapping.classes

    @property
    def model(self) -> Model:
        """The model: everything that the classifier is made of."""
        return self._model

    @property
    def pipeline(self) -> Pipeline:
        """How images become responses; opened when first used."""
        if self._pipeline is None:
            self._pipeline = reopen_pipeline(self._model.origin, self._source, device=self._device, calls=self._calls)
        return self._pipeline

    @property
    def answering(self) -> Pipeline:
        """The pipeline with only those networks that the answers depend on."""
        return self.pipeline.only(self._model.answering)

    @property
    def opened(self) -> Pipeline | None:
        """The pipeline, if it is open; else None."""
        return self._pipeline

    def answers(
        self, data: object, *, prior: Prior | None = None, loading: Loading = USUAL, progress: bool = False
    ) -> AnswerStream:
        """Log probabilities of images without labels, or whose labels are not read."""
        stream, notes = self._unlabelled(data, loading, whole=False)
        return AnswerStream(self._model, stream, notes, progress=progress, prior=prior)

    def together(
        self, data: object, *, prior: Prior | None = None, loading: Loading = USUAL, progress: bool = False
    ) -> tuple[OpenModel, AnswerStream]:
        """Answer images together, after learning from them as unlabelled images; this model does not change.

        Returns the model that answers, which knows the images, and its answers. Their responses are held in memory.
        """
        stream, notes = self._unlabelled(data, loading)
        batches = list(stream.shown("reading", progress))
        with waiting("solving", progress):
            taught = self.with_unlabelled(batches)
        again = ResponseStream(lambda _: iter(batches), sum(map(len, batches)))
        again.skipped = stream.skipped
        return taught, AnswerStream(taught.model, again, [*notes, *pile_notes(taught.model)], prior=prior)

    def with_unlabelled(self, batches: Sequence[ResponseBatch]) -> OpenModel:
        """A model that also learns from these unlabelled responses; this one does not change."""
        count = sum(map(len, batches))
        if count > limits.TOGETHER_IMAGES:
            raise InputError(f"{count:,} images cannot be answered together; the limit is {limits.TOGETHER_IMAGES:,}.")
        gathered = self._model.gathered.copy()
        settings, _ = settings_of(self._model, gathered)
        gathered.add_unlabelled(batches, settings.reservoir or SolveSettings.reservoir, settings.seed)
        taught = OpenModel(self._model, pipeline=self._pipeline, source=self._source, device=self._device)
        taught._settle(gathered, self._verb("predict"), [])
        return taught

    def evaluate(
        self, data: object, labels: object = None, *, prior: Prior | None = None, loading: Loading = USUAL,
        progress: bool = False,
    ) -> Evaluation:  # fmt: skip
        """Accuracy and other figures on labelled data; if they have splits, on the test split.

        `prior` replaces the class prior of the fit: "empirical", "uniform", or a share for each class.
        """
        part, notes = self.to_measure(joined(data, labels))
        answers, measure = self.measured(part, prior=prior, loading=loading, progress=progress), Measure(self.names)
        for batch in answers:
            measure.update(batch.log_probabilities, batch.labels or [], self.fitted(batch.digests))
        result = measure.result()
        result = replace(result, skipped=tuple(answers.skipped), notes=(*result.notes, *notes))
        self._tell(result)
        return result

    def fitted(self, digests: Sequence[bytes]) -> NDArray[np.bool_]:
        """Whether each image hash was fitted, under any label."""
        return np.array(self._model.ledger.holds(digests), dtype=bool)

    def to_measure(self, data: object) -> tuple[Part, list[str]]:
        """The part of labelled data to evaluate on, and notes on the rest."""
        if isinstance(data, Rows):  # chosen before
            return data, []
        notes = self._check_readable(data)
        part, more = to_measure(data, self.names)
        return part, [*notes, *more]

    def measured(
        self, part: Part, *, prior: Prior | None = None, loading: Loading = USUAL, progress: bool = False
    ) -> AnswerStream:
        """Log probabilities of labelled examples or rows, with their labels."""
        if not isinstance(part, Rows):
            refuse_strangers({example.label or "" for example in part}, self.names)
        return AnswerStream(self._model, self._stream(part, loading), labelled=True, progress=progress, prior=prior)

    def update(
        self, data: object = None, labels: object = None, *, unlabelled: object = None, attributes: Attributes = None,
        loading: Loading = USUAL, progress: bool = False,
    ) -> Change:  # fmt: skip
        """Add labelled data, unlabelled data, or both; new classes appear.

        On an image-text source, new classes need sentences: `attributes` as in `fit`. By default they are of the kind
        that the model was fitted with, if that was "templates" or "names".
        """
        if data is None and unlabelled is None:
            raise InputError("Nothing to add. Give labelled data, or unlabelled ones (unlabelled=..., --unlabelled).")
        verb, data = self._verb("update"), joined(data, labels) if data is not None else None
        odd = self._check_readable(data) if data is not None else []
        pile, found = self._unlabelled(unlabelled, loading) if unlabelled is not None else (None, [])
        parts, notes = to_change("update", data, self._model.choice.asked, self.names) if data is not None else ([], [])
        notes = [*odd, *notes, *found]
        labels = {example.label or "" for part in parts if not isinstance(part, Rows) for example in part}
        words = self._described(labels, attributes)
        before = self._model.gathered
        gathered = before.copy()
        for part in parts:
            gather(gathered, self._stream(part, loading), progress=progress)
        if pile is not None:
            notes += add_pile(gathered, pile, settings_of(self._model, gathered)[0], progress)
        again = sum(before.contains(gathered.ledger.entries(start=len(before.ledger))))
        if again:
            notes.append(f"{counted(again, 'example')} already in the model, now counted twice.")
        if words is self._model.words:  # of responses the classes are known only now
            words = self._described(gathered.statistics.classes, attributes)
        verb = replace(verb, images=gathered.images - before.images)
        with waiting("solving", progress):
            return self._settle(gathered, verb, notes, words=words)

    def forget(
        self, data: object, labels: object = None, *, loading: Loading = USUAL, progress: bool = False
    ) -> Change:
        """Remove labelled data, as if they had never been fitted (machine unlearning); only fitted data can be removed.

        Everything that was chosen with them is chosen again. `change.receipt.save("receipt.json")` writes a receipt for
        `verify`.
        """
        need_ledger(self._model, "forget")
        verb, data = self._verb("forget"), joined(data, labels)
        odd = self._check_readable(data)
        parts, notes = to_change("forget", data, self._model.choice.asked, self.names)
        notes = [*odd, *notes]
        streams, gathered = [self._stream(part, loading) for part in parts], self._model.gathered.copy()
        removed = gathered.remove(batch for stream in streams for batch in stream.shown("forgetting", progress))
        gathered.skipped = [one for stream in streams for one in stream.skipped]
        return self._without(removed, gathered, verb, [*notes, *self._lost(gathered)], progress)

    def forget_unlabelled(self, data: object, *, loading: Loading = USUAL, progress: bool = False) -> Change:
        """Remove unlabelled data, as if they had never been added; images that are not in the model are ignored."""
        verb, (stream, notes) = self._verb("forget"), self._unlabelled(data, loading)
        gathered = self._model.gathered.copy()
        contents = [digest for batch in stream.shown("forgetting", progress) for digest in batch.digests]
        removed = gathered.remove_unlabelled(contents)
        gathered.skipped = stream.skipped
        absent = len(set(contents)) - len(removed)
        notes += [f"{counted(absent, 'image')} not among the unlabelled ones."] if absent else []
        return self._without(removed, gathered, verb, notes, progress)

    def drop_unlabelled(self) -> Change:
        """Remove all unlabelled data: exactly the model that was fitted without them is left."""
        gathered = replace(self._model.gathered.copy(), pile=None)
        return self._settle(gathered, self._verb("drop unlabelled"), [])

    def change(
        self, name: str, *, remove: ResponseBatch | None = None, add: ResponseBatch | None = None, passes: int = 0
    ) -> Change:
        """Remove some responses and add others, as one change.

        The history calls it `name`, and says how many passes over images the responses took.
        """
        if remove:
            need_ledger(self._model, name)
        images = max(len(batch) if batch else 0 for batch in (remove, add))
        verb = replace(self._verb(name), images=images, more={"passes": passes})
        words, gathered = self._described(add.labels or [] if add else [], None), self._model.gathered.copy()
        gathered.remove([remove] if remove else [])
        gathered.add([add] if add else [])
        return self._settle(gathered, verb, self._lost(gathered), words=words)

    def relabel(self, names: dict[str, str]) -> Change:
        """Rename classes; classes with the same new name are merged, exactly."""
        names = {old: class_name(new) if isinstance(new, str) else "" for old, new in names.items()}
        if "" in names.values():
            raise InputError("The new name of a class is empty, invisible or no text; choose another.")
        verb, gathered = self._verb("relabel"), self._model.gathered.copy()
        gathered.rename(names)
        words = self._model.words and self._model.words.renamed(names)
        prior = _renamed_prior(self._model.prior, names)
        if len(gathered.statistics.classes) < len(self.names):  # some are joined
            return self._settle(gathered, verb, [], words=words, prior=prior)
        if (known := self._model.recorded_accuracy) is not None:  # other names, the same answers
            verb = replace(verb, more={LEFT_OUT: dict(zip(("accuracy", "n"), known, strict=True))})
        mapping = self._model.mapping.renamed(names)
        self._model = replace(
            self._model, gathered=gathered, mapping=mapping, prior=prior, words=words, history=verb.history()
        )
        return Change()

    def merge(self, other: OpenModel) -> Change:
        """Add everything another classifier on the same source was fitted on."""
        verb, mine, theirs = self._verb("merge"), self._model, other._model
        mine.origin.check_same(theirs.origin)
        refuse_twice(parts_of(mine.history), parts := parts_of(theirs.history))
        twice = sum(mine.gathered.contains(list(set(theirs.ledger.entries()))))
        notes = [f"{counted(twice, 'example')} in both models, now counted twice."] if twice else []
        words = mine.words and theirs.words and mine.words.joined(theirs.words)
        verb = replace(verb, images=round(theirs.statistics.total), more={PARTS: parts} if parts else {})
        return self._settle(mine.gathered.merge(theirs.gathered), verb, notes, words=words)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the model directory, atomically."""
        write_model(self._model, path, force=force)

    def drop_reservoir(self) -> None:
        """Drop all individual responses; later changes then leave the shrinkage as it is."""
        self._model = replace(self._model, gathered=replace(self._model.gathered, reservoir=None))

    def __getstate__(self) -> dict[str, object]:
        """For pickle and deepcopy: without the open network, which is reopened when it is needed."""
        opened = self._pipeline is not None and self._model.origin.images
        named = self._model.origin.name if opened else None  # it was opened with the user's consent
        return self.__dict__ | {"_pipeline": None, "_source": self._source or named}

    def _without(
        self, removed: Sequence[Entry], gathered: Gathered, verb: Verb, notes: list[str], progress: bool
    ) -> Change:
        """Solve again without what was removed; the change has the receipt."""
        before = self._model
        verb = replace(verb, images=len(removed), more={"removed": digest_of(removed)})
        with waiting("solving", progress):
            change = self._settle(gathered, verb, notes)
        return replace(change, receipt=make_receipt(before, self._model, removed))

    def _check_readable(self, data: object) -> list[str]:
        """Raise if data mean nothing to this model, and say where that cannot be known.

        The pipeline is opened for images before they are looked at: without it nothing can be read.
        """
        if not is_response_data(data):
            self.pipeline  # noqa: B018
            return []
        mine, theirs = self._model.origin.identity(), identity_of(data)
        odd = difference(mine, theirs)
        if odd:
            raise InputError(
                f"{data} holds responses of another backbone than this model's: they differ in {odd}. "
                "Create the file again with the model's backbone, or fit a model on it."
            )
        if mine is None or theirs is not None or not isinstance(data, str | Path):
            return []
        return [f"{data} does not say where its responses come from; assuming this model's backbone."]

    def _unlabelled(self, data: object, loading: Loading, *, whole: bool = True) -> tuple[ResponseStream, list[str]]:
        """Responses to data without labels, whole or of the networks that answer alone, and notes for the user."""
        notes = self._check_readable(data)
        read_by = self._model.origin if is_response_data(data) else self.pipeline if whole else self.answering
        stream, found = unlabelled_stream(data, read_by, loading)
        return stream, [*notes, *found]

    def _stream(self, part: Part, loading: Loading) -> ResponseStream:
        return part.stream() if isinstance(part, Rows) else self.pipeline.stream(part, loading)

    def _verb(self, name: str) -> Verb:
        return Verb(name, before=tuple(self._model.history), integers=self._model.integers)

    def _described(self, classes: Iterable[str], attributes: Attributes) -> EncodedBank | None:
        """The sentences with those of classes that have none yet; for that the text tower is needed."""
        words = self._model.words
        if words is None or set(classes) <= set(words.bank.classes):
            return words
        return extended(words, classes, attributes, need_texts(self.pipeline.source, "a new class"))

    def _lost(self, gathered: Gathered) -> list[str]:
        """A sentence on classes that have no examples any more."""
        lost = sorted(set(self.names) - set(gathered.statistics.classes))
        then = "the class is removed" if self._model.words is None else "only its sentences describe it now"
        return [f"No examples of {', '.join(map(repr, lost))} are left, so {then}."] if lost else []

    def _settle(
        self,
        gathered: Gathered,
        verb: Verb,
        notes: list[str],
        *,
        words: EncodedBank | None = None,
        prior: Prior | None = None,
    ) -> Change:
        """Solve again from what was gathered, by the rule of the fit where that is still possible."""
        model = self._model
        settings, keep = settings_of(model, gathered)
        if keep is not None:
            lost = "validation data" if settings.shrinkage == "validation" else "individual responses"
            at = f"{keep.shrinkage:g}"
            notes = [*notes, f"The shrinkage stays at {at}: {lost} are not kept. To choose it again, fit again."]
        settings = replace(settings, prior=prior or model.prior)
        self._model = solve(gathered, settings, model.origin, words=words or model.words, keep=keep, verb=verb)
        notes = [*notes, *pile_notes(self._model)]
        new = [name for name in self.names if name not in model.mapping.classes]
        more = f", {listed(new)} new" if new else ""
        now = f"{counted(self._model.statistics.total, 'example')}, {counted(len(self.names), 'class')}{more}."
        change = Change(tuple(notes), tuple(gathered.skipped), told=f"{model.statistics.total:,.0f} -> {now}")
        self._tell(change)
        return change


def need_ledger(model: Model, verb: str) -> None:
    """Raise if a model stores no image hashes, without which a verb cannot tell what to take out."""
    if model.statistics.total and not len(model.ledger):
        raise StatisticsError(
            f"This model stores no image hashes, so `{verb}` cannot tell which images it was fitted on; nothing was "
            "changed. Fit again on the data to keep, with the hashes (without --no-ledger)."
        )


def _renamed_prior(prior: Prior, names: Mapping[str, str]) -> Prior:
    if isinstance(prior, str):
        return prior
    joined: Counter[str] = Counter()
    for name, weight in prior.items():
        joined[names.get(name, name)] += weight  # type: ignore[assignment]
    return dict(joined)
