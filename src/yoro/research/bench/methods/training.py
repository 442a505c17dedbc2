"""Methods on the bench that train a prompt: YORO-FP, the published label mappings, those for image-text models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from yoro.data.examples import Example
from yoro.data.geometry import Geometry, Shifts
from yoro.errors import InputError
from yoro.model.open_model import OpenModel
from yoro.model.settings import STRICT
from yoro.prompts.trainable import TrainablePrompt
from yoro.refining.checkpoint import EpochRecord, TrainingCheckpoint
from yoro.refining.few_pass import refine
from yoro.refining.images import LabelledImages
from yoro.refining.loop import Choose, Training, best_trained, first_best
from yoro.refining.settings import RefineRun, RefineSettings
from yoro.research.baselines.clip import BANKS, ClipSettings, clip_geometry, clip_prompt, clip_recipe, clip_training
from yoro.research.baselines.clip_heads import DEFAULT_TEMPLATE, SOURCE_TEMPLATES
from yoro.research.baselines.label_mappings import baseline_training, published_recipe
from yoro.research.baselines.published import BATCH, Granularity
from yoro.research.bench.context import SEED, Answer, Context, Origin, is_list
from yoro.research.bench.datasets.attribute_files import read_templates
from yoro.research.bench.methods.bench_methods import ClipOptions, FewPassOptions, TrainingOptions
from yoro.research.bench.methods.one_pass_methods import fit_one_pass
from yoro.research.bench.results import Epoch
from yoro.sources.protocol import is_dual
from yoro.sources.torch.gradients import open_differentiable
from yoro.text.encoded_bank import need_texts

SMALL_BATCH = 64
SMALL = ("dtd", "oxfordpets")  # datasets that are published with the small batch
SHIFTS = Shifts()  # of published watermarks, mirrored on every dataset


def run_few_pass(context: Context, options: FewPassOptions) -> Answer:
    """YORO-FP: the one-pass predictor, refined for a few epochs and kept only if validation says so."""
    model, seconds = fit_one_pass(context)
    settings = RefineSettings(**vars(options), flip=context.dataset.flip, seed=context.cell.seed)
    drawn = context.drawn
    run = RefineRun(device=context.device, checkpoint=context.scratch, resume=True, progress=context.progress)
    given = OpenModel(model, pipeline=context.pipeline)
    classifier, refinement = refine(given, list(drawn.train), list(drawn.val), settings, run)
    if refinement.interrupted:
        raise KeyboardInterrupt
    correct = _refined_right(context, classifier) if refinement.kept else context.right(model, drawn.test)
    depth = refinement.epoch if refinement.kept else 0
    best = refinement.records[depth].correct if refinement.kept else refinement.given
    return Answer(
        correct,
        context.pass_seconds + seconds + sum(record.seconds for record in refinement.records),
        options.epochs + 1,
        (best, len(drawn.val)),
        depth=depth,
        shrinkage=model.choice.shrinkage,
        selected_on="validation",
        epochs=_epochs(refinement.records),
    )


def _refined_right(context: Context, classifier: OpenModel) -> int:
    """Test images that the refined classifier answers rightly, through its trained prompt."""
    stream = classifier.pipeline.stream(context.drawn.test, STRICT)
    mapping = classifier.model.mapping
    return sum(int((mapping.predict(part.responses) == np.array(part.labels)).sum()) for part in stream)


def run_label_mapping(method: str, context: Context, options: TrainingOptions) -> Answer:
    """RLM, FLM, ILM, BLM, BLM+ or Deep: a mapping of a classifier's classes, trained with its prompt."""
    if is_dual(context.pipeline.source):
        raise InputError(f"{method} maps the classes of a classifier; on an image-text source use clip-{method}.")
    cell, pipeline = context.cell, context.pipeline
    twin = open_differentiable(cell.source, read=cell.inputs.read, device=context.device)
    train = _images(context, _to_train_on(context, options.select), pipeline.geometry)
    recipe = published_recipe(
        method,
        epochs=options.epochs,
        batch_size=options.batch_size or (SMALL_BATCH if cell.dataset in SMALL else BATCH),
        mapping="pass" if options.mapping_pass else "seen",
        seed=cell.seed,
    )
    if pipeline.prompt.name == "watermark":
        recipe = replace(recipe, augmentation=SHIFTS)
    prompt = TrainablePrompt(pipeline.prompt, twin.device)
    choose = _chooser(options.select)
    training = baseline_training(method, twin, prompt, train, recipe, choose=choose, progress=context.progress)
    return _run_training(context, training, train, options.select)


def run_clip(method: str, context: Context, options: ClipOptions) -> Answer:
    """A method for image-text models with its own prompt and geometry, whatever the prompt of the setting is."""
    cell = context.cell
    texts = need_texts(context.pipeline.source, cell.method)
    twin = open_differentiable(cell.source, read=cell.inputs.read, device=context.device)
    geometry = clip_geometry(clip_prompt(method, twin), twin)
    train = _images(context, _to_train_on(context, options.select), geometry)
    recipe = clip_recipe(
        method, epochs=options.epochs, shots=cell.inputs.shots, flip=context.dataset.flip, seed=cell.seed
    )
    projections = options.projection_rate if method == "dga" else options.learning_rate
    recipe = replace(recipe, learning_rate=options.learning_rate, head_learning_rate=projections)
    settings = ClipSettings(
        method,
        banks=context.sentences if method in BANKS else (),
        sentences=cell.inputs.sentences,
        nearest=options.nearest,
        alpha=options.alpha,
        prompts=options.prompts,
        granularity=Granularity(options.levels, options.scales, options.crops),
        bank_seed=SEED,
        templates=_templates(context.sentences),
    )
    training, notes = clip_training(
        settings, texts, twin, train, recipe, choose=_chooser(options.select), progress=context.progress
    )
    return _run_training(context, training, train, options.select, notes)


def _templates(sentences: tuple[Origin, ...]) -> tuple[str, ...]:
    """The templates of BLM and AutoVP: their own first one, and those of a file or ours."""
    lists = [Path(origin) for origin in sentences if is_list(origin)]
    return (DEFAULT_TEMPLATE, *read_templates(lists[0])) if lists else SOURCE_TEMPLATES


def best_test_epoch(records: Sequence[EpochRecord]) -> bool:
    """Whether the last epoch is the best yet, where the images given to the loop are the TEST images.

    The published numbers of ILM-VP, BLM, AttrVR, DVP and others are the best test accuracy over epochs; the
    untrained predictor is no candidate there. Such a number is not an estimate of anything: report it beside a
    validated one, and named. For `Training(..., choose=best_test_epoch)`, never in a product.
    """
    return best_trained(records)


def _to_train_on(context: Context, select: str) -> Sequence[Example]:
    """The training images; with those that we held out of them where nothing is chosen by these, as published.

    CIFAR, SVHN and GTSRB have no validation images of their own, and the published runs train on all that there are.
    """
    drawn, inputs = context.drawn, context.cell.inputs
    drawn_by_us = inputs.shots is not None or not {"train", "val"}.isdisjoint(inputs.limits())
    held_out = all(example.split != "val" for example in drawn.val)
    return (*drawn.train, *drawn.val) if select == "test" and held_out and not drawn_by_us else drawn.train


def _chooser(select: str) -> Choose:
    """The rule that chooses an epoch: the paper's, or that of the published baselines, which reads the test set."""
    return best_test_epoch if select == "test" else first_best


def _run_training(
    context: Context, training: Training, train: LabelledImages, select: str, notes: Sequence[str] = ()
) -> Answer:
    """Train, choose and test; after a kill it goes on from the last whole epoch."""
    test = _images(context, context.drawn.test, train.geometry)
    held = test if select == "test" else _images(context, context.drawn.val, train.geometry)
    checkpoint = TrainingCheckpoint(context.scratch, context.cell.name)
    outcome = training.run(train, held, checkpoint=checkpoint, resume=True, tell=lambda *_: None)
    if outcome.interrupted:
        raise KeyboardInterrupt
    best = outcome.records[outcome.chosen]
    correct = best.correct if select == "test" else training.correct(test)
    recipe = training.recipe
    return Answer(
        correct,
        sum(record.seconds for record in outcome.records),
        recipe.epochs * (2 if recipe.mapping_pass else 1) + 1,
        None if select == "test" else (best.correct, best.total),
        selected_on="test" if select == "test" else "validation",
        epochs=_epochs(outcome.records),
        notes=tuple(notes),
        fitted=len(train),
    )


def _images(context: Context, examples: Sequence[Example], geometry: Geometry) -> LabelledImages:
    return LabelledImages(examples, context.classes, geometry)


def _epochs(records: Sequence[EpochRecord]) -> tuple[Epoch, ...]:
    """The records of a training as a result keeps them."""
    return tuple(Epoch(r.epoch, r.loss, r.correct, r.total, r.seconds) for r in records)
