"""`yoro.fit`: one pass over labelled data, and a classifier at its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from yoro.data.examples import Example
from yoro.data.find import find
from yoro.data.roles import choose_examples, fitted_too
from yoro.data.streams import ResponseStream, is_response_data, open_responses
from yoro.discriminant.calibration import Prior
from yoro.discriminant.reservoir import CAPACITY, Reservoir
from yoro.discriminant.selection import Validation
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError, SelectionError
from yoro.model.classifier import Classifier, event
from yoro.model.ledger import Ledger
from yoro.model.one_pass import Checkpoint, Gathered, duplicates_in, fingerprint, shown
from yoro.model.pipeline import BATCH, DEFAULT_SOURCE, Pipeline, Reading, make_pipeline
from yoro.model.solve import solve
from yoro.refining.settings import Settings as Refining
from yoro.refining.settings import check_torch
from yoro.text.banks import EACH, Sentences
from yoro.text.encoded_bank import Wording, wording_of

SHOWN = 5  # sentences of one kind in the notes


@dataclass(frozen=True)
class Settings:
    """What decides the mapping once the responses are known."""

    rule: str | float
    prior: Prior
    protocol: str
    reservoir: int
    seed: int


@dataclass(frozen=True)
class Words:
    """What a user says of the sentences that an image-text source compares images with."""

    attributes: str | Path | Sentences | None
    each: int
    classes: tuple[str, ...]  # known by their sentences alone, if there are no images of them
    votes: bool
    shots: int | None

    @property
    def asked(self) -> str | None:
        """The first option given that only an image-text source understands."""
        given = {"attributes": self.attributes is not None, "classes": bool(self.classes), "shots 0": self.shots == 0}
        return next((f"--{name}" for name, there in given.items() if there), None)


def _silence(_: str) -> None:
    """Tell nobody."""


def fit(
    data: object = None,
    *,
    val: object | None = None,
    shots: int | None = None,
    source: str = DEFAULT_SOURCE,
    attributes: str | Path | Sentences | None = None,
    sentences: int = EACH,
    classes: Sequence[str] = (),
    zero_shot: bool = True,
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
    shots
        Fit only this many images a class, drawn by the seed; beside them the rule "validation" draws
        at most four a class. 0 fits no image: an image-text source then answers by its sentences.
    attributes, sentences, classes, zero_shot
        For an image-text source: the bank of sentences (a JSON file or mapping {class: [sentences]},
        "templates" or "names"), how many are drawn a class, classes besides those of the data, and
        whether the sentences take part in the answer or only make up the response.
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
    words = Words(attributes, sentences, tuple(classes), zero_shot and protocol != "paper", shots)
    if refine:
        check_torch()
    if is_response_data(data) and not refine:
        return _fit_responses(data, val, settings, words, progress, tell)
    started = time.perf_counter()
    train, held, names, notes = _chosen(data, val, replace(settings, rule="validation") if refine else settings, words)
    pipeline = make_pipeline(source, read=read, prompt=prompt, frame=frame, image_side=image_side, device=device)
    for note in notes:
        tell(note)
    wording = _wording(pipeline, names, settings, words, progress, tell)
    reading = Reading(batch_size, workers, strict)
    gathered = _empty(settings)
    if shots != 0:
        place = _place(checkpoint, train, pipeline, settings)
        gathered = _pass(train, pipeline, settings, reading, place, resume, progress)
    validation = None
    if held and settings.rule == "validation":
        stream = pipeline.stream(held, reading)
        validation = _hold(stream, pipeline.source.width, progress)
        gathered.skipped += stream.skipped
    classifier = _finished(train, gathered, pipeline, settings, validation, wording)
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
    wording: Wording | None,
) -> Classifier:
    """The classifier of what was gathered, with notes on images that are there twice."""
    model = solve(gathered, settings.rule, settings.prior, settings.protocol, validation=validation, wording=wording)
    described = pipeline.describe()
    model.source, model.prompt, model.transform = described["source"], described["prompt"], described["transform"]
    model.prompt_arrays = dict(pipeline.prompt.arrays())
    broken = {name for name, _ in gathered.skipped}
    fitted = [example for example in examples if example.name not in broken]
    classifier = Classifier(model, pipeline=pipeline, notes=_duplicate_notes(fitted, gathered))
    classifier.skipped, classifier.fitted = gathered.skipped, fitted
    return classifier


def _chosen(
    data: object, val: object | None, settings: Settings, words: Words
) -> tuple[list[Example], list[Example], set[str], list[str]]:
    """Images to fit and to validate on, all class names, and what there is to say."""
    if data is None and (words.shots != 0 or not words.classes):
        raise InputError("No data came. Give labelled images, or shots=0 and the classes by name (--classes FILE).")
    if words.shots is not None and words.shots < 0:
        raise InputError(f"{words.shots} images a class were asked for; expected 0 or more.")
    if words.shots == 0:
        named = set(words.classes) | set(find(data).classes if data is not None else ())
        return [], [], named, [f"{len(named)} classes by name; no image is fitted."]
    train, held, notes = choose_examples(data, val, rule=settings.rule, seed=settings.seed, shots=words.shots)
    named = set(words.classes) | {example.label or "" for example in train}
    return train, held, named, notes


def _wording(
    pipeline: Pipeline,
    names: set[str],
    settings: Settings,
    words: Words,
    progress: bool,
    tell: Callable[[str], None],
) -> Wording | None:
    """The sentences of an image-text source; None for any other, which must not be asked for them."""
    wording, notes = wording_of(
        pipeline.source, names, words.attributes, asked=words.asked,
        each=words.each, seed=settings.seed, votes=words.votes, progress=progress,
    )  # fmt: skip
    for note in notes:
        tell(note)
    return wording


def _fit_responses(
    data: object,
    val: object | None,
    settings: Settings,
    words: Words,
    progress: bool,
    tell: Callable[[str], None],
) -> Classifier:
    if words.asked or words.shots is not None:
        raise InputError(f"{words.asked or '--shots'} is for images; responses are fitted as they are.")
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
            notes = [fitted_too(extra.images, settings.rule)]
            tell(notes[0])
    model = solve(gathered, settings.rule, settings.prior, settings.protocol, validation=validation)
    model.history.append(event("fit", gathered.images, started))
    return Classifier(model, notes=notes)


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


def _duplicate_notes(examples: Sequence[Example], gathered: Gathered) -> list[str]:
    found = duplicates_in(gathered.ledger, [example.name for example in examples])
    notes = [str(conflict) for conflict in found.conflicts[:SHOWN]]
    if len(found.conflicts) > SHOWN:
        notes.append(f"{len(found.conflicts) - SHOWN} more images stand under two labels.")
    if found.repeats:
        notes.append(f"Twice in their class: {len(found.repeats):,} images, such as {found.repeats[0].name!r}.")
    return notes
