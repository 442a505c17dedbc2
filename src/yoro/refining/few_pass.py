"""YORO-FP: a fitted classifier refined for a few epochs, and kept only if validation images say so."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from yoro.data.examples import Example
from yoro.discriminant.calibration import fit_temperature
from yoro.discriminant.reservoir import CAPACITY, Reservoir
from yoro.discriminant.statistics import ResponseStatistics
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import class_codes
from yoro.model.classifier import Classifier, event
from yoro.model.ledger import Ledger
from yoro.model.one_pass import Gathered, fingerprint, shown
from yoro.model.pipeline import Pipeline, Reading
from yoro.model.solve import mapping_at, solve
from yoro.model.store import Model
from yoro.prompts.trainable import TrainablePrompt
from yoro.refining.checkpoint import TrainingCheckpoint
from yoro.refining.heads import MappingHead
from yoro.refining.images import LabelledImages
from yoro.refining.loop import Training, best_trained, first_best
from yoro.refining.policies import make_policy
from yoro.refining.recipe import Recipe
from yoro.refining.settings import Settings
from yoro.refining.splits import refuse_shared, split_examples
from yoro.refining.twin import open_twin, reopen_plain
from yoro.refining.verdict import Refinement, epoch_sentence, judged
from yoro.sources.torch.gradients import Twin

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Held:
    """Validation images that can be read, their responses through the untrained prompt, and their labels."""

    examples: list[Example]
    responses: NDArray[np.float32]
    labels: NDArray[np.str_]


@dataclass(frozen=True)
class Ready:
    """All that a refinement starts from; `first` is the one-pass predictor of the training images alone."""

    pipeline: Pipeline  # its source is the twin
    twin: Twin
    train: list[Example]
    held: Held
    first: Model
    skipped: list[tuple[str, str]]


def refine(
    classifier: Classifier,
    data: object,
    val: object | None = None,
    *,
    settings: Settings | None = None,
    reading: Reading | None = None,
    source: str | None = None,
    device: str = "auto",
    checkpoint: str | Path | None = None,
    resume: bool = False,
    progress: bool = False,
    tell: Tell = lambda _: None,
) -> tuple[Classifier, Refinement]:
    """The classifier refined, or itself if refinement did not help; and what happened.

    `data` are the training images and `val` images that the classifier was not fitted on (without it, the
    val split of `data`). `source` tells where the classifier's source is now, if it moved. `checkpoint` is a
    folder that is written after each epoch; it is the caller's to remove once the result is saved.
    """
    chosen, started = settings or Settings(), time.perf_counter()
    examples = split_examples(data, val)
    twin, pipeline = open_twin(classifier.model, source, chosen.canvas, device)
    tell(f"Refining on {len(examples[0]):,} images, validating on {len(examples[1]):,}, canvas {twin.side}.")
    with threadpool_limits(1, user_api="blas"):  # the cores belong to decoding and the network
        ready = _prepare(classifier, twin, pipeline, examples, chosen, reading or Reading(workers=0), progress)
        recipe = chosen.recipe(twin.name, ready.first.choice.temperature)
        training, start = _training(ready, chosen, recipe, progress)
    given = _right(classifier, ready, reading)
    outcome = training.run(
        _images(ready, ready.train),
        _images(ready, ready.held.examples),
        checkpoint=None if checkpoint is None else TrainingCheckpoint(Path(checkpoint), _stamp(ready, recipe, start)),
        resume=resume,
        tell=lambda records, best: tell(epoch_sentence(records, best, recipe.epochs)),
    )
    refinement = judged(outcome, given, recipe, ready.skipped, always=not chosen.epoch_zero)
    tell(refinement.why)
    if not refinement.kept:
        return classifier, refinement
    model = _refined_model(classifier.model, ready, training, chosen, device, progress)
    happened = event("refine", len(ready.train), started) | {"passes": len(outcome.records) + 1}
    model[0].history = [*classifier.model.history, happened | {"refinement": refinement.to_json()}]
    return Classifier(model[0], pipeline=model[1], notes=[refinement.why]), refinement


def _prepare(
    classifier: Classifier,
    twin: Twin,
    pipeline: Pipeline,
    examples: tuple[list[Example], list[Example]],
    settings: Settings,
    reading: Reading,
    progress: bool,
) -> Ready:
    """Read everything once in torch: refuse what was fitted, and fit the predictor of epoch 0."""
    stream = pipeline.stream(examples[1], reading)
    parts = list(shown(stream, "validation", progress))
    digests = [digest for part in parts for digest in part.digests]
    names = [name for part in parts for name in part.names]
    refuse_shared(classifier.model.ledger.contents(), digests, names, fitted=True)
    responses = np.concatenate([np.empty((0, twin.width), np.float32), *(part.responses for part in parts)])
    labels = np.array([label for part in parts for label in part.labels or []], dtype=np.str_)
    held = Held(_readable(examples[1], stream.skipped), responses.astype(np.float32), labels)
    gathered = Gathered(ResponseStatistics(), Ledger(), Reservoir(CAPACITY, settings.seed))
    gathered.absorb(pipeline.stream(examples[0], reading), progress=progress)
    refuse_shared(gathered.ledger.contents(), digests, names, fitted=False)
    model = classifier.model
    old = model.choice
    rule: str | float = "validation" if settings.paper else old.shrinkage if old.rule == "fixed" else old.rule
    validation = held.responses, held.labels
    first = solve(gathered, rule, model.prior, settings.protocol, validation=validation, wording=model.wording)
    train = _readable(examples[0], gathered.skipped)
    return Ready(pipeline, twin, train, held, first, [*gathered.skipped, *stream.skipped])


def _training(ready: Ready, settings: Settings, recipe: Recipe, progress: bool) -> tuple[Training, AffineMapping]:
    """The training with BDM as its head; the shrinkage stays that of epoch 0.

    On an image-text source the head is folded to (dimension, classes): similarities are never formed.
    """
    classes = ready.first.mapping.classes
    start = _augmented_start(ready, recipe) if settings.starts_augmented else ready.first.mapping
    head = MappingHead(
        start,
        make_policy(settings.mapping, settings.beta),
        collect=lambda: ResponseStatistics(classes),
        solve=lambda statistics: _solved(ready.first, statistics),
        device=ready.twin.device,
    )
    prompt = TrainablePrompt(ready.pipeline.prompt, ready.twin.device)
    choose = first_best if settings.epoch_zero else best_trained
    return Training(prompt, ready.twin, head, recipe, choose=choose, progress=progress), start


def _augmented_start(ready: Ready, recipe: Recipe) -> AffineMapping:
    """The mapping of one pass over augmented images: it does not know the very pixels that it is trained on."""
    augmentation = recipe.augmentation
    if augmentation is None:
        return ready.first.mapping
    images = _images(ready, ready.train)
    statistics = ResponseStatistics(images.classes)
    for pixels, codes in images.batches(recipe.batch_size, look=lambda image: augmentation.draw(recipe.seed, 0, image)):
        responses = ready.twin.respond(ready.pipeline.prompt.compose(pixels))
        statistics.update(responses, [images.classes[code] for code in codes])
    return _solved(ready.first, statistics)


def _solved(first: Model, statistics: ResponseStatistics) -> AffineMapping:
    """The mapping of other statistics, by the choices of epoch 0."""
    return mapping_at(statistics, first.choice, first.prior, first.wording)


def _images(ready: Ready, examples: Sequence[Example]) -> LabelledImages:
    return LabelledImages(examples, ready.first.mapping.classes, ready.pipeline.geometry)


def _right(classifier: Classifier, ready: Ready, reading: Reading | None) -> int:
    """Validation images that the classifier as it came answers rightly."""
    model, held = classifier.model, ready.held
    same = ready.pipeline.describe() == {"source": model.source, "prompt": model.prompt, "transform": model.transform}
    if same:
        return int((model.mapping.predict(held.responses) == held.labels).sum())
    stream = classifier.pipeline.stream(held.examples, reading or Reading(workers=0))
    return sum(int((model.mapping.predict(part.responses) == np.array(part.labels)).sum()) for part in stream)


def _refined_model(
    old: Model, ready: Ready, training: Training, settings: Settings, device: str, progress: bool
) -> tuple[Model, Pipeline]:
    """The model of the chosen epoch: its mapping as it was validated, and statistics of the trained prompt.

    The statistics come from one more pass through the normal path, so that the model can be updated and made
    to forget, exactly; doing so solves the mapping anew.
    """
    prompt = training.prompt
    assert isinstance(prompt, TrainablePrompt)
    pipeline = reopen_plain(ready.twin, ready.pipeline, prompt.to_prompt(), device)
    gathered = Gathered(ResponseStatistics(), Ledger(), Reservoir(CAPACITY, settings.seed))
    gathered.absorb(pipeline.stream(ready.train, Reading(workers=0)), progress=progress)
    head = training.head
    assert isinstance(head, MappingHead)
    temperature = 1.0
    if not settings.paper:
        held = pipeline.stream(ready.held.examples, Reading(workers=0))
        scores = np.concatenate([head.mapping(part.responses) for part in held])
        truth = class_codes(ready.held.labels.tolist(), head.classes)
        temperature = fit_temperature(scores, truth, np.ones(len(truth)))
    described = pipeline.describe()
    model = replace(
        ready.first,
        statistics=gathered.statistics,
        ledger=gathered.ledger,
        reservoir=gathered.reservoir if old.reservoir is not None else None,
        mapping=head.mapping,
        choice=replace(ready.first.choice, temperature=temperature),
        source=described["source"],
        prompt=described["prompt"],
        transform=described["transform"],
        prompt_arrays=dict(pipeline.prompt.arrays()),
    )
    return model, pipeline


def _readable(examples: Sequence[Example], skipped: Sequence[tuple[str, str]]) -> list[Example]:
    broken = {name for name, _ in skipped}
    return [example for example in examples if example.name not in broken]


def _stamp(ready: Ready, recipe: Recipe, start: AffineMapping) -> str:
    """Digest of everything that the end of a training depends on."""
    program = ready.pipeline.prompt.current_program().tobytes()
    facts: dict[str, object] = {
        **ready.pipeline.describe(),
        "recipe": json.dumps(asdict(recipe), default=str),
        "start": hashlib.sha256(start.weights.round(6).tobytes() + program).hexdigest(),
    }
    return fingerprint([*ready.train, *ready.held.examples], facts)
