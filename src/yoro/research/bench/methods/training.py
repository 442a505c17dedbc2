"""Bench methods that train a prompt: YORO-FP, the published label mappings, and those for image-text models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from yoro.data.examples import Example
from yoro.data.geometry import Shifts
from yoro.errors import InputError
from yoro.model.open_model import OpenModel
from yoro.model.settings import STRICT
from yoro.prompts.trainable import TrainablePrompt
from yoro.refining.checkpoint import TrainingCheckpoint
from yoro.refining.few_pass import refine
from yoro.refining.images import LabelledImages
from yoro.refining.loop import PromptTraining
from yoro.refining.settings import RefineRun, RefineSettings
from yoro.research.baselines import published
from yoro.research.baselines.clip import BANKS, ClipSettings, clip_geometry, clip_prompt, clip_recipe, clip_training
from yoro.research.baselines.clip_heads import DEFAULT_TEMPLATE, SOURCE_TEMPLATES
from yoro.research.baselines.label_mappings import baseline_training, published_recipe
from yoro.research.baselines.published import BATCH, ClipOptions
from yoro.research.bench.context import SEED, Context, Origin, is_list
from yoro.research.bench.datasets.attribute_files import read_templates
from yoro.research.bench.methods.bench_methods import FewPassOptions, LabelMappingOptions, fit_one_pass
from yoro.research.bench.results import CellFigures
from yoro.sources.protocol import is_dual
from yoro.sources.torch.gradients import open_differentiable
from yoro.text.encoded_bank import need_texts

SMALL_BATCH = 64
SMALL = ("dtd", "oxfordpets")  # datasets that are published with the small batch
SHIFTS = Shifts()  # of published watermarks, mirrored on every dataset


def run_few_pass(context: Context, options: FewPassOptions) -> CellFigures:
    """YORO-FP: the one-pass predictor, refined for a few epochs and kept only if validation says so."""
    model, seconds = fit_one_pass(context)
    flip = context.dataset.flip if options.flip is None else options.flip
    settings = RefineSettings(**{**vars(options), "flip": flip}, seed=context.cell.seed)
    drawn = context.drawn
    run = RefineRun(device=context.device, checkpoint=context.scratch, resume=True, progress=context.progress)
    given = OpenModel(model, pipeline=context.pipeline)
    classifier, refinement = refine(given, list(drawn.train), list(drawn.val), settings, run)
    if refinement.interrupted:
        raise KeyboardInterrupt
    correct = _refined_right(context, classifier) if refinement.kept else context.right(model, drawn.test)
    depth = refinement.epoch if refinement.kept else 0
    best = refinement.records[depth].correct if refinement.kept else refinement.given
    return CellFigures(
        correct,
        len(drawn.train),
        context.pass_seconds + seconds + sum(record.seconds for record in refinement.records),
        options.epochs + 1,
        (best, len(drawn.val)),
        depth=depth,
        shrinkage=model.choice.shrinkage,
        selected_on="validation",
        traversals=options.epochs + 2 + refinement.kept,  # one to prepare, and one more for a model that is kept
        epochs=tuple(refinement.records),
    )


def _refined_right(context: Context, classifier: OpenModel) -> int:
    """Test images that the refined classifier classifies correctly, through its trained prompt."""
    stream = classifier.pipeline.stream(context.drawn.test, STRICT)
    mapping = classifier.model.mapping
    return sum(int((mapping.predict(part.responses) == np.array(part.labels)).sum()) for part in stream)


def run_label_mapping(method: str, context: Context, options: LabelMappingOptions) -> CellFigures:
    """RLM, FLM, ILM, BLM, BLM+ or Deep: a mapping of a classifier's classes, trained with its prompt."""
    if is_dual(context.pipeline.source):
        raise InputError(f"{method} needs a classifier as its source; on an image-text source use clip-{method}.")
    cell, pipeline = context.cell, context.pipeline
    twin = open_differentiable(cell.source, read=cell.inputs.read, device=context.device)
    train = LabelledImages(_to_train_on(context, options.select), context.classes, pipeline.geometry)
    recipe = published_recipe(
        method,
        epochs=options.epochs,
        batch_size=options.batch_size or (SMALL_BATCH if cell.dataset in SMALL else BATCH),
        mapping="pass" if options.mapping_pass else "seen",
        seed=cell.seed,
    )
    recipe = replace(recipe, epoch_zero=options.select != "test", mixed_precision=options.mixed_precision)
    if pipeline.prompt.name == "watermark":
        recipe = replace(recipe, augmentation=SHIFTS)
    prompt = TrainablePrompt(pipeline.prompt, twin.device)
    return _run_training(context, baseline_training(method, twin, prompt, train, recipe), train, options.select)


def run_clip(method: str, context: Context, options: ClipOptions) -> CellFigures:
    """A method for image-text models with its own prompt and geometry, whatever the prompt of the setting is."""
    chosen = _searched(context, options) if options.search and method == "autovp" else options
    training, train, notes = _clip_training(method, context, chosen)
    if chosen is not options:
        names = [field.name for field in fields(chosen) if getattr(chosen, field.name) != getattr(options, field.name)]
        found = ", ".join(f"{name} {getattr(chosen, name)}" for name in names if name != "search")
        notes = [*notes, f"The search chose {found or 'the defaults'}."]
    return _run_training(context, training, train, options.select, notes)


def _searched(context: Context, options: ClipOptions) -> ClipOptions:
    """AutoVP's search by training accuracy: image and mapping, then rate and weight decay; the first of equals."""
    dataset = context.cell.dataset
    epochs = published.SEARCH_EPOCHS.get(dataset, published.SEARCH_EPOCHS[""])

    def right(candidate: ClipOptions) -> int:
        training, train, _ = _clip_training("autovp", context, candidate, epochs)
        outcome = training.run(train, train, progress=context.progress)
        if outcome.interrupted:
            raise KeyboardInterrupt
        return outcome.records[-1].correct

    options = replace(options, search=False)
    for part in published.search_space(dataset):
        known: list[Any] = list(part)
        options = max((replace(options, **choice) for choice in known), key=right)
    return options


def _clip_training(
    method: str, context: Context, options: ClipOptions, epochs: int | None = None
) -> tuple[PromptTraining, LabelledImages, list[str]]:
    """A training, its images and notes on it; with `epochs` only the first of those that the options say."""
    cell = context.cell
    texts = need_texts(context.pipeline.source, cell.method)
    twin = open_differentiable(cell.source, read=cell.inputs.read, device=context.device)
    geometry = clip_geometry(clip_prompt(method, twin, options), twin)
    train = LabelledImages(_to_train_on(context, options.select), context.classes, geometry)
    recipe = clip_recipe(method, options, shots=cell.inputs.shots, flip=context.dataset.flip, seed=cell.seed)
    if epochs is not None:
        recipe = replace(recipe, epochs=epochs, schedule_epochs=options.epochs)
    settings = ClipSettings(
        method,
        banks=context.sentences if method in BANKS else (),
        sentences=cell.inputs.sentences,
        bank_seed=SEED,
        templates=_templates(context.sentences),
        options=options,
    )
    training, notes = clip_training(settings, texts, twin, train, recipe)
    return training, train, notes


def _templates(sentences: tuple[Origin, ...]) -> tuple[str, ...]:
    """The templates of BLM and AutoVP: their own first one, and those of a file or ours."""
    lists = [Path(origin) for origin in sentences if is_list(origin)]
    return (DEFAULT_TEMPLATE, *read_templates(lists[0])) if lists else SOURCE_TEMPLATES


def _to_train_on(context: Context, select: str) -> Sequence[Example]:
    """The training images, and those held out of them where the test images choose the epoch, as published.

    CIFAR, SVHN and GTSRB have no validation images of their own, and the published runs train on all images.
    """
    drawn, inputs = context.drawn, context.cell.inputs
    drawn_by_us = inputs.shots is not None or not {"train", "val"}.isdisjoint(inputs.limits())
    held_out = all(example.split != "val" for example in drawn.val)
    return (*drawn.train, *drawn.val) if select == "test" and held_out and not drawn_by_us else drawn.train


def _run_training(
    context: Context, training: PromptTraining, train: LabelledImages, select: str, notes: Sequence[str] = ()
) -> CellFigures:
    """Train, choose an epoch and test; an interrupted training resumes after its last complete epoch.

    With `select` "test" the test images choose the epoch, and the untrained predictor is no candidate: that is how the
    published numbers of ILM-VP, BLM, AttrVR, DVP and others were made. Such an accuracy is optimistic: label it so, and
    report a validated one beside it.
    """
    test = replace(train, examples=context.drawn.test)
    held = test if select == "test" else replace(train, examples=context.drawn.val)
    checkpoint = TrainingCheckpoint(context.scratch, context.cell.name)
    outcome = training.run(train, held, checkpoint=checkpoint, resume=True, progress=context.progress)
    if outcome.interrupted:
        raise KeyboardInterrupt
    best = outcome.records[outcome.chosen]
    correct = best.correct if select == "test" else training.correct(test)
    recipe = training.recipe
    return CellFigures(
        correct,
        len(train),
        training.prepared + sum(record.seconds for record in outcome.records),
        recipe.epochs * (2 if recipe.mapping_pass else 1) + 1,
        None if select == "test" else (best.correct, best.total),
        selected_on="test" if select == "test" else "validation",
        epochs=tuple(outcome.records),
        notes=tuple(notes),
    )
