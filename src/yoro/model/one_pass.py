"""The one pass: labelled data in, a model out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from threadpoolctl import threadpool_limits

from yoro.data.examples import Example
from yoro.data.find import find
from yoro.data.response_streams import ResponseStream, collect, identity_of
from yoro.data.responses import ResponseBatch
from yoro.data.roles import Rows, refuse_one_class, to_fit
from yoro.discriminant.calibration import log_prior
from yoro.discriminant.evidence import Validation
from yoro.discriminant.readings import Layout
from yoro.errors import InputError, counted
from yoro.model.gathered import Checkpoint, Gathered, fingerprint
from yoro.model.ledger import find_duplicates
from yoro.model.model import Model, Origin, Verb, difference
from yoro.model.pipeline import Pipeline, make_pipeline
from yoro.model.progress import waiting
from yoro.model.settings import FitSettings
from yoro.model.solve import solve
from yoro.model.views import BothViews, choose_views
from yoro.text.encoded_bank import encoded_bank_of

TOGETHER = 256  # responses that go into the statistics at once; a kill costs at most their forward passes
FEW = 2  # images of a class that are too few to say much
SHOWN = 5  # sentences of one kind in the notes


Pass = Callable[[Sequence[Example], Pipeline, FitSettings], Gathered]  # where images become what was gathered


@dataclass(frozen=True)
class Fitted:
    """What came of a pass: the model, how images are read, and what there is to know besides."""

    model: Model
    pipeline: Pipeline | None = None
    examples: list[Example] = field(default_factory=list)  # that were fitted, in the order of the ledger
    held: list[Example] = field(default_factory=list)  # that were kept to validate on
    notes: list[str] = field(default_factory=list)  # sentences on what was found and done
    doubts: list[str] = field(default_factory=list)  # sentences on labels that a user must see
    skipped: list[tuple[str, str]] = field(default_factory=list)  # images that could not be read, and why


def fit_images(data: object, val: object | None, settings: FitSettings, passing: Pass | None = None) -> Fitted:
    """Read every image to fit once, and solve; `passing` is another place for the pass than this process."""
    verb, sentences = Verb("fit"), settings.sentences
    train, held, names, notes = chosen(data, val, settings)
    log_prior(np.ones(len(names)), tuple(sorted(names)), settings.solve.prior)  # refuses one that does not fit
    pipeline = make_pipeline(settings.pipeline)
    for note in (*notes, *pipeline.source.notes):
        settings.tell(note)
    words, odd = encoded_bank_of(
        pipeline.source, names, replace(sentences, zero_shot=sentences.zero_shot and not settings.solve.paper),
        asked=sentences.asked(settings.shots), seed=settings.solve.seed, progress=settings.progress,
    )  # fmt: skip
    for note in odd:
        settings.tell(note)
    pipeline, gathered, views = in_views(train, pipeline, settings, passing or gather_images)
    verb, validation = replace(verb, more=views), None
    if held and settings.solve.shrinkage == "validation":
        validation = hold(pipeline.stream(held, settings.loading), gathered, settings.progress)
    for note in pipeline.asked_of():
        settings.tell(note)
    verb = replace(verb, images=gathered.images)
    with waiting("solving", settings.progress):
        model = solve(gathered, settings.solve, pipeline.origin(), words=words, validation=validation, verb=verb)
    broken = {name for name, _ in gathered.skipped}
    fitted = [example for example in train if example.name not in broken]
    repeats, conflicts = _duplicates(fitted, gathered)
    for note in repeats:
        settings.tell(note)
    thin = few_images(model) if settings.shots is None else []
    return Fitted(model, pipeline, fitted, held, [*notes, *odd, *repeats], [*conflicts, *thin], gathered.skipped)


def in_views(
    train: Sequence[Example], pipeline: Pipeline, settings: FitSettings, passing: Pass
) -> tuple[Pipeline, Gathered, dict[str, object]]:
    """What a pass gathered, with the pipeline of one view or of two, and what the history says of it."""
    if pipeline.layout.views != 2 or settings.shots == 0:
        return pipeline, passing(train, pipeline, settings), {}
    gathered = passing(train, BothViews(pipeline), settings)
    with waiting("comparing one view with two", settings.progress):
        pipeline, gathered = choose_views(pipeline, gathered, settings.solve)
    if pipeline.layout.views == 1:
        settings.tell("Mirror images are left out: by leave-one-out they do not help here.")
    return pipeline, gathered, {"views": 2}


def fit_responses(data: object, val: object | None, settings: FitSettings) -> Fitted:
    """Read every row to fit once, and solve."""
    asked = settings.sentences.asked(settings.shots)
    if asked or settings.shots is not None:
        raise InputError(f"{asked or '--shots'} is for images; responses are fitted as they are.")
    verb, rule = Verb("fit"), settings.solve.shrinkage
    train, held, notes = to_fit(data, val, rule=rule, seed=settings.solve.seed)
    made_by, other = identity_of(data), identity_of(val)
    if difference(made_by, other):
        raise InputError(f"The data and the validation data differ in {difference(made_by, other)}.")
    origin = Origin(made_by=made_by)
    gathered, validation = nothing_yet(settings, origin.layout), None
    for part in train:
        assert isinstance(part, Rows)
        gather(gathered, part.stream(), progress=settings.progress)
    if isinstance(held, Rows):
        validation = hold(held.stream(), gathered, settings.progress)
    for note in notes:
        settings.tell(note)
    verb = replace(verb, images=gathered.images)
    with waiting("solving", settings.progress):
        model = solve(gathered, settings.solve, origin, validation=validation, verb=verb)
    return Fitted(model, notes=notes, doubts=few_images(model))


def gather(
    gathered: Gathered,
    stream: ResponseStream,
    *,
    progress: bool = False,
    checkpoint: Checkpoint | None = None,
    names: list[str] | None = None,
) -> None:
    """Add a stream to what was gathered; the names of what was added are appended to `names`."""
    done, skipped = 0, 0  # examples dealt with and passed over, as far as they are in the statistics
    waiting: list[ResponseBatch] = []
    whole = True  # whether what was waiting went in completely
    try:
        for batch in stream.shown("fitting", progress):
            waiting.append(batch)
            if names is not None:
                names.extend(batch.names)
            if sum(map(len, waiting)) >= TOGETHER:
                whole = False
                gathered.add(waiting)
                waiting, done, skipped, whole = [], stream.position, len(stream.skipped), True
                if checkpoint is not None:
                    checkpoint.write_if_due(gathered, done, stream.skipped[:skipped])
    except BaseException:
        if checkpoint is not None and whole:  # Ctrl-C, a source that vanished: keep what was paid for
            checkpoint.write(gathered, done, stream.skipped[:skipped])
        raise
    gathered.add(waiting)
    if checkpoint is not None and checkpoint.used:
        checkpoint.write(gathered, stream.position, stream.skipped)  # what follows takes time too
    gathered.skipped += stream.skipped


def hold(stream: ResponseStream, gathered: Gathered, progress: bool) -> Validation:
    """Validation responses, kept to be scored under every candidate."""
    held = collect(stream, "validation", width=gathered.statistics.width, progress=progress)
    gathered.skipped += stream.skipped
    return held.responses, held.labels


def chosen(
    data: object, val: object | None, settings: FitSettings
) -> tuple[list[Example], list[Example], set[str], list[str]]:
    """Images to fit and to validate on, all class names, and what there is to say."""
    named = set(settings.sentences.classes)
    if data is None and (settings.shots != 0 or not named):
        raise InputError("No data came. Give labelled images, or shots=0 and the classes by name (--classes FILE).")
    if settings.shots == 0:
        named |= set(find(data).classes if data is not None else ())
        return [], [], named, [f"{counted(len(named), 'class')} by name; no image is fitted."]
    solving = settings.solve
    rule = "validation" if settings.refine else solving.shrinkage  # what decides on a refinement is held out
    train, held, notes = to_fit(data, val, rule=rule, seed=solving.seed, shots=settings.shots)
    if any(isinstance(part, Rows) for part in (*train, held)):
        raise InputError("A prompt is trained on images, not on responses; give folders or lists of images.")
    examples = [example for part in train if isinstance(part, list) for example in part]
    kept = held if isinstance(held, list) else []
    names = named | {example.label or "" for example in examples}
    refuse_one_class(names, data)
    return examples, kept, names, notes


def gather_images(examples: Sequence[Example], pipeline: Pipeline, settings: FitSettings) -> Gathered:
    """The one pass over the images, from the start or from a checkpoint."""
    gathered, done = nothing_yet(settings, pipeline.layout), 0
    if settings.shots == 0:
        return gathered
    place = None
    if settings.checkpoint is not None:
        place = Checkpoint(settings.checkpoint, fingerprint(examples, facts_of(pipeline, settings)))
        gathered, done = (place.read() if settings.resume else None) or (gathered, 0)
    with threadpool_limits(1, user_api="blas"):  # the cores belong to decoding and the forward pass
        stream = pipeline.stream(examples[done:], settings.loading)
        gather(gathered, stream, progress=settings.progress, checkpoint=place)
    refuse_nothing(gathered, len(examples))
    return gathered


def nothing_yet(settings: FitSettings, layout: Layout | None) -> Gathered:
    """What a pass starts with."""
    return Gathered.empty(settings.solve.reservoir, settings.solve.seed, layout, noting=settings.ledger)


def facts_of(pipeline: Pipeline, settings: FitSettings) -> dict[str, object]:
    """What the outcome of a pass depends on besides the images."""
    told: dict[str, object] = {} if settings.ledger else {"ledger": False}
    return {**pipeline.describe(), "reservoir": settings.solve.reservoir, "seed": settings.solve.seed, **told}


def refuse_nothing(gathered: Gathered, asked: int) -> None:
    """Raise if no image could be read."""
    if gathered.images == 0:
        why = f"; the first: {gathered.skipped[0][1]}" if gathered.skipped else "."
        raise InputError(f"None of {counted(asked, 'image')} could be read{why}")


def few_images(model: Model) -> list[str]:
    """A sentence on classes of one or two images, if there are any; sentences may speak for them instead."""
    counts = zip(model.statistics.counts.tolist(), model.statistics.classes, strict=True)
    few = sorted((n, name) for n, name in counts if 0 < n <= FEW)
    if not few or model.words is not None:
        return []
    named = ", ".join(f"{name!r} ({n:g})" for n, name in few[:SHOWN])
    more = f" and {counted(len(few) - SHOWN, 'more class')}" if len(few) > SHOWN else ""
    told = f"{counted(len(few), 'class')} of one or two images: {named}{more}."
    return [f"{told} So few teach little, and leave-one-out says little of them: add images."]


def _duplicates(examples: Sequence[Example], gathered: Gathered) -> tuple[list[str], list[str]]:
    """Sentences on images that are there twice: in their class, and under two labels."""
    again = gathered.ledger.repeated()
    names = [examples[row].name for row, _, _ in again]
    found = find_duplicates((digest.hex() for _, digest, _ in again), (label for _, _, label in again), names)
    conflicts = [str(conflict) for conflict in found.conflicts[:SHOWN]]
    if len(found.conflicts) > SHOWN:
        conflicts.append(f"{counted(len(found.conflicts) - SHOWN, 'more image')} under two labels.")
    repeats = counted(len(found.repeats), "image")
    return [f"Twice in their class: {repeats}, such as {found.repeats[0].name!r}."] if found.repeats else [], conflicts
