"""Classifier: what `fit` returns. It predicts, and can be updated, merged and made to forget, exactly."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from yoro.confidence import Prior, log_probabilities
from yoro.data.responses import ResponseBatch
from yoro.errors import InputError, SelectionError
from yoro.ledger import Ledger
from yoro.mappings.discriminant import solve_path
from yoro.memory import peak_memory
from yoro.metrics import Evaluation, Tally
from yoro.reservoir import CAPACITY, Reservoir
from yoro.selection import Choice, Evidence, select_shrinkage
from yoro.shrinkage import dense_spectrum
from yoro.statistics import ResponseStatistics
from yoro.store import Model, read_model, write_model
from yoro.streams import ResponseData, ResponseStream, open_responses

Array = NDArray[np.float64]
Validation = tuple[NDArray[np.floating], NDArray[np.str_]]


@dataclass(frozen=True)
class Answers:
    """Log probabilities (n, classes) for named images, with their labels if known."""

    names: list[str]
    log_probabilities: Array
    labels: list[str] | None


def fit(
    data: ResponseData,
    *,
    val: ResponseData | None = None,
    shrinkage: str | float = "loo",
    prior: Prior = "empirical",
    protocol: str = "default",
    reservoir: int = CAPACITY,
    seed: int = 0,
    progress: bool = False,
) -> Classifier:
    """Fit a classifier in one pass over responses with labels: a response file or (responses, labels).

    Validation data serve the rule `validation` alone; every other rule fits them too, because it
    needs no data held out. `protocol="paper"` is the paper and nothing else: the validation rule
    on its grid, empirical priors, plain softmax.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = np.array(["cat", "dog"] * 50)
    >>> responses = rng.normal(size=(100, 8)) + 2.0 * (labels == "dog")[:, None]
    >>> fit((responses, labels)).predict(responses[:2])
    ['cat', 'dog']
    """
    rule, prior = _protocol(protocol, shrinkage, prior)
    if rule == "validation" and val is None:
        raise SelectionError(
            "The rule 'validation' needs validation data, and there are none. Give them with --val (val=...), "
            "or use a rule that works without: loo, oas, rblw, ledoit-wolf, a number from 0 to 1."
        )
    started = time.perf_counter()
    gathered = Gathered(ResponseStatistics(), Ledger(), Reservoir(reservoir, seed) if reservoir else None)
    stream = open_responses(data, labelled=True)
    gathered.absorb(stream, progress)
    notes = []
    held = None
    if val is not None and rule == "validation":
        held = _hold(open_responses(val, labelled=True), gathered.statistics.width, progress)
    elif val is not None:
        extra = open_responses(val, labelled=True)
        gathered.absorb(extra, progress)
        notes.append(f"The {extra.images:,} validation examples are fitted too: the rule {rule!r} needs none held out.")
    model = _solve(gathered, rule, prior, protocol, held)
    model.history.append(_event("fit", gathered.images, started))
    return Classifier(model, notes)


def load(path: str | Path) -> Classifier:
    """Load a saved classifier; nothing in it is executed."""
    return Classifier(read_model(path))


class Classifier:
    """Responses in, class names out. Statistics are kept, so data can be added, merged and taken back exactly."""

    def __init__(self, model: Model, notes: list[str] | None = None) -> None:
        self._model = model
        self.notes = notes or []  # sentences on what the last verb did that a user may want to know

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names, in the order of the columns of `predict_proba`."""
        return self._model.mapping.classes

    @property
    def model(self) -> Model:
        """All that the classifier is made of."""
        return self._model

    def predict(self, data: ResponseData) -> list[str]:
        """The name of the best class for each response."""
        best = self.predict_proba(data).argmax(axis=1)
        return [self.classes[i] for i in best]

    def predict_proba(self, data: ResponseData) -> Array:
        """Probabilities (n, classes)."""
        parts = [np.exp(answers.log_probabilities) for answers in self.answers(data)]
        return np.concatenate(parts) if parts else np.empty((0, len(self.classes)))

    def answers(self, data: ResponseData, *, labelled: bool = False, progress: bool = False) -> Iterator[Answers]:
        """Log probabilities batch by batch, so that memory does not grow with the data."""
        for batch in _shown(open_responses(data, labelled=labelled), "predicting", progress):
            scores = self._model.mapping(batch.responses)
            yield Answers(batch.names, log_probabilities(scores, self._model.choice.temperature), batch.labels)

    def evaluate(self, data: ResponseData, *, progress: bool = False) -> Evaluation:
        """Accuracy and other figures on labelled data."""
        tally = Tally(self.classes)
        for answers in self.answers(data, labelled=True, progress=progress):
            tally.update(answers.log_probabilities, answers.labels or [])
        return tally.result()

    def update(self, data: ResponseData, *, progress: bool = False) -> None:
        """Add labelled data; classes not seen before appear."""
        started = time.perf_counter()
        gathered = self._gathered()
        before = self._model.ledger.contents()
        again = gathered.absorb(open_responses(data, labelled=True), progress, known=before)
        notes = [f"{again:,} examples were fitted before and now count once more."] if again else []
        self._settle(gathered, _event("update", gathered.images, started), notes)

    def forget(self, data: ResponseData, *, progress: bool = False) -> None:
        """Take labelled data back out, as if they had never been fitted; only what was fitted can be."""
        started = time.perf_counter()
        gone = Gathered(ResponseStatistics(), Ledger(), None)
        names: list[str] = []
        gone.absorb(open_responses(data, labelled=True), progress, names=names)
        digests, labels = zip(*gone.ledger.entries(), strict=True) if names else ((), ())
        gathered = self._gathered()
        gathered.ledger.check(digests, labels, names)
        gathered.statistics = gathered.statistics - gone.statistics
        gathered.ledger.remove(digests, labels)
        if gathered.reservoir is not None:
            gathered.reservoir.remove(digests, labels)
        lost = sorted(set(self.classes) - set(gathered.statistics.classes))
        notes = [f"No example of {', '.join(map(repr, lost))} is left, so the class is gone."] if lost else []
        self._settle(gathered, _event("forget", gone.images, started), notes)

    def relabel(self, names: dict[str, str]) -> None:
        """Rename classes; classes given the same name are joined, exactly."""
        started = time.perf_counter()
        gathered = self._gathered()
        gathered.statistics = gathered.statistics.rename(names)
        gathered.ledger.rename(names)
        if gathered.reservoir is not None:
            gathered.reservoir.rename(names)
        prior = self._model.prior
        if not isinstance(prior, str):
            joined: Counter[str] = Counter()
            for name, weight in prior.items():
                joined[names.get(name, name)] += weight  # type: ignore[assignment]
            prior = dict(joined)
        self._settle(gathered, _event("relabel", 0, started), [], prior)

    def merge(self, other: Classifier) -> None:
        """Add everything another classifier on the same source was fitted on."""
        started = time.perf_counter()
        mine, theirs = self._model, other._model
        for what in ("source", "transform", "prompt"):
            if getattr(mine, what) != getattr(theirs, what):
                raise InputError(
                    f"The models differ in their {what}: {_brief(getattr(mine, what))} and "
                    f"{_brief(getattr(theirs, what))}. Only models that read the same responses can be merged."
                )
        gathered = self._gathered()
        gathered.statistics = gathered.statistics + theirs.statistics
        twice = len(set(mine.ledger.entries()) & set(theirs.ledger.entries()))
        gathered.ledger = gathered.ledger.merge(theirs.ledger)
        both = gathered.reservoir is not None and theirs.reservoir is not None
        gathered.reservoir = gathered.reservoir.merge(theirs.reservoir) if both else None  # type: ignore[union-attr,arg-type]
        notes = [f"{twice:,} examples are in both models and now count twice."] if twice else []
        self._settle(gathered, _event("merge", len(theirs.ledger), started), notes)

    def save(self, path: str | Path, *, force: bool = False) -> None:
        """Write the model directory, atomically."""
        write_model(self._model, path, force=force)

    def drop_reservoir(self) -> None:
        """Keep no individual responses; the shrinkage then stays as it is under later changes."""
        self._model = replace(self._model, reservoir=None)

    def _gathered(self) -> Gathered:
        """An independent copy of what was gathered: a verb that fails leaves the classifier as it was."""
        model = self._model
        kept = (
            model.reservoir.merge(Reservoir(model.reservoir.capacity, model.reservoir.seed))
            if model.reservoir
            else None
        )
        return Gathered(model.statistics.copy(), model.ledger.merge(Ledger()), kept)

    def _settle(
        self, gathered: Gathered, event: dict[str, object], notes: list[str], prior: Prior | None = None
    ) -> None:
        model = self._model
        old = model.choice
        rule: str | float = old.shrinkage if old.rule == "fixed" else old.rule
        keep: Choice | None = None
        if rule == "validation" or (rule in ("loo", "k-fold", "ledoit-wolf") and gathered.reservoir is None):
            why = "validation data are" if rule == "validation" else "individual responses are"
            notes = [*notes, f"The shrinkage stays at {old.shrinkage:g}: {why} not kept. To choose anew, fit again."]
            keep = old
        solved = _solve(gathered, rule, prior or model.prior, model.protocol, None, keep)
        self._model = replace(
            solved, source=model.source, transform=model.transform, prompt=model.prompt,
            prompt_arrays=model.prompt_arrays, history=[*model.history, event],
        )  # fmt: skip
        self.notes = notes


@dataclass
class Gathered:
    """What one or more passes leave behind."""

    statistics: ResponseStatistics
    ledger: Ledger
    reservoir: Reservoir | None
    images: int = 0

    def absorb(
        self, stream: ResponseStream, progress: bool, *, known: set[bytes] | None = None, names: list[str] | None = None
    ) -> int:
        """Add a stream; the result is how many of its contents were `known`."""
        again = 0
        for batch in _shown(stream, "fitting", progress):
            labels = batch.labels or []
            self.statistics.update(batch.responses, labels)
            self.ledger.add(batch.digests, labels)
            if self.reservoir is not None:
                self.reservoir.add(batch.responses, labels, batch.digests, groups=batch.groups)
            again += sum(digest in known for digest in batch.digests) if known else 0
            if names is not None:
                names.extend(batch.names)
        self.images += stream.images
        return again


def _solve(
    gathered: Gathered,
    rule: str | float,
    prior: Prior,
    protocol: str,
    held: Validation | None,
    keep: Choice | None = None,
) -> Model:
    """From what was gathered to a mapping."""
    statistics, reservoir = gathered.statistics, gathered.reservoir
    present = int((statistics.counts > 0).sum())
    if present < 2:
        raise InputError(
            f"There is data for {present} class{'es' if present == 0 else ''}; a classifier needs at least 2."
        )
    spectrum = dense_spectrum(statistics)
    members = reservoir.members() if reservoir is not None and len(reservoir) else None
    choice = keep or select_shrinkage(rule, Evidence(statistics, spectrum, members, held, prior))
    if protocol == "paper":
        choice = replace(choice, temperature=1.0)
    mapping = solve_path(statistics, spectrum, [choice.shrinkage], prior=prior)[0]
    delta = spectrum.regularised(choice.shrinkage)[1]
    return Model(statistics, mapping, choice, gathered.ledger, reservoir, prior, protocol, delta)


def _protocol(protocol: str, shrinkage: str | float, prior: Prior) -> tuple[str | float, Prior]:
    if protocol == "default":
        return shrinkage, prior
    if protocol != "paper":
        raise InputError(f"{protocol!r} is no protocol; expected 'default' or 'paper'.")
    if shrinkage not in ("loo", "validation") or prior != "empirical":
        raise InputError(
            "The paper's protocol chooses the shrinkage by validation and uses empirical priors; leave both out."
        )
    return "validation", "empirical"


def _hold(stream: ResponseStream, width: int, progress: bool) -> Validation:
    """Validation responses, kept to be scored under every candidate."""
    parts: list[NDArray[np.floating]] = [np.empty((0, width), dtype=np.float32)]
    labels: list[str] = []
    for batch in _shown(stream, "validation", progress):
        parts.append(np.asarray(batch.responses))
        labels += batch.labels or []
    return np.concatenate(parts), np.array(labels, dtype=np.str_)


def _shown(stream: ResponseStream, what: str, progress: bool) -> Iterator[ResponseBatch]:
    """The stream with a bar on stderr, which stays silent in logs."""
    with tqdm(total=stream.total, desc=what, unit="img", disable=None if progress else True, leave=False) as bar:
        for batch in stream:
            yield batch
            bar.update(len(batch.names))


def _event(verb: str, images: int, started: float) -> dict[str, object]:
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        "verb": verb,
        "images": images,
        "passes": 1 if verb == "fit" else int(images > 0),
        "seconds": round(time.perf_counter() - started, 3),
        "peak_memory_mb": round(peak_memory(), 1),
    }


def _brief(value: object) -> str:
    return repr(value.get("name", value)) if isinstance(value, dict) else repr(value)
