"""Classifier: what `fit` returns. It predicts, and can be updated, merged and made to forget, exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import class_name
from yoro.data.find import find
from yoro.data.response_streams import Collected, ResponseStream, identity_of, is_response_data, open_responses
from yoro.data.roles import Part, Rows, to_change, to_measure
from yoro.discriminant.calibration import Prior, log_probabilities
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.rules import MEMBERS, RULES
from yoro.errors import InputError, StatisticsError, counted
from yoro.model.gathered import Gathered
from yoro.model.metrics import Evaluation, Measure, refuse_strangers
from yoro.model.model import Model, Verb, difference
from yoro.model.one_pass import gather, waiting
from yoro.model.pipeline import Pipeline, reopen_pipeline
from yoro.model.priors import prior_shift, shifted
from yoro.model.settings import HERE, Loading, SolveSettings
from yoro.model.shards import PARTS, parts_of, refuse_twice
from yoro.model.solve import solve
from yoro.model.store import read_model, write_model
from yoro.model.unlearning_receipt import Receipt, digest_of, make_receipt
from yoro.sources.protocol import FREE, Calls
from yoro.text.encoded_bank import EncodedBank, extended, need_texts
from yoro.text.settings import Attributes

Array = NDArray[np.float64]
Skipped = list[tuple[str, str]]  # names of images that could not be read, and why


@dataclass(frozen=True)
class Answers:
    """Log probabilities (n, classes) for named images, with their labels if known."""

    names: list[str]
    log_probabilities: Array
    labels: list[str] | None
    digests: Sequence[bytes] = ()  # of their contents
    responses: NDArray[np.floating] | None = None  # that they are made of, where there are any
    typicality: Array | None = None  # (n,) the share of fitted images that are as strange, where that was asked for
    unknown: float = 0.0  # what is no more typical than this is of no known class
    sets: NDArray[np.bool_] | None = None  # (n, classes) which labels may be right, where that was asked for

    def is_unknown(self, row: int) -> bool:
        """Whether one of the images is of no known class."""
        return self.typicality is not None and bool(self.typicality[row] <= self.unknown)


class AnswerStream:
    """Answers batch by batch, so that memory does not grow with the data; they can be traversed once."""

    def __init__(
        self,
        classifier: Classifier,
        stream: ResponseStream,
        notes: Sequence[str] = (),
        *,
        labelled: bool = False,
        progress: bool = False,
        prior: Prior | None = None,
    ) -> None:
        self.notes = tuple(notes)  # what a user may want to know before the answers
        self._shift = prior_shift(classifier.model, prior)
        self._model, self._stream = classifier.model, stream
        self._labelled, self._progress = labelled, progress

    @property
    def skipped(self) -> Skipped:
        """What could not be read so far, and why."""
        return self._stream.skipped

    def __iter__(self) -> Iterator[Answers]:
        what = "evaluating" if self._labelled else "predicting"
        for batch in self._stream.shown(what, self._progress):
            logs = log_probabilities(self._model.mapping(batch.responses), self._model.choice.temperature)
            labels = batch.labels if self._labelled else None
            yield Answers(batch.names, shifted(logs, self._shift), labels, batch.digests, batch.responses)


@dataclass(frozen=True)
class Change:
    """What a verb did to a classifier: sentences that a user may want to know, and what could not be read."""

    notes: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    receipt: Receipt | None = None  # of what was forgotten


def load(path: str | Path, *, source: str | None = None, device: str = "auto", calls: Calls = FREE) -> Classifier:
    """Load a saved classifier; nothing in it is executed.

    `source` tells where the model's source is now, if it has moved, and is needed for a source
    that runs code (`callable:...`) or asks a host. `calls` says how much may be asked of that.
    """
    return Classifier(read_model(path), source=source, device=device, calls=calls)


class Classifier:
    """Images or responses in, class names out.

    Statistics are kept, so that data can be added, merged and taken back exactly. Data are a
    folder, a list file, images in memory, or responses: a response file or an array.
    """

    def __init__(
        self, model: Model, *, pipeline: Pipeline | None = None, source: str | None = None, device: str = "auto",
        calls: Calls = FREE,
    ) -> None:  # fmt: skip
        self._model, self._pipeline = model, pipeline
        self._source, self._device, self._calls = source, device, calls

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names, in the order of the columns of `predict_proba`."""
        return self._model.mapping.classes

    @property
    def names(self) -> tuple[str, ...]:
        """The classes as text, in the order of the columns of `answers`."""
        return self._model.mapping.classes

    @property
    def model(self) -> Model:
        """All that the classifier is made of."""
        return self._model

    @property
    def pipeline(self) -> Pipeline:
        """How images become responses; opened when first needed."""
        if self._pipeline is None:
            self._pipeline = reopen_pipeline(self._model.origin, self._source, device=self._device, calls=self._calls)
        return self._pipeline

    @property
    def opened(self) -> Pipeline | None:
        """The same, if it was needed yet."""
        return self._pipeline

    def predict(self, data: object, *, prior: Prior | None = None, loading: Loading = HERE) -> list[str]:
        """The name of the best class for each image or response; one that cannot be read is an error."""
        best = self.predict_proba(data, prior=prior, loading=loading).argmax(axis=1)
        return [self.names[i] for i in best]

    def predict_proba(self, data: object, *, prior: Prior | None = None, loading: Loading = HERE) -> Array:
        """Probabilities (n, classes); an image that cannot be read is an error, so that rows stay in step.

        `prior` is one to answer by instead of that of the fit: "empirical", "uniform", or a share for each class.
        """
        answers = self.answers(data, prior=prior, loading=replace(loading, strict=True))
        parts = [np.exp(batch.log_probabilities) for batch in answers]
        return np.concatenate(parts) if parts else np.empty((0, len(self.names)))

    def answers(
        self, data: object, *, prior: Prior | None = None, loading: Loading = HERE, progress: bool = False
    ) -> AnswerStream:
        """Log probabilities of images without labels, or whose labels are not read."""
        notes = self._check_readable(data)
        if is_response_data(data):
            stream = open_responses(data, labelled=False)  # type: ignore[arg-type]
        else:
            found = find(data, labelled=False)
            notes = [*notes, *found.notes]
            stream = self.pipeline.stream(found.examples, loading)
        return AnswerStream(self, stream, notes, progress=progress, prior=prior)

    def evaluate(
        self, data: object, *, prior: Prior | None = None, loading: Loading = HERE, progress: bool = False
    ) -> Evaluation:
        """Accuracy and other figures on labelled data; of data with splits, on the test split."""
        part, notes = self.to_measure(data)
        answers, measure = self.measured(part, prior=prior, loading=loading, progress=progress), Measure(self.names)
        for batch in answers:
            measure.update(batch.log_probabilities, batch.labels or [], self.fitted(batch.digests))
        result = measure.result()
        return replace(result, skipped=tuple(answers.skipped), notes=(*result.notes, *notes))

    def fitted(self, digests: Sequence[bytes]) -> NDArray[np.bool_]:
        """Whether each content was fitted, under any label."""
        return np.array(self._model.ledger.holds(digests), dtype=bool)

    def to_measure(self, data: object) -> tuple[Part, list[str]]:
        """The part of labelled data that the classifier is measured on, and sentences on what is left alone."""
        notes = self._check_readable(data)
        part, more = to_measure(data, self.classes)
        return part, [*notes, *more]

    def measured(
        self, part: Part, *, prior: Prior | None = None, loading: Loading = HERE, progress: bool = False
    ) -> AnswerStream:
        """Log probabilities of labelled examples or rows, with their labels."""
        if not isinstance(part, Rows):
            refuse_strangers({example.label or "" for example in part}, self.names)
        return AnswerStream(self, self._stream(part, loading), labelled=True, progress=progress, prior=prior)

    def update(
        self, data: object, *, attributes: Attributes = None, loading: Loading = HERE, progress: bool = False
    ) -> Change:
        """Add labelled data; classes not seen before appear.

        On an image-text source, new classes need sentences: `attributes` as in `fit`, or of the
        kind that the model was fitted with, if that was "templates" or "names".
        """
        verb = self._verb("update")
        odd = self._check_readable(data)
        parts, notes = to_change("update", data, self._model.choice.asked, self.classes)
        notes = [*odd, *notes]
        labels = {example.label or "" for part in parts if not isinstance(part, Rows) for example in part}
        words = self._described(labels, attributes)
        gathered, before = self._gathered(), len(self._model.ledger)
        for part in parts:
            gather(gathered, self._stream(part, loading), progress=progress)
        again = gathered.ledger.seen_before(before)
        if again:
            notes.append(f"{_were(again)} fitted before and now count{'s' * (again == 1)} once more.")
        if words is self._model.words:  # of responses the classes are known only now
            words = self._described(gathered.statistics.classes, attributes)
        verb = replace(verb, images=gathered.images)
        with waiting("solving", progress):
            return self._settle(gathered, verb, notes, words=words)

    def forget(self, data: object, *, loading: Loading = HERE, progress: bool = False) -> Change:
        """Take labelled data back out, as if they had never been fitted; only what was fitted can be.

        All that was chosen with them is chosen anew. The change has a receipt, which `verify` takes.
        """
        need_ledger(self._model, "forget")
        verb, before = self._verb("forget"), self._model
        odd = self._check_readable(data)
        parts, notes = to_change("forget", data, self._model.choice.asked, self.classes)
        notes = [*odd, *notes]
        gone, names = Gathered(JointStatistics(self._model.origin.layout)), list[str]()
        for part in parts:
            gather(gone, self._stream(part, loading), progress=progress, names=names)
        entries = gone.ledger.entries()
        digests, labels = [digest for digest, _ in entries], [label for _, label in entries]
        gathered = self._gathered()
        gathered.ledger.check(digests, labels, names)
        gathered.ledger.remove(digests, labels)
        if gathered.reservoir is not None:
            gathered.reservoir.remove(digests, labels)
        gathered.statistics = gathered.summed() or gathered.statistics - gone.statistics
        gathered.skipped = gone.skipped
        removed = digest_of((digest.hex(), label) for digest, label in entries)
        verb = replace(verb, images=gone.images, more={"removed": removed})
        with waiting("solving", progress):
            change = self._settle(gathered, verb, [*notes, *self._lost(gathered)])
        return replace(change, receipt=make_receipt(before, self._model, entries))

    def exchange(self, name: str, gone: Collected, come: Collected, *, passes: int = 0) -> Change:
        """Take fitted responses out and put others in, as one change.

        The history calls it `name`, and says how many passes over images the responses took.
        """
        if len(gone):
            need_ledger(self._model, name)
        verb = replace(self._verb(name), images=max(len(gone), len(come)), more={"passes": passes})
        labels = gone.labels.tolist()
        words, gathered = self._described(come.labels.tolist(), None), self._gathered()
        gathered.ledger.check(gone.digests, labels, gone.names)
        if gathered.reservoir is not None:
            gathered.reservoir.remove(gone.digests, labels)
        gathered.add([come.batch()] if len(come) else [])  # first, so that no class is lost on the way
        if len(gone):
            less = JointStatistics(self._model.origin.layout)
            less.update(gone.responses, labels)
            gathered.statistics = gathered.statistics - less
            gathered.ledger.remove(gone.digests, labels)
        return self._settle(gathered, verb, self._lost(gathered), words=words)

    def relabel(self, names: dict[str, str]) -> Change:
        """Rename classes; classes given the same name are joined, exactly."""
        names = {old: class_name(new) for old, new in names.items()}
        if "" in names.values():
            raise InputError("A class is given a name that cannot be seen; give it another.")
        verb, gathered = self._verb("relabel"), self._gathered()
        gathered.statistics = gathered.statistics.rename(names)
        gathered.ledger.rename(names)
        if gathered.reservoir is not None:
            gathered.reservoir.rename(names)
        words = self._model.words and self._model.words.renamed(names)
        prior = _renamed_prior(self._model.prior, names)
        if len(gathered.statistics.classes) < len(self.classes):  # some are joined
            return self._settle(gathered, verb, [], words=words, prior=prior)
        self._model = replace(
            self._model, statistics=gathered.statistics, mapping=self._model.mapping.renamed(names),
            ledger=gathered.ledger, reservoir=gathered.reservoir, prior=prior, words=words, history=verb.history(),
        )  # fmt: skip
        return Change()

    def merge(self, other: Classifier) -> Change:
        """Add everything another classifier on the same source was fitted on."""
        verb, mine, theirs = self._verb("merge"), self._model, other._model
        mine.origin.check_same(theirs.origin)
        refuse_twice(parts_of(mine.history), parts := parts_of(theirs.history))
        gathered, twice = self._gathered().merge(other._gathered()), mine.ledger.shared(theirs.ledger)
        are = f"{counted(twice, 'example')} {'is' if twice == 1 else 'are'}"
        notes = [f"{are} in both models and now count{'s' * (twice == 1)} twice."] if twice else []
        words = mine.words and theirs.words and mine.words.joined(theirs.words)
        verb = replace(verb, images=round(theirs.statistics.total), more={PARTS: parts} if parts else {})
        return self._settle(gathered, verb, notes, words=words)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the model directory, atomically."""
        write_model(self._model, path, force=force)

    def drop_reservoir(self) -> None:
        """Keep no individual responses; the shrinkage then stays as it is under later changes."""
        self._model = replace(self._model, reservoir=None)

    def __getstate__(self) -> dict[str, object]:
        """For pickle and deepcopy: without the open network, which is opened anew when it is needed."""
        opened = self._pipeline is not None and self._model.origin.images
        named = self._model.origin.name if opened else None  # it was opened with the user's consent
        return self.__dict__ | {"_pipeline": None, "_source": self._source or named}

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
                f"{data} holds responses of another source than this model's: they differ in {odd}. "
                "Make the file again with the model's source, or fit a model on it."
            )
        if mine is None or theirs is not None or not isinstance(data, str | Path):
            return []
        return [f"{data} does not say where its responses come from; they are taken for this model's."]

    def _stream(self, part: Part, loading: Loading) -> ResponseStream:
        return part.stream() if isinstance(part, Rows) else self.pipeline.stream(part, loading)

    def _verb(self, name: str) -> Verb:
        return Verb(name, before=tuple(self._model.history))

    def _described(self, classes: Iterable[str], attributes: Attributes) -> EncodedBank | None:
        """The sentences with those of classes that have none yet; for that the text tower is needed."""
        words = self._model.words
        if words is None or set(classes) <= set(words.bank.classes):
            return words
        return extended(words, classes, attributes, need_texts(self.pipeline.source, "a new class"))

    def _lost(self, gathered: Gathered) -> list[str]:
        """What there is to say of classes that have no example any more."""
        lost = sorted(set(self.names) - set(gathered.statistics.classes))
        then = "the class is gone" if self._model.words is None else "it is known by its sentences alone"
        return [f"No example of {', '.join(map(repr, lost))} is left, so {then}."] if lost else []

    def _gathered(self) -> Gathered:
        """An independent copy of what was gathered: a verb that fails leaves the classifier as it was."""
        model, noting = self._model, len(self._model.ledger) > 0 or self._model.statistics.total == 0
        kept = model.reservoir and model.reservoir.copy()
        return Gathered(model.statistics.copy(), model.ledger.copy(), kept, noting=noting)

    def _settle(
        self,
        gathered: Gathered,
        verb: Verb,
        notes: list[str],
        *,
        words: EncodedBank | None = None,
        prior: Prior | None = None,
    ) -> Change:
        """Solve anew from what was gathered, by the rule of the fit where it still can be asked."""
        model, rule, keep = self._model, self._model.choice.asked, None
        lacks = isinstance(rule, str) and RULES[rule] == MEMBERS and gathered.reservoir is None
        if rule == "validation" or lacks:
            why = "validation data are" if rule == "validation" else "individual responses are"
            at = f"{model.choice.shrinkage:g}"
            notes = [*notes, f"The shrinkage stays at {at}: {why} not kept. To choose anew, fit again."]
            keep = model.choice
        settings = SolveSettings(rule, prior or model.prior, model.protocol)
        solved = solve(gathered, settings, model.origin, words=words or model.words, keep=keep, verb=verb)
        solved.integers = model.integers
        self._model = solved
        return Change(tuple(notes), tuple(gathered.skipped))


def need_ledger(model: Model, verb: str) -> None:
    """Raise if a model keeps no list of what was fitted, without which a verb cannot know what to take out."""
    if model.statistics.total and not len(model.ledger):
        raise StatisticsError(
            f"This model keeps no list of what was fitted, so `{verb}` cannot tell which images were, and nothing was "
            "done. Fit the data that are left anew; a fit keeps the list unless it is told not to."
        )


def _were(number: int) -> str:
    return f"{counted(number, 'example')} {'was' if number == 1 else 'were'}"


def _renamed_prior(prior: Prior, names: Mapping[str, str]) -> Prior:
    if isinstance(prior, str):
        return prior
    joined: Counter[str] = Counter()
    for name, weight in prior.items():
        joined[names.get(name, name)] += weight  # type: ignore[assignment]
    return dict(joined)
