"""`yoro.fit`: one pass over labelled data, and a classifier at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from yoro.classifier import Classifier, event, solve
from yoro.confidence import Prior
from yoro.data.examples import Dataset, Example
from yoro.data.finding import find
from yoro.data.splits import describe_hold_out, hold_out
from yoro.errors import InputError, SelectionError
from yoro.gathering import Checkpoint, Gathered, duplicates_in, fingerprint, shown
from yoro.ledger import Ledger
from yoro.pipeline import BATCH, DEFAULT_SOURCE, Pipeline, Reading, make_pipeline
from yoro.refining.settings import Settings as Refining
from yoro.refining.settings import check_torch
from yoro.reservoir import CAPACITY, Reservoir
from yoro.selection import Validation
from yoro.statistics import ResponseStatistics
from yoro.streams import ResponseStream, is_response_data, open_responses

HOLD_OUT = 0.1  # of the images of each class, where a rule needs validation data and none are given
SHOWN = 5  # sentences of one kind in the notes


@dataclass(frozen=True)
class Settings:
    """What decides the mapping once the responses are known."""

    rule: str | float
    prior: Prior
    protocol: str
    reservoir: int
    seed: int


def _silence(_: str) -> None:
    """Tell nobody."""


def fit(
    data: object,
    *,
    val: object | None = None,
    source: str = DEFAULT_SOURCE,
    read: str = "logits",
    prompt: str = "watermark",
    frame: str | float = "grey",
    image_side: int | None = None,
    shrinkage: str | float = "loo",
    prior: Prior = "empirical",
    protocol: str = "default",
    refine: int = 0,
    reservoir: int = CAPACITY,
    seed: int = 0,
    device: str = "auto",
    batch_size: int = BATCH,
    workers: int | None = 0,
    strict: bool = False,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: bool = False,
    tell: Callable[[str], None] = _silence,
) -> Classifier:
    """Fit a classifier in one forward-only pass.

    Parameters
    ----------
    data, val
        A folder of images, a list file, an iterable of (image, label), or responses: a response
        file or (responses, labels). Validation data serve the rule "validation" alone; every other
        rule fits them too, because it needs no data held out.
    source, read, prompt, frame, image_side, device
        Which frozen model reads the images, at its "logits" or "features", and behind which prompt.
    shrinkage, prior
        See `DiscriminantMapping`.
    protocol
        "paper" is the paper and nothing else: the validation rule on its grid, logits, empirical
        priors, plain softmax.
    refine
        Epochs of prompt training after the pass (YORO-FP; needs the extra torch). Validation images are then held
        out under every rule: they decide whether the refined model is returned, or the one-pass model unchanged.
    reservoir, seed
        How many individual responses are kept, and the seed of every draw.
    batch_size, workers, strict
        Images read together, processes that decode them (None: one for each core; a library starts
        none by itself), and whether an image that cannot be read is an error.
    checkpoint, resume
        A folder that keeps what was gathered so far, and whether to go on from it. It is the
        caller's to remove once the classifier is saved.
    tell
        Called with each sentence of `Classifier.notes` as soon as it is known.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> labels = np.array(["cat", "dog"] * 50)
    >>> responses = rng.normal(size=(100, 8)) + 2.0 * (labels == "dog")[:, None]
    >>> fit((responses, labels)).predict(responses[:2])
    ['cat', 'dog']
    """
    rule, prior = _protocol(protocol, shrinkage, prior, read)
    settings = Settings(rule, prior, protocol, reservoir, seed)
    if refine:
        check_torch()
    if is_response_data(data) and not refine:
        return _fit_responses(data, val, settings, progress, tell)
    started = time.perf_counter()
    train, held, notes = _examples(data, val, replace(settings, rule="validation") if refine else settings)
    pipeline = make_pipeline(source, read=read, prompt=prompt, frame=frame, image_side=image_side, device=device)
    for note in notes:
        tell(note)
    reading = Reading(batch_size, workers, strict)
    place = _place(checkpoint, train, pipeline, settings)
    gathered = _pass(train, pipeline, settings, reading, place, resume, progress)
    validation = None
    if held and settings.rule == "validation":
        stream = pipeline.stream(held, reading)
        validation = _hold(stream, pipeline.source.width, progress)
        gathered.skipped += stream.skipped
    classifier = _finished(train, gathered, pipeline, settings, validation)
    classifier.model.history.append(event("fit", gathered.images, started))
    for note in classifier.notes:
        tell(note)
    classifier.notes = [*notes, *classifier.notes]
    return _refined(classifier, train, held, settings, refine, device, progress, tell) if refine else classifier


def _refined(
    classifier: Classifier,
    train: list[Example],
    held: list[Example],
    settings: Settings,
    epochs: int,
    device: str,
    progress: bool,
    tell: Callable[[str], None],
) -> Classifier:
    """The classifier after a few epochs of prompt training, or as it is if they did not help."""
    from yoro.refining.few_pass import refine

    chosen = Refining(epochs=epochs, protocol=settings.protocol, seed=settings.seed)
    result, refinement = refine(classifier, train, held, settings=chosen, device=device, progress=progress, tell=tell)
    result.skipped, result.fitted = classifier.skipped, classifier.fitted
    result.notes = [*classifier.notes, refinement.why]
    return result


def _pass(
    examples: Sequence[Example],
    pipeline: Pipeline,
    settings: Settings,
    reading: Reading,
    place: Checkpoint | None,
    resume: bool,
    progress: bool,
) -> Gathered:
    """The one pass over the images, from the start or from a checkpoint."""
    before = place.read() if place is not None and resume else None
    gathered, done = before if before is not None else (_empty(settings), 0)
    with threadpool_limits(1, user_api="blas"):  # the cores belong to decoding and the forward pass
        gathered.absorb(pipeline.stream(examples[done:], reading), progress=progress, checkpoint=place)
    if gathered.images == 0:
        raise InputError(f"None of the {len(examples):,} images could be read; the first: {gathered.skipped[0][1]}")
    return gathered


def _finished(
    examples: Sequence[Example],
    gathered: Gathered,
    pipeline: Pipeline,
    settings: Settings,
    validation: Validation | None,
) -> Classifier:
    """The classifier of what was gathered, with notes on images that are there twice."""
    model = solve(gathered, settings.rule, settings.prior, settings.protocol, validation=validation)
    described = pipeline.describe()
    model.source, model.prompt, model.transform = described["source"], described["prompt"], described["transform"]
    model.prompt_arrays = dict(pipeline.prompt.arrays())
    broken = {name for name, _ in gathered.skipped}
    fitted = [example for example in examples if example.name not in broken]
    classifier = Classifier(model, pipeline=pipeline, notes=_duplicate_notes(fitted, gathered))
    classifier.skipped, classifier.fitted = gathered.skipped, fitted
    return classifier


def _fit_responses(
    data: object, val: object | None, settings: Settings, progress: bool, tell: Callable[[str], None]
) -> Classifier:
    if settings.rule == "validation" and val is None:
        raise SelectionError(
            "The rule 'validation' needs validation data, and there are none. Give them with --val (val=...), "
            "or use a rule that works without: loo, oas, rblw, ledoit-wolf, a number from 0 to 1."
        )
    started = time.perf_counter()
    gathered, notes, validation = _empty(settings), [], None
    gathered.absorb(open_responses(data, labelled=True), progress=progress)  # type: ignore[arg-type]
    if val is not None:
        extra = open_responses(val, labelled=True)  # type: ignore[arg-type]
        if settings.rule == "validation":
            validation = _hold(extra, gathered.statistics.width, progress)
        else:
            gathered.absorb(extra, progress=progress)
            notes = [_fitted_too(extra.images, settings.rule)]
            tell(notes[0])
    model = solve(gathered, settings.rule, settings.prior, settings.protocol, validation=validation)
    model.history.append(event("fit", gathered.images, started))
    return Classifier(model, notes=notes)


def _examples(data: object, val: object | None, settings: Settings) -> tuple[list[Example], list[Example], list[str]]:
    """Images to fit, images to validate on, and sentences on what was found and done."""
    found = find(data)
    notes = list(found.notes)
    train = list(found.select("train") if "train" in found.splits else _without(found, ("val", "test")))
    held = [e for e in found if e.split == "val"] if val is None else _renamed(find(val), val, train)
    tests = sum(example.split == "test" for example in found)
    if tests:
        notes.append(f"The {tests:,} images of the test split are left alone.")
    if held and settings.rule != "validation":
        notes.append(_fitted_too(len(held), settings.rule))
        train, held = train + held, []
    classes = {example.label for example in train}
    notes.insert(0, f"Found {len(train):,} images of {len(classes)} classes to fit.")
    if settings.rule == "validation" and not held:
        labels = [example.label or "" for example in train]
        groups = [example.group for example in train]
        names = [example.name for example in train]
        kept, out = hold_out(labels, HOLD_OUT, settings.seed, groups, names=names)
        if not len(out):
            raise SelectionError(
                "The rule 'validation' needs validation images, and the classes are too small to hold any out. "
                "Rules that work here: loo, oas, rblw, ledoit-wolf, a number from 0 to 1."
            )
        notes.append(describe_hold_out(labels, kept, out, settings.seed))
        train, held = [train[i] for i in kept], [train[i] for i in out]
    return train, held, notes


def _renamed(held: Dataset, val: object, train: list[Example]) -> list[Example]:
    """Validation examples under names that no training example has, so that a name tells which is meant."""
    if {example.name for example in held}.isdisjoint(example.name for example in train):
        return list(held)
    place = str(val) if isinstance(val, str | Path) else "validation"
    return [replace(example, name=f"{place}: {example.name}") for example in held]


def _without(found: Dataset, splits: tuple[str, ...]) -> list[Example]:
    rest = [example for example in found if example.split not in splits]
    if not rest:
        raise InputError(f"The data have the splits {', '.join(found.splits)} but no training images to fit.")
    return rest


def _place(
    checkpoint: str | Path | None, examples: Sequence[Example], pipeline: Pipeline, settings: Settings
) -> Checkpoint | None:
    if checkpoint is None:
        return None
    facts = {**pipeline.describe(), "reservoir": settings.reservoir, "seed": settings.seed}
    return Checkpoint(Path(checkpoint), fingerprint(examples, facts))


def _empty(settings: Settings) -> Gathered:
    kept = Reservoir(settings.reservoir, settings.seed) if settings.reservoir else None
    return Gathered(ResponseStatistics(), Ledger(), kept)


def _hold(stream: ResponseStream, width: int, progress: bool) -> Validation:
    """Validation responses, kept to be scored under every candidate."""
    parts: list[NDArray[np.floating]] = [np.empty((0, width), dtype=np.float32)]
    labels: list[str] = []
    for batch in shown(stream, "validation", progress):
        parts.append(np.asarray(batch.responses))
        labels += batch.labels or []
    return np.concatenate(parts), np.array(labels, dtype=np.str_)


def _protocol(protocol: str, shrinkage: str | float, prior: Prior, read: str) -> tuple[str | float, Prior]:
    if protocol == "default":
        return shrinkage, prior
    if protocol != "paper":
        raise InputError(f"{protocol!r} is no protocol; expected 'default' or 'paper'.")
    if shrinkage not in ("loo", "validation") or prior != "empirical" or read != "logits":
        raise InputError(
            "The paper's protocol chooses the shrinkage by validation, uses empirical priors and reads logits; "
            "leave these options out."
        )
    return "validation", "empirical"


def _fitted_too(count: int, rule: str | float) -> str:
    return f"The {count:,} validation examples are fitted too: the rule {str(rule)!r} needs none held out."


def _duplicate_notes(examples: Sequence[Example], gathered: Gathered) -> list[str]:
    found = duplicates_in(gathered.ledger, [example.name for example in examples])
    notes = [str(conflict) for conflict in found.conflicts[:SHOWN]]
    if len(found.conflicts) > SHOWN:
        notes.append(f"{len(found.conflicts) - SHOWN} more images stand under two labels.")
    if found.repeats:
        notes.append(f"Twice in their class: {len(found.repeats):,} images, such as {found.repeats[0].name!r}.")
    return notes
