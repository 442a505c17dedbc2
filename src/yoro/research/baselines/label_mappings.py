"""The published reprogramming baselines for classifiers: label mappings trained with a prompt in the same loop."""

from __future__ import annotations

from functools import partial
from typing import Literal

import numpy as np

from yoro.mappings.affine import AffineMapping
from yoro.mappings.cooccurrence import CoOccurrence, bayesian_mapping, frequency_mapping, plus_table, random_mapping
from yoro.option import check_choice
from yoro.prompts.trainable import TrainablePrompt
from yoro.refining.heads import LinearHead, MappingHead, TrainingHead
from yoro.refining.images import LabelledImages
from yoro.refining.loop import PromptTraining
from yoro.refining.recipe import FROZEN, REFRESH, Recipe
from yoro.research.baselines.published import BATCH, EPOCHS, ITERATIVE, LABEL_MAPPINGS
from yoro.sources.torch.gradients import DifferentiableSource


def published_recipe(
    method: str,
    *,
    epochs: int = EPOCHS,
    batch_size: int = BATCH,
    mapping: Literal["pass", "seen"] = "pass",
    seed: int = 0,
) -> Recipe:
    """The schedule of the published runs: Adam 0.01, a tenth after half and after 0.72 of the epochs, no augmentation.

    ILM, BLM and BLM+ gather their mapping in a pass of its own before each epoch; with `mapping="seen"` they
    gather it from the responses of the training itself, as the published fast variant does.
    """
    check_choice("baseline", method, LABEL_MAPPINGS)
    return Recipe(
        epochs=epochs,
        batch_size=batch_size,
        schedule="milestones",
        augmentation=None,
        mapping_pass=method in ITERATIVE and mapping == "pass",
        seed=seed,
    )


def baseline_head(
    method: str, source: DifferentiableSource, classes: tuple[str, ...], seed: int = 0, sources: int = 1
) -> TrainingHead:
    """The head of a method; one that maps by counts is all zeros until a first pass was gathered.

    sources : of each class under FLM and ILM.
    """
    check_choice("baseline", method, LABEL_MAPPINGS)
    if method == "deep":
        return LinearHead(source.width, classes, seed=seed, device=source.device)
    if method == "rlm":
        mapping = random_mapping(source.width, classes, np.random.default_rng(seed))
    else:
        mapping = AffineMapping(np.zeros((source.width, len(classes))), np.zeros(len(classes)), classes)
    return MappingHead(
        mapping,
        FROZEN if method == "rlm" else REFRESH,
        collect=partial(plus_table if method == "blm+" else CoOccurrence, classes),
        solve=bayesian_mapping if method in ("blm", "blm+") else partial(frequency_mapping, each=sources),
        device=source.device,
    )


def baseline_training(
    method: str, source: DifferentiableSource, prompt: TrainablePrompt, train: LabelledImages, recipe: Recipe
) -> PromptTraining:
    """The method ready to run; its first mapping comes from a pass with the untrained prompt."""
    head = baseline_head(method, source, train.classes, recipe.seed)
    training = PromptTraining(prompt, source, head, recipe)
    if isinstance(head, MappingHead) and method != "rlm":
        training.gather(train)
        if method == "flm":
            head.freeze()
    return training
