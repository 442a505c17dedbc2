"""YORO-FP: refine a fitted classifier for a few epochs, and keep the result only if validation accuracy improves."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from yoro.data.examples import Example
from yoro.data.response_streams import Collected, collect
from yoro.data.responses import ResponseBatch
from yoro.data.roles import to_refine
from yoro.discriminant.calibration import fit_temperature
from yoro.discriminant.evidence import mapping_at
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError, counted
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import class_codes
from yoro.model.checkpoint import fingerprint
from yoro.model.gathered import Gathered
from yoro.model.kept_responses import image_digest, responses_of
from yoro.model.model import Model, Verb
from yoro.model.one_pass import gather
from yoro.model.open_model import OpenModel
from yoro.model.pipeline import Pipeline
from yoro.model.settings import USUAL, Loading, SolveSettings
from yoro.model.solve import settings_of, solve
from yoro.prompts.trainable import TrainablePrompt
from yoro.refining.checkpoint import TrainingCheckpoint
from yoro.refining.heads import DeviceStatistics, MappingHead
from yoro.refining.images import LabelledImages
from yoro.refining.loop import PromptTraining, on_device
from yoro.refining.outcome import Refinement, epoch_sentence, judged
from yoro.refining.recipe import Recipe, weight_of_old
from yoro.refining.settings import RefineRun, RefineSettings, prospects
from yoro.refining.trainable_pipeline import open_twin, reopen_plain
from yoro.sources.torch.gradients import Twin


@dataclass(frozen=True)
class RefinementInputs:
    """Everything a refinement starts from; `first` is the one-pass predictor of the training images alone.

    The images are those that can be read; `seen` are the held ones through the untrained prompt.
    """

    twin: Twin
    pipeline: Pipeline  # its source is the twin
    train: list[Example]
    held: list[Example]
    seen: Collected
    first: Model
    skipped: list[tuple[str, str]]

    def images(self, examples: Sequence[Example]) -> LabelledImages:
        return LabelledImages(examples, self.first.mapping.classes, self.pipeline.geometry)

    def mapping(self, statistics: ResponseStatistics) -> AffineMapping:
        """The mapping of other statistics, by the choices of epoch 0."""
        first, words = self.first, self.first.words
        descriptions = None if words is None else words.descriptions
        return mapping_at(statistics, first.choice, first.prior, descriptions, votes=words is None or words.votes)


def refine(
    classifier: OpenModel,
    data: object,
    val: object | None = None,
    settings: RefineSettings | None = None,
    run: RefineRun | None = None,
) -> tuple[OpenModel, Refinement]:
    """The refined classifier, or the given one if refinement did not help; and how it went.

    `data` are the training images, `val` others that decide (default: the val split of `data`, or a tenth of each
    class). Those that the classifier was fitted on are taken out of it, exactly, before the two are compared.
    """
    chosen, means = settings or RefineSettings(), run or RefineRun()
    verb = Verb("refine", before=tuple(classifier.model.history), integers=classifier.model.integers)
    train, held, notes = to_refine(data, val, seed=chosen.seed)
    twin, pipeline = open_twin(classifier.model.origin, means.source, chosen.canvas, means.device)
    held, copies = _unshared(held, train)
    rival, taken = _rival(classifier, held, means)
    begun = f"Refining on {counted(len(train), 'image')}, validating on {len(held):,}, canvas {twin.side}."
    planned = chosen.recipe(twin.name, 1.0)
    for note in [*notes, *copies, *taken, begun, *prospects(len(train), planned.epochs, planned.batch_size)]:
        means.tell(note)
    with threadpool_limits(1, user_api="blas"):  # the cores belong to decoding and the network
        ready = _prepare(classifier.model, twin, pipeline, (train, held), chosen, means)
        recipe = chosen.recipe(twin.name, ready.first.choice.temperature)
        training, start = _training(ready, chosen, recipe)
    given = _right(classifier, rival, ready, means.loading)
    stamp = None if means.checkpoint is None else TrainingCheckpoint(means.checkpoint, _stamp(ready, recipe, start))
    outcome = training.run(
        ready.images(ready.train),
        ready.images(ready.held),
        checkpoint=stamp,
        resume=means.resume,
        tell=lambda records, best: means.tell(epoch_sentence(records, best, recipe.epochs)),
        progress=means.progress,
    )
    refinement = judged(outcome, given, recipe, ready.skipped)
    means.tell(refinement.why)
    if not refinement.kept:
        return classifier, refinement
    more = {"passes": len(outcome.records) + 1, "refinement": refinement.to_json()}
    verb = replace(verb, images=len(ready.train), more=more)
    model, plain = _refined_model(ready, training, chosen, means, verb)
    if classifier.model.reservoir is None:
        model = replace(model, gathered=replace(model.gathered, reservoir=None))
    return OpenModel(model, pipeline=plain), refinement


def _unshared(held: list[Example], train: Sequence[Example]) -> tuple[list[Example], list[str]]:
    """Validation images that are not training images too, and a sentence on the others; an error if all are.

    Decided by the digests of the files, before any image is decoded.
    """
    contents = {content for example in train if (content := image_digest(example))}
    own = [example for example in held if image_digest(example) not in contents]
    if len(own) == len(held):
        return held, []
    told = f"{len(held) - len(own):,} of {counted(len(held), 'validation image')} are also training images"
    if not own:
        raise InputError(f"{told}, so nothing is left to validate on. Give other images with --val (val=...).")
    return own, [f"{told} and are left out of the validation."]


def _rival(classifier: OpenModel, held: Sequence[Example], run: RefineRun) -> tuple[Model, list[str]]:
    """The model to beat, which knows no validation image, and a sentence if any had to be taken out of it."""
    model, contents = classifier.model, {content: example for example in held if (content := image_digest(example))}
    fitted = model.ledger.found(list(contents))
    if not fitted:
        return model, []
    digests, labels = [digest for digest, _ in fitted], [label for _, label in fitted]
    wanted = list(dict.fromkeys(digests))
    examples = [contents[content] for content in wanted]
    read, _ = responses_of(classifier, examples, run.loading, digests=wanted, progress=run.progress)
    responses = dict(zip(read.digests, read.responses, strict=True))
    names = [contents[digest].name for digest in digests]
    gathered = model.gathered.copy()
    gathered.remove([ResponseBatch(np.stack([responses[d] for d in digests]), labels, None, digests, names)])
    solving, keep = settings_of(model, gathered)
    rival = solve(gathered, solving, model.origin, words=model.words, keep=keep)
    told = f"{len(set(digests)):,} of {counted(len(held), 'validation image')} were used to fit this model"
    return rival, [f"{told}; it is compared without them (taken out exactly)."]


def _prepare(
    model: Model,
    twin: Twin,
    pipeline: Pipeline,
    examples: tuple[list[Example], list[Example]],
    settings: RefineSettings,
    run: RefineRun,
) -> RefinementInputs:
    """Read all images once in torch, and fit the predictor of epoch 0."""
    train, held = examples
    stream = pipeline.stream(held, run.loading)
    seen = collect(stream, "validation", width=twin.width, progress=run.progress)
    seen = replace(seen, responses=seen.responses.astype(np.float32))
    gathered = Gathered.empty(SolveSettings.reservoir, settings.seed)
    gather(gathered, pipeline.stream(train, run.loading), progress=run.progress)
    solving = SolveSettings("validation" if settings.paper else model.choice.asked, model.prior, settings.protocol)
    first = solve(gathered, solving, pipeline.origin(), evidence=(seen.responses, seen.labels), words=model.words)
    train, held = _readable(train, gathered.skipped), _readable(held, stream.skipped)
    return RefinementInputs(twin, pipeline, train, held, seen, first, [*gathered.skipped, *stream.skipped])


def _training(
    ready: RefinementInputs, settings: RefineSettings, recipe: Recipe
) -> tuple[PromptTraining, AffineMapping]:
    """The training with BDM as its head; the shrinkage stays that of epoch 0.

    On an image-text source the head is folded to (dimension, classes): similarities are never formed.
    """
    classes = ready.first.mapping.classes
    start = _augmented_start(ready, recipe) if settings.augmented_start else ready.first.mapping
    device = ready.twin.device
    there = on_device(recipe, device) and device.type != "mps"  # which has no float64
    head: MappingHead[DeviceStatistics | ResponseStatistics] = MappingHead(
        start,
        weight_of_old(settings.mapping, settings.beta),
        collect=partial(DeviceStatistics if there else ResponseStatistics, classes),
        solve=lambda seen: ready.mapping(seen.gathered() if isinstance(seen, DeviceStatistics) else seen),
        device=device,
    )
    return PromptTraining(TrainablePrompt(ready.pipeline.prompt, device), ready.twin, head, recipe), start


def _augmented_start(ready: RefinementInputs, recipe: Recipe) -> AffineMapping:
    """The mapping of one pass over augmented images, so that it has not seen the exact pixels it is trained on."""
    if recipe.augmentation is None:
        return ready.first.mapping
    images = ready.images(ready.train)
    statistics = ResponseStatistics(images.classes)
    for pixels, codes in images.batches(recipe.batch_size, looks=recipe.looks(0)):
        responses = ready.twin.respond(ready.pipeline.prompt.compose(pixels))
        statistics.update(responses, [images.classes[code] for code in codes])
    return ready.mapping(statistics)


def _right(classifier: OpenModel, model: Model, ready: RefinementInputs, loading: Loading) -> int:
    """Validation images that a model, read as the original classifier reads, classifies correctly."""
    if ready.pipeline.describe() == model.origin.describe():
        return int((model.mapping.predict(ready.seen.responses) == ready.seen.labels).sum())
    stream = classifier.pipeline.stream(ready.held, loading)
    return sum(int((model.mapping.predict(part.responses) == np.array(part.labels)).sum()) for part in stream)


def _refined_model(
    ready: RefinementInputs, training: PromptTraining, settings: RefineSettings, run: RefineRun, verb: Verb
) -> tuple[Model, Pipeline]:
    """The model of the chosen epoch: its mapping as it was validated, and statistics of the trained prompt.

    The statistics come from one more pass through the normal path, so that the model can be updated and made
    to forget, exactly; doing so solves the mapping anew.
    """
    prompt, head = training.prompt, training.head
    assert isinstance(prompt, TrainablePrompt)
    assert isinstance(head, MappingHead)
    pipeline = reopen_plain(ready.twin, ready.pipeline, prompt.to_prompt(), run.device)
    gathered = Gathered.empty(SolveSettings.reservoir, settings.seed)
    gather(gathered, pipeline.stream(ready.train, USUAL), progress=run.progress)
    temperature = 1.0
    if not settings.paper:
        held = pipeline.stream(ready.held, USUAL)
        scores = np.concatenate([head.mapping(part.responses) for part in held])
        truth = class_codes(ready.seen.labels.tolist(), head.classes)
        temperature = fit_temperature(scores, truth, np.ones(len(truth)))
    model = replace(
        ready.first,
        gathered=replace(gathered, skipped=[]),
        mapping=head.mapping,
        choice=replace(ready.first.choice, temperature=temperature),
        origin=pipeline.origin(),
        history=verb.history(),
        integers=verb.integers,
    )
    return model, pipeline


def _readable(examples: Sequence[Example], skipped: Sequence[tuple[str, str]]) -> list[Example]:
    broken = {name for name, _ in skipped}
    return [example for example in examples if example.name not in broken]


def _stamp(ready: RefinementInputs, recipe: Recipe, start: AffineMapping) -> str:
    """Digest of everything that the result of a training depends on."""
    program = ready.pipeline.prompt.current_program().tobytes()
    facts: dict[str, object] = {
        **ready.pipeline.describe(),
        "recipe": json.dumps(asdict(recipe), default=str),
        "start": hashlib.sha256(start.weights.round(6).tobytes() + program).hexdigest(),
    }
    return fingerprint([*ready.train, *ready.held], facts)
