"""`fit` on Ray: the same fit with another place for its pass, and for files of rows, a fit of these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from yoro.cluster.actors import Gathering, Opening
from yoro.cluster.blocks import Block, cut, of_parts, remote
from yoro.cluster.files import find_remote, identity_in, is_responses, parts_of, places_of
from yoro.cluster.passing import gather_blocks, kept_in
from yoro.cluster.reading import Reading
from yoro.cluster.running import Crew
from yoro.cluster.session import need_ray, ray_session
from yoro.cluster.storage import Storage
from yoro.data.examples import SPLITS, Dataset, Example, class_name
from yoro.data.roles import refuse_one_class, to_measure
from yoro.discriminant.readings import Layout
from yoro.errors import InputError, counted
from yoro.model.gathered import Gathered
from yoro.model.model import Origin, Verb, difference
from yoro.model.one_pass import (
    Fitted,
    facts_of,
    few_images,
    fit_images,
    hold,
    in_views,
    nothing_yet,
    refuse_nothing,
)
from yoro.model.pipeline import Pipeline, make_pipeline
from yoro.model.progress import waiting
from yoro.model.settings import FitSettings
from yoro.model.solve import solve
from yoro.model.views import BothViews
from yoro.text.encoded_bank import encoded_bank_of


def fit_on_ray(data: object, val: object | None, settings: FitSettings) -> Fitted:
    """The fit of any data that other machines can read."""
    need_ray()
    if settings.refine:
        raise InputError("A prompt is trained on one machine: leave --refine or --ray out.")
    places = places_of(data)
    with ray_session(settings.cluster, settings.pipeline.source) as actors, kept_in(settings) as storage:
        if places is None:
            return fit_images(found_at(data) or data, val, settings, partial(_pass, actors=actors, storage=storage))
        if is_responses(places[0]):
            return _fit_responses(places, settings, actors, storage)
        return _fit_files(places, val, settings, actors, storage)


def found_at(data: object, *, labelled: bool = True) -> Dataset | None:
    """Images of folders at URLs; None if the data are anything else."""
    urls = [item for item in (data if isinstance(data, list) else [data]) if isinstance(item, str) and "://" in item]
    if not urls or (isinstance(data, list) and len(urls) != len(data)):
        return None
    examples = [example for url in urls for example in remote_folder(url, labelled=labelled).examples]
    return Dataset(tuple(sorted(examples, key=lambda example: (example.label or "", example.name))))


def remote_folder(url: str, *, labelled: bool = True) -> Dataset:
    """The images of a folder at a URL: `class/image`, or `{train,val,test}/class/image`."""
    examples = []
    for below, place, stamp in find_remote(url):
        steps = below.split("/")
        split = SPLITS.get(steps[0].lower()) if len(steps) > 2 else None
        label = class_name(steps[1 if split else 0]) if len(steps) > 1 else ""
        if label or not labelled:
            examples.append(Example(remote(place, stamp), label if labelled else None, below, split=split))
    if not examples:
        raise InputError(f"{url} holds no images in folders of a class each.")
    return Dataset(tuple(examples))


def _pass(
    examples: Sequence[Example], pipeline: Pipeline, settings: FitSettings, *, actors: int, storage: Storage
) -> Gathered:
    """The one pass over examples, in place of that of one process."""
    if settings.shots == 0:
        return nothing_yet(settings, pipeline.layout)
    size = whole_batches(settings)
    gathered = _gathered(cut(examples, size, facts_of(pipeline, settings)), pipeline, settings, actors, storage)
    refuse_nothing(gathered, len(examples))
    return gathered


def whole_batches(settings: FitSettings) -> int:
    """Images of a block: whole batches, so that images are read together that one machine reads together."""
    batch = settings.loading.batch_size
    return max(1, settings.cluster.ray_block // batch) * batch


def opening_of(pipeline: Pipeline, settings: FitSettings) -> Opening:
    """How an actor opens the same pipeline."""
    return Opening(
        settings.pipeline, settings.cluster.ray_threads, settings.loading.batch_size, pipeline.describe(),
        both_views=isinstance(pipeline, BothViews),
    )  # fmt: skip


def _gathered(
    blocks: Sequence[Block], pipeline: Pipeline, settings: FitSettings, actors: int, storage: Storage
) -> Gathered:
    work = _work(pipeline.origin(), pipeline.layout, settings)
    reading = Reading(dict(pipeline.geometry.config()), settings.loading.strict)
    crew = Crew(actors, settings.cluster.ray_threads, opening_of(pipeline, settings), work, storage, reading)
    return gather_blocks(blocks, crew, settings)


def _work(origin: Origin, layout: Layout | None, settings: FitSettings) -> Gathering:
    return Gathering(origin, layout, settings.solve.reservoir, settings.solve.seed, settings.ledger)


def _fit_files(
    places: Sequence[str], val: object | None, settings: FitSettings, actors: int, storage: Storage
) -> Fitted:
    """Files of rows of images: their classes are known when all are read."""
    verb, validates = Verb("fit"), settings.solve.shrinkage == "validation"
    if settings.shots is not None:
        raise InputError("--shots draws from a list of images; Parquet and WebDataset files are fitted whole.")
    if validates != (val is not None):
        raise InputError(
            "Of Parquet and WebDataset files none are held out: give --val with the rule 'validation', with no other."
        )
    held, notes = to_measure(val) if val is not None else ([], [])
    parts = parts_of(places, whole_batches(settings))
    notes = [f"Found {counted(len(places), 'file')} in {counted(len(parts), 'block')} to fit.", *notes]
    for note in notes:
        settings.tell(note)
    pipeline = make_pipeline(settings.pipeline)

    def passing(_: Sequence[Example], chosen: Pipeline, settings: FitSettings) -> Gathered:
        blocks = of_parts(parts, facts_of(chosen, settings))
        return _gathered(blocks, chosen, settings, actors, storage)

    pipeline, gathered, views = in_views([], pipeline, settings, passing)
    refuse_nothing(gathered, len(gathered.skipped))
    names = set(settings.sentences.classes) | set(gathered.statistics.classes)
    refuse_one_class(names, places[0])
    words, odd = encoded_bank_of(
        pipeline.source, names, settings.sentences, asked=settings.sentences.asked(None), seed=settings.solve.seed,
        progress=settings.progress,
    )  # fmt: skip
    validation = None
    if held and validates:
        validation = hold(pipeline.stream(cast("list[Example]", held), settings.loading), gathered, settings.progress)
    verb = replace(verb, images=gathered.images, more=views)
    with waiting("solving", settings.progress):
        model = solve(gathered, settings.solve, pipeline.origin(), words=words, validation=validation, verb=verb)
    return Fitted(model, pipeline, [], [], [*notes, *odd], few_images(model), gathered.skipped)


def _fit_responses(places: Sequence[str], settings: FitSettings, actors: int, storage: Storage) -> Fitted:
    """Files of rows of responses: nothing has to be opened."""
    verb, made_by = Verb("fit"), identity_in(places[0])
    if settings.solve.shrinkage == "validation" or settings.shots is not None:
        raise InputError("Responses in Parquet files are fitted whole, under a rule that needs none held out.")
    for place in places[1:]:
        if odd := difference(made_by, identity_in(place)):
            raise InputError(f"{places[0]} and {place} differ in {odd}; fit responses of one source.")
    origin = Origin(made_by=made_by)
    facts: Mapping[str, object] = {
        "made_by": made_by, "reservoir": settings.solve.reservoir, "seed": settings.solve.seed,
        "ledger": settings.ledger,
    }  # fmt: skip
    blocks = of_parts(parts_of(places, settings.cluster.ray_block), facts)
    work = _work(origin, origin.layout, settings)
    crew = Crew(actors, settings.cluster.ray_threads, None, work, storage, Reading(None))
    gathered = gather_blocks(blocks, crew, settings)
    refuse_nothing(gathered, 0)
    refuse_one_class(gathered.statistics.classes, places[0])
    with waiting("solving", settings.progress):
        model = solve(gathered, settings.solve, origin, verb=replace(verb, images=gathered.images))
    return Fitted(model, doubts=few_images(model))
