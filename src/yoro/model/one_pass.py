"""The one pass: data of any kind in, gathered by an engine, a model out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from yoro.data.examples import Example
from yoro.data.find import find
from yoro.data.python_data import integer_labels
from yoro.data.response_streams import ResponseStream, collect, identity_of, is_response_data, open_responses
from yoro.data.responses import ResponseBatch
from yoro.data.roles import Rows, refuse_one_class, to_fit, to_measure
from yoro.data.row_files import RowFiles, places_of
from yoro.discriminant.calibration import log_prior
from yoro.discriminant.evidence import Validation
from yoro.discriminant.leave_one_out import sample_size
from yoro.errors import InputError, counted
from yoro.model.card import FAST
from yoro.model.checkpoint import Checkpoint, fingerprint
from yoro.model.fast_source import choose_fast
from yoro.model.gathered import Gathered
from yoro.model.ledger import find_duplicates
from yoro.model.model import Model, Origin, Verb, difference
from yoro.model.pipeline import Pipeline, make_pipeline
from yoro.model.settings import FitSettings, Loading, SolveSettings
from yoro.model.solve import solve
from yoro.model.views import BothViews, preferred_views
from yoro.text.encoded_bank import EncodedBank, encoded_bank_of

ROWS_PER_UPDATE = 256  # responses that go into the statistics at once; a kill costs at most their forward passes
FAR = 1e3  # times the median length: a longer response dominates the covariance
FEW = 2  # images per class that are too few to evaluate
SHOWN = 5  # sentences of one kind in the notes

FITTED = ("", "train", "val")  # the splits that are fitted where none is held out

DataPart = list[Example] | Rows | RowFiles


class Engine(Protocol):
    """Where a pass runs: in this process, or on a cluster."""

    @property
    def lists_files(self) -> bool:
        """Whether Parquet and WebDataset files are listed before they are read, as all that draws or splits needs."""

    def gather(self, parts: Sequence[DataPart], read_by: Pipeline | Origin, settings: FitSettings) -> Gathered:
        """What a fit keeps of all parts: images that a pipeline reads, or responses that come from an origin."""


@dataclass(frozen=True)
class ThisProcess:
    """The engine that needs nothing else; `change` is applied to each batch before it is added."""

    change: Callable[[ResponseBatch], ResponseBatch] | None = None
    lists_files: bool = True

    def gather(self, parts: Sequence[DataPart], read_by: Pipeline | Origin, settings: FitSettings) -> Gathered:
        """See `Engine`; images from the start or from a checkpoint."""
        kept, seed = settings.solve.reservoir, settings.solve.seed
        gathered, done, checkpoint = Gathered.empty(kept, seed, read_by.layout, noting=settings.ledger), 0, None
        if not isinstance(read_by, Pipeline):
            streams = [stream_of(part, read_by, settings.loading) for part in parts]
        else:
            examples = [example for part in parts if isinstance(part, list) for example in part]
            if settings.checkpoint is not None and parts:
                checkpoint = Checkpoint(settings.checkpoint, fingerprint(examples, facts_of(read_by, settings)))
                gathered, done = (checkpoint.read() if settings.resume else None) or (gathered, 0)
            streams = [read_by.stream(examples[done:], settings.loading)]
        # During a forward pass the cores are for the network and for decoding.
        with threadpool_limits(1, user_api="blas") if isinstance(read_by, Pipeline) else nullcontext():
            for stream in streams:
                chosen = stream if self.change is None else _changed(stream, self.change)
                gather(gathered, chosen, progress=settings.progress, checkpoint=checkpoint)
        return gathered


@dataclass(frozen=True)
class PassPlan:
    """What a pass reads, known before the first of it is read."""

    train: list[DataPart]
    held: list[Example] | Rows  # to validate on
    notes: list[str]
    names: set[str] | None = None  # of the classes; None where the data tell once they are read
    origin: Origin | None = None  # of responses; None for images

    @property
    def examples(self) -> list[Example]:
        """The images to fit, as far as they are listed."""
        return [example for part in self.train if isinstance(part, list) for example in part]


@dataclass(frozen=True)
class PassResult:
    """The outcome of a pass: the model, how images are read, and notes for the user."""

    model: Model
    pipeline: Pipeline | None = None
    examples: list[Example] = field(default_factory=list)  # that were fitted, in the order of the ledger
    notes: list[str] = field(default_factory=list)  # sentences on what was found and done
    doubts: list[str] = field(default_factory=list)  # sentences on labels that a user must see
    skipped: list[tuple[str, str]] = field(default_factory=list)  # images that could not be read, and why


def fit_model(
    data: object, val: object | None, settings: FitSettings, engine: Engine | None = None, unlabelled: object = None
) -> PassResult:
    """Read everything that is to be fitted once, where the engine runs, and solve.

    Unlabelled data are read in this process, after the labelled ones.
    """
    verb, engine = Verb("fit", integers=integer_labels(data)), engine or ThisProcess()
    plan = plan_pass(data, val, settings, listed=engine.lists_files)
    names, words, notes = plan.names, None, list(plan.notes)
    if plan.origin is None:
        settings, fast = choose_fast(plan.examples, settings)
        verb = replace(verb, more={FAST: fast} if fast else {})
        notes += [fast] if fast else []
    if names is not None and settings.shots != 0:
        refuse_one_class(names, data)
    if names is not None:
        log_prior(np.ones(len(names)), tuple(sorted(names)), settings.solve.prior)  # refuses one that does not fit
    pipeline = make_pipeline(settings.pipeline) if plan.origin is None else None
    for note in () if pipeline is None else (*notes, *pipeline.source.notes):
        settings.tell(note)
    if pipeline is not None and names is not None:
        words = _sentences(pipeline, names, settings, notes)
    read_by, gathered, views = in_views(plan.train, pipeline or plan.origin or Origin(), settings, engine)
    if pipeline is not None and names is None:
        names = set(settings.sentences.classes) | set(gathered.statistics.classes)
        refuse_one_class(names, data)
        words = _sentences(pipeline, names, settings, notes)
    if unlabelled is not None:
        stream, found = unlabelled_stream(unlabelled, read_by, settings.loading)
        notes += found + add_pile(gathered, stream, settings.solve, settings.progress)
    validation = None
    if len(plan.held) and settings.solve.shrinkage == "validation":
        validation = hold(stream_of(plan.held, read_by, settings.loading), gathered, settings.progress)
    for note in notes if pipeline is None else pipeline.asked_of():
        settings.tell(note)
    origin, verb = origin_of(read_by), replace(verb, images=gathered.images, more={**verb.more, **views})
    with waiting("solving", settings.progress):
        model = solve(gathered, settings.solve, origin, words=words, evidence=validation, verb=verb)
    broken = {name for name, _ in gathered.skipped}
    examples = [example for example in plan.examples if example.name not in broken]
    repeats, conflicts = _duplicates(examples, gathered) if examples else ([], [])
    repeats += [*far_responses(gathered, [example.name for example in examples]), *sampled_choice(model)]
    repeats += [*pile_notes(model), *network_notes(model)]
    for note in repeats:
        settings.tell(note)
    thin = few_images(model) if settings.shots is None else []
    return PassResult(
        model, read_by if isinstance(read_by, Pipeline) else None, examples,
        [*notes, *repeats], [*conflicts, *thin], gathered.skipped,
    )  # fmt: skip


def plan_pass(data: object, val: object | None, settings: FitSettings, *, listed: bool = True) -> PassPlan:
    """What is fitted and what is validated on; settings that do not suit the data are refused."""
    if is_response_data(data):
        return _plan_responses(data, val, settings)
    named, rule = set(settings.sentences.classes), settings.solve.shrinkage
    if data is None and (settings.shots != 0 or not named):
        raise InputError("No data given. Give labelled images, or shots=0 and the classes by name (--classes FILE).")
    if settings.shots == 0:
        named |= set(find(data).classes if data is not None else ())
        return PassPlan([], [], [f"{counted(len(named), 'class')} by name; no image is fitted."], named)
    whole = settings.shots is None and (val is not None) == (rule == "validation")
    places = places_of(data) if whole and not listed else None
    if places is not None:  # nothing is drawn from them or held out of them
        held, notes = to_measure(val) if val is not None else ([], [])
        return PassPlan(
            [RowFiles(tuple(places), FITTED)], held, [f"Found {counted(len(places), 'file')} to fit.", *notes]
        )
    train, held, notes = to_fit(data, val, rule=rule, seed=settings.solve.seed, shots=settings.shots)
    plan = PassPlan(list(train), held, notes)
    return replace(plan, names=named | {example.label or "" for example in plan.examples})


def _plan_responses(data: object, val: object | None, settings: FitSettings) -> PassPlan:
    asked = settings.sentences.asked(settings.shots)
    if asked or settings.shots is not None:
        raise InputError(f"{asked or '--shots'} is for images; responses are fitted as they are.")
    train, held, notes = to_fit(data, val, rule=settings.solve.shrinkage, seed=settings.solve.seed)
    made_by, other = identity_of(data), identity_of(val)
    if difference(made_by, other):
        raise InputError(f"The data and the validation data differ in {difference(made_by, other)}.")
    return PassPlan(list(train), held, notes, origin=Origin(made_by=made_by))


def _sentences(pipeline: Pipeline, names: set[str], settings: FitSettings, notes: list[str]) -> EncodedBank | None:
    """The class descriptions of an image-text backbone; notes on them are told to the user and added to `notes`."""
    chosen = replace(settings.sentences, zero_shot=settings.sentences.zero_shot and not settings.solve.paper)
    asked = settings.sentences.asked(settings.shots)
    words, odd = encoded_bank_of(
        pipeline.source, names, chosen, asked=asked, seed=settings.solve.seed, progress=settings.progress
    )
    for note in odd:
        settings.tell(note)
    notes += odd
    return words


def in_views(
    parts: Sequence[DataPart], read_by: Pipeline | Origin, settings: FitSettings, engine: Engine
) -> tuple[Pipeline | Origin, Gathered, dict[str, object]]:
    """What a pass gathered, with the pipeline of one view or of two, and what the history says of it."""
    if not isinstance(read_by, Pipeline) or read_by.layout.views != 2 or settings.shots == 0:
        return read_by, gather_parts(parts, read_by, settings, engine), {}
    gathered = gather_parts(parts, BothViews(read_by), settings, engine)
    with waiting("comparing one view with two", settings.progress):
        views, gathered = preferred_views(read_by.layout, gathered, settings.solve)
    pipeline = replace(read_by, layout=replace(read_by.layout, views=views))
    if views == 1:
        settings.tell("Mirror images are not used: leave-one-out shows no gain.")
    return pipeline, gathered, {"views": 2}


def gather_parts(
    parts: Sequence[DataPart], read_by: Pipeline | Origin, settings: FitSettings, engine: Engine
) -> Gathered:
    """What the engine gathered; an error if no image could be read."""
    gathered = engine.gather(parts, read_by, settings)
    if isinstance(read_by, Pipeline) and gathered.images == 0 and gathered.skipped:
        asked = counted(len(gathered.skipped), "image")
        raise InputError(f"None of {asked} could be read; the first: {gathered.skipped[0][1]}")
    return gathered


def origin_of(read_by: Pipeline | Origin) -> Origin:
    """The origin that a model records: that of the pipeline, or the one given."""
    return read_by.origin() if isinstance(read_by, Pipeline) else read_by


def stream_of(part: DataPart, read_by: Pipeline | Origin, loading: Loading) -> ResponseStream:
    """One traversal of a part."""
    if isinstance(part, Rows):
        return part.stream()
    if not isinstance(read_by, Pipeline) or not isinstance(part, list):
        raise InputError("This model was fitted on responses; give responses, not images.")
    return read_by.stream(part, loading)


def _changed(stream: ResponseStream, change: Callable[[ResponseBatch], ResponseBatch]) -> ResponseStream:
    """The stream with every batch changed; what is left of none is not handed out."""

    def batches(result: ResponseStream) -> Iterator[ResponseBatch]:
        result.skipped = stream.skipped
        for batch in stream:
            result.position = stream.position
            if len(changed := change(batch)):
                yield changed

    return ResponseStream(batches, stream.total)


@contextmanager
def waiting(what: str, shown: bool) -> Iterator[None]:
    """Show a message while something is done; like a progress bar, only on a terminal."""
    with tqdm(desc=f"{what} ...", bar_format="{desc}", disable=None if shown else True, leave=False):
        yield


def gather(
    gathered: Gathered, stream: ResponseStream, *, progress: bool = False, checkpoint: Checkpoint | None = None
) -> None:
    """Add a stream to what was gathered, in a thread beside the reading of what comes next."""
    pending: list[ResponseBatch] = []
    done, skipped = 0, 0  # examples dealt with and passed over, as far as they are in the statistics

    def add(batches: list[ResponseBatch], position: int, passed: int) -> None:
        nonlocal done, skipped
        gathered.add(batches)
        done, skipped = position, passed
        if checkpoint is not None:
            checkpoint.write_if_due(gathered, done, stream.skipped[:skipped])

    with ThreadPoolExecutor(1, thread_name_prefix="yoro-gather") as beside:
        adding = beside.submit(add, [], 0, 0)
        try:
            for batch in stream.shown("fitting", progress):
                pending.append(batch)
                if sum(map(len, pending)) >= ROWS_PER_UPDATE:
                    adding.result()
                    adding, pending = beside.submit(add, pending, stream.position, len(stream.skipped)), []
            adding.result()
        except BaseException:
            if checkpoint is not None and adding.exception() is None:
                # Ctrl-C, a source that vanished: keep what was paid for; nothing, if an addition broke off
                checkpoint.write(gathered, done, stream.skipped[:skipped])
            raise
    gathered.add(pending)
    if checkpoint is not None and checkpoint.used:
        checkpoint.write(gathered, stream.position, stream.skipped)  # what follows takes time too
    gathered.skipped += stream.skipped


def unlabelled_stream(
    unlabelled: object, read_by: Pipeline | Origin, loading: Loading
) -> tuple[ResponseStream, list[str]]:
    """The responses of unlabelled images, or of a response file whose labels are not read; and notes on them."""
    if is_response_data(unlabelled):
        odd = difference(origin_of(read_by).identity(), identity_of(unlabelled))
        if odd:
            raise InputError(f"The labelled and the unlabelled data differ in {odd}.")
        return open_responses(unlabelled, labelled=False), []  # type: ignore[arg-type]
    if not isinstance(read_by, Pipeline):
        raise InputError("The labelled data are responses and the unlabelled ones images; give both as the same kind.")
    found = find(unlabelled, labelled=False)
    return read_by.stream(found.examples, loading), list(found.notes)


def add_pile(gathered: Gathered, stream: ResponseStream, settings: SolveSettings, progress: bool) -> list[str]:
    """Add unlabelled responses to what was gathered; returns notes on what was not kept."""
    capacity = settings.reservoir or SolveSettings.reservoir
    offered = gathered.add_unlabelled(stream.shown("reading the pile", progress), capacity, settings.seed)
    gathered.skipped += stream.skipped
    kept = 0 if gathered.pile is None else len(gathered.pile)
    if kept < offered:
        return [f"Learning from a sample of {kept:,} of the {offered:,} unlabelled images."]
    return []


def network_notes(model: Model) -> list[str]:
    """A sentence on networks that predictions do not use, if there are any."""
    names, answering = model.statistics.layout.networks, model.answering
    silent = [name for name in names if name not in answering]
    if not silent:
        return []
    run = ", ".join(name for name in names if name in answering)
    return [f"Predictions use only {run}; leave-one-out shows no gain from {', '.join(silent)}."]


def pile_notes(model: Model) -> list[str]:
    """A sentence on what unlabelled images were worth."""
    pile, chosen = model.gathered.pile, model.choice.pile
    if pile is None:
        return []
    if chosen is None:
        paper = model.protocol == "paper"
        reason = "the paper's protocol has no use for them" if paper else "not every labelled response is kept"
        return [f"{counted(len(pile), 'unlabelled image')} not used: {reason}."]
    size = pile.nbytes / 1e6
    there = f"{counted(len(pile), 'unlabelled image')} ({size:.0f} MB in the model)"
    unlike = f", {chosen.unlike:,} of them unlike every class and left out" if chosen.unlike else ""
    if not chosen.weight and chosen.after is None:
        return [f"{there} not used{unlike}: too few are left."]
    if not chosen.weight:
        return [f"{there} not used{unlike}: they do not raise the accuracy on held-out labels."]
    if chosen.before is None or chosen.after is None:
        why = "With one label a class" if model.statistics.total else "Without labels"
        return [f"{there} used{unlike}, {chosen.rounds} rounds. {why} their benefit cannot be measured."]
    worth = f"expected accuracy {chosen.before:.0%} without them, {chosen.after:.0%} with them"
    return [f"{there} used{unlike}, {chosen.rounds} rounds: {worth}."]


def hold(stream: ResponseStream, gathered: Gathered, progress: bool) -> Validation:
    """Validation responses, kept to be scored under every candidate."""
    held = collect(stream, "validation", width=gathered.statistics.width, progress=progress)
    gathered.skipped += stream.skipped
    return held.responses, held.labels


def facts_of(read_by: Pipeline | Origin, settings: FitSettings) -> dict[str, object]:
    """What the outcome of a pass depends on besides the images or responses."""
    told: dict[str, object] = {} if settings.ledger else {"ledger": False}
    made = read_by.describe() if isinstance(read_by, Pipeline) else {"made_by": read_by.made_by}
    return {**made, "reservoir": settings.solve.reservoir, "seed": settings.solve.seed, **told}


def few_images(model: Model) -> list[str]:
    """A sentence on classes of one or two images, if there are any; sentences may speak for them instead."""
    counts = zip(model.statistics.counts.tolist(), model.statistics.classes, strict=True)
    few = sorted((n, name) for n, name in counts if 0 < n <= FEW)
    if not few or model.words is not None:
        return []
    named = ", ".join(f"{name!r} ({n:g})" for n, name in few[:SHOWN])
    more = f" and {counted(len(few) - SHOWN, 'more class')}" if len(few) > SHOWN else ""
    told = f"{counted(len(few), 'class')} with only one or two images: {named}{more}."
    return [f"{told} Too few to learn from or evaluate reliably; add images."]


def far_responses(gathered: Gathered, names: Sequence[str]) -> list[str]:
    """A sentence on responses so large that they alone decide the covariance; `names` are those of the ledger."""
    if gathered.reservoir is None or not len(gathered.reservoir):
        return []
    members, far = gathered.reservoir.members(), np.zeros(len(gathered.reservoir))
    for columns in gathered.statistics.layout.slices:
        part = members.responses[:, columns]
        lengths = np.sqrt(np.einsum("ij,ij->i", part, part, dtype=np.float64))  # without a copy in float64
        far = np.maximum(far, lengths / max(float(np.median(lengths)), np.finfo(np.float64).tiny))
    rows = np.flatnonzero(far > FAR)
    if not len(rows):
        return []
    worst = rows[far[rows].argmax()]
    place = gathered.ledger.digests().index(members.digests[worst]) if len(gathered.ledger) else None
    called = repr(names[place]) if place is not None and names else "one" if place is None else f"row {place}"
    are = f"{counted(len(rows), 'response')} {'is' if len(rows) == 1 else 'are'} over {FAR:g} times the usual size"
    cost = "Such responses dominate the covariance and cost accuracy"
    return [f"{are}, the largest ({called}) {far[worst]:.1g} times. {cost}; forget them, or check the backbone."]


def sampled_choice(model: Model) -> list[str]:
    """A sentence on the sample that was left out to choose on, where not every response kept was."""
    found, classes = model.found_left_out, len(model.statistics.classes)
    if found is None or len(found.rows) <= sample_size(classes):
        return []
    chosen = f"Chosen on a sample of {counted(sample_size(classes), 'example')}, as there are {classes:,} classes"
    return [f"{chosen}: shrinkage, ensemble weights and temperature."]


def _duplicates(examples: Sequence[Example], gathered: Gathered) -> tuple[list[str], list[str]]:
    """Sentences on images that are there twice: in their class, and under two labels."""
    again = gathered.ledger.repeated()
    names = [examples[row].name for row, _, _ in again]
    found = find_duplicates((digest for _, digest, _ in again), (label for _, _, label in again), names)
    told = found.conflicts_told(Counter(example.label or "" for example in examples))
    conflicts = told[:SHOWN]
    if len(told) > SHOWN:
        conflicts.append(f"{counted(len(told) - SHOWN, 'more image')} with two labels.")
    if not found.repeats:
        return [], conflicts
    before = ": " if len(found.repeats) == 1 else ", e.g. "
    return [f"{counted(len(found.repeats), 'duplicate image')}{before}{found.repeats[0].name!r}."], conflicts
