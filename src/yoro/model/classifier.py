"""Classifier: what `fit` returns. It predicts, and can be updated, merged and made to forget, exactly."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro.data.examples import Example
from yoro.data.find import find
from yoro.data.streams import ResponseStream, is_response_data, open_responses
from yoro.discriminant.calibration import Prior, log_probabilities
from yoro.discriminant.reservoir import Reservoir
from yoro.discriminant.selection import Choice
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError, SourceError
from yoro.machine import peak_memory
from yoro.model.ledger import Ledger
from yoro.model.metrics import Evaluation, Tally, refuse_strangers
from yoro.model.one_pass import Gathered, shown
from yoro.model.pipeline import Pipeline, Reading, differing, reopen_pipeline
from yoro.model.solve import solve
from yoro.model.store import Model, read_model, write_model
from yoro.text.banks import Sentences
from yoro.text.encoded_bank import Wording, extended, need_texts

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """Log probabilities (n, classes) for named images, with their labels if known."""

    names: list[str]
    log_probabilities: Array
    labels: list[str] | None


def load(path: str | Path, *, source: str | None = None, device: str = "auto") -> Classifier:
    """Load a saved classifier; nothing in it is executed.

    `source` tells where the model's source is now, if it has moved, and is needed for a source
    that runs code (`callable:...`).
    """
    return Classifier(read_model(path), source=source, device=device)


class Classifier:
    """Images or responses in, class names out.

    Statistics are kept, so that data can be added, merged and taken back exactly. Data are a
    folder, a list file, images in memory, or responses: a response file or an array.
    """

    def __init__(
        self,
        model: Model,
        *,
        pipeline: Pipeline | None = None,
        source: str | None = None,
        device: str = "auto",
        notes: list[str] | None = None,
    ) -> None:
        self.notes = notes or []  # sentences on what the last verb did that a user may want to know
        self.skipped: list[tuple[str, str]] = []  # images the last verb could not read, and why
        self.fitted: list[Example] = []  # the images of a fit just made, in the order of the ledger; not saved
        self._model, self._pipeline = model, pipeline
        self._source, self._device = source, device

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names, in the order of the columns of `predict_proba`."""
        return self._model.mapping.classes

    @property
    def model(self) -> Model:
        """All that the classifier is made of."""
        return self._model

    @property
    def pipeline(self) -> Pipeline:
        """How images become responses; opened when first needed."""
        if self._model.source.get("name") == "responses":
            raise SourceError(
                "This model was fitted on responses alone and cannot read images; give it responses (.npz)."
            )
        if self._pipeline is None:
            self._pipeline = reopen_pipeline(self._model, self._source, device=self._device)
        return self._pipeline

    def predict(self, data: object, *, reading: Reading | None = None) -> list[str]:
        """The name of the best class for each image or response; one that cannot be read is an error."""
        best = self.predict_proba(data, reading=reading).argmax(axis=1)
        return [self.classes[i] for i in best]

    def predict_proba(self, data: object, *, reading: Reading | None = None) -> Array:
        """Probabilities (n, classes); an image that cannot be read is an error, so that rows stay in step."""
        strict = replace(reading or Reading(workers=0), strict=True)
        parts = [np.exp(answers.log_probabilities) for answers in self.answers(data, reading=strict)]
        return np.concatenate(parts) if parts else np.empty((0, len(self.classes)))

    def answers(
        self, data: object, *, labelled: bool = False, progress: bool = False, reading: Reading | None = None
    ) -> Iterator[Answers]:
        """Log probabilities batch by batch, so that memory does not grow with the data."""
        stream = self._open(data, labelled=labelled, reading=reading)
        for batch in shown(stream, "evaluating" if labelled else "predicting", progress):
            scores = self._model.mapping(batch.responses)
            labels = batch.labels if labelled else None
            yield Answers(batch.names, log_probabilities(scores, self._model.choice.temperature), labels)
        self.skipped = stream.skipped

    def evaluate(self, data: object, *, progress: bool = False, reading: Reading | None = None) -> Evaluation:
        """Accuracy and other figures on labelled data."""
        tally = Tally(self.classes)
        for answers in self.answers(data, labelled=True, progress=progress, reading=reading):
            tally.update(answers.log_probabilities, answers.labels or [])
        return tally.result()

    def update(
        self,
        data: object,
        *,
        attributes: str | Path | Sentences | None = None,
        progress: bool = False,
        reading: Reading | None = None,
    ) -> None:
        """Add labelled data; classes not seen before appear.

        On an image-text source, new classes need sentences: `attributes` as in `fit`, or of the
        kind that the model was fitted with, if that was "templates" or "names".
        """
        started = time.perf_counter()
        wording = self._model.wording
        if wording is not None and not is_response_data(data):
            data = find_examples(data, labelled=True, fitting=True)
            wording = self._described({example.label or "" for example in data}, attributes)
        gathered, before = self._gathered(), len(self._model.ledger)
        gathered.absorb(self._open(data, labelled=True, reading=reading, fitting=True), progress=progress)
        entries = list(gathered.ledger.entries())
        known = set(entries[:before])
        again = sum(entry in known for entry in entries[before:])
        notes = [f"{again:,} examples were fitted before and now count once more."] if again else []
        if wording is self._model.wording:  # of responses the classes are known only now
            wording = self._described(gathered.statistics.classes, attributes)
        self._settle(gathered, event("update", gathered.images, started), notes, wording=wording)

    def forget(self, data: object, *, progress: bool = False, reading: Reading | None = None) -> None:
        """Take labelled data back out, as if they had never been fitted; only what was fitted can be."""
        started = time.perf_counter()
        gone = Gathered(ResponseStatistics(), Ledger(), None)
        names: list[str] = []
        gone.absorb(self._open(data, labelled=True, reading=reading, fitting=True), progress=progress, names=names)
        digests, labels = zip(*gone.ledger.entries(), strict=True) if names else ((), ())
        gathered = self._gathered()
        gathered.ledger.check(digests, labels, names)
        gathered.statistics = gathered.statistics - gone.statistics
        gathered.ledger.remove(digests, labels)
        if gathered.reservoir is not None:
            gathered.reservoir.remove(digests, labels)
        gathered.skipped = gone.skipped
        lost = sorted(set(self.classes) - set(gathered.statistics.classes))
        gone_too = "the class is gone" if self._model.wording is None else "it is known by its sentences alone"
        notes = [f"No example of {', '.join(map(repr, lost))} is left, so {gone_too}."] if lost else []
        self._settle(gathered, event("forget", gone.images, started), notes)

    def relabel(self, names: dict[str, str]) -> None:
        """Rename classes; classes given the same name are joined, exactly."""
        started = time.perf_counter()
        gathered = self._gathered()
        gathered.statistics = gathered.statistics.rename(names)
        gathered.ledger.rename(names)
        if gathered.reservoir is not None:
            gathered.reservoir.rename(names)
        wording = self._model.wording and self._model.wording.renamed(names)
        prior = _renamed_prior(self._model.prior, names)
        self._settle(gathered, event("relabel", 0, started), [], prior, wording=wording)

    def merge(self, other: Classifier) -> None:
        """Add everything another classifier on the same source was fitted on."""
        started = time.perf_counter()
        mine, theirs = self._model, other._model
        _check_same_reading(mine, theirs)
        gathered = self._gathered()
        gathered.statistics = gathered.statistics + theirs.statistics
        twice = len(set(mine.ledger.entries()) & set(theirs.ledger.entries()))
        gathered.ledger = gathered.ledger.merge(theirs.ledger)
        if gathered.reservoir is not None:
            gathered.reservoir = None if theirs.reservoir is None else gathered.reservoir.merge(theirs.reservoir)
        notes = [f"{twice:,} examples are in both models and now count twice."] if twice else []
        wording = mine.wording and theirs.wording and mine.wording.joined(theirs.wording)
        self._settle(gathered, event("merge", len(theirs.ledger), started), notes, wording=wording)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the model directory, atomically."""
        write_model(self._model, path, force=force)

    def drop_reservoir(self) -> None:
        """Keep no individual responses; the shrinkage then stays as it is under later changes."""
        self._model = replace(self._model, reservoir=None)

    def _open(
        self, data: object, *, labelled: bool, reading: Reading | None = None, fitting: bool = False
    ) -> ResponseStream:
        if is_response_data(data):
            return open_responses(data, labelled=labelled)  # type: ignore[arg-type]
        pipeline = self.pipeline  # before the data are looked at: without it nothing can be read
        examples = find_examples(data, labelled=labelled, fitting=fitting)
        if labelled and not fitting:
            refuse_strangers({example.label or "" for example in examples}, self.classes)
        return pipeline.stream(examples, reading or Reading(workers=0))

    def _described(self, classes: Iterable[str], attributes: str | Path | Sentences | None) -> Wording | None:
        """The wording with sentences for classes that have none yet; those need the text tower."""
        wording = self._model.wording
        if wording is None or set(classes) <= set(wording.bank.classes):
            return wording
        return extended(wording, classes, attributes, need_texts(self.pipeline.source, "a new class"))

    def _gathered(self) -> Gathered:
        """An independent copy of what was gathered: a verb that fails leaves the classifier as it was."""
        model, kept = self._model, self._model.reservoir
        copy = None if kept is None else kept.merge(Reservoir(kept.capacity, kept.seed))
        return Gathered(model.statistics.copy(), model.ledger.merge(Ledger()), copy)

    def _settle(
        self,
        gathered: Gathered,
        happened: dict[str, object],
        notes: list[str],
        prior: Prior | None = None,
        *,
        wording: Wording | None = None,
    ) -> None:
        model = self._model
        wording = wording or model.wording
        old = model.choice
        rule: str | float = old.shrinkage if old.rule == "fixed" else old.rule
        keep: Choice | None = None
        if rule == "validation" or (rule in ("loo", "k-fold", "ledoit-wolf") and gathered.reservoir is None):
            why = "validation data are" if rule == "validation" else "individual responses are"
            notes = [*notes, f"The shrinkage stays at {old.shrinkage:g}: {why} not kept. To choose anew, fit again."]
            keep = old
        solved = solve(gathered, rule, prior or model.prior, model.protocol, keep=keep, wording=wording)
        self._model = replace(
            solved, source=model.source, transform=model.transform, prompt=model.prompt,
            prompt_arrays=model.prompt_arrays, history=[*model.history, happened],
        )  # fmt: skip
        self.notes, self.skipped = notes, gathered.skipped


def find_examples(data: object, *, labelled: bool, fitting: bool = False) -> list[Example]:
    """Examples of a data set; of one with splits, those that fit the purpose.

    What is added to a model or taken out comes from all splits but the test split; what a model
    is measured on comes from the test split, else from the validation split. Data without labels
    are taken whole.
    """
    found = find(data, labelled=labelled)
    if not labelled or not found.splits:
        return list(found)
    if fitting:
        return [example for example in found if example.split != "test"]
    return list(found.select(next(split for split in ("test", "val", "train") if split in found.splits)))


def event(verb: str, images: int, started: float) -> dict[str, object]:
    """An entry of the history."""
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "verb": verb,
        "images": images,
        "passes": int(images > 0),
        "seconds": round(time.perf_counter() - started, 3),
        "peak_memory_mb": round(peak_memory(), 1),
    }


def _check_same_reading(mine: Model, theirs: Model) -> None:
    """Only responses that mean the same can be added up; where a source lies does not matter."""
    for what in ("source", "transform", "prompt"):
        one, two = getattr(mine, what) or {}, getattr(theirs, what) or {}
        odd = differing(one, two)
        if odd:
            raise InputError(
                f"The models differ in the {odd[0]} of their {what}: {one.get(odd[0])!r} and {two.get(odd[0])!r}. "
                "Only models that read the same responses can be merged."
            )
    prompts = [{key: value.tobytes() for key, value in model.prompt_arrays.items()} for model in (mine, theirs)]
    if prompts[0] != prompts[1]:
        raise InputError("The models differ in their trained prompts; only models that read the same can be merged.")


def _renamed_prior(prior: Prior, names: dict[str, str]) -> Prior:
    if isinstance(prior, str):
        return prior
    joined: Counter[str] = Counter()
    for name, weight in prior.items():
        joined[names.get(name, name)] += weight  # type: ignore[assignment]
    return dict(joined)
