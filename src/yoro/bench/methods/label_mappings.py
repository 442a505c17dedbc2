"""The published label mappings for classifiers on the bench: RLM, FLM, ILM, BLM, BLM+ and Deep."""

from __future__ import annotations

from dataclasses import replace

from yoro.bench.context import Answer, Ground
from yoro.bench.methods.options import TrainingOptions
from yoro.bench.methods.training import chooser, images, run_training
from yoro.data.views import Augmentation
from yoro.errors import InputError
from yoro.prompts.trainable import TrainablePrompt
from yoro.refining.baselines.label_mappings import BATCH, baseline_training, published_recipe
from yoro.sources.contract import is_dual
from yoro.sources.torch.gradients import open_differentiable

SMALL_BATCH = 64
SMALL = ("dtd", "oxfordpets")  # datasets that are published with the small batch
SHARE = (224 / 228) ** 2  # published watermarks crop 224 of 228 pixels by lot and mirror, on every dataset
CROPS = Augmentation(scale=(SHARE, SHARE), ratio=(1.0, 1.0), flip=True)


def run(method: str, ground: Ground, options: TrainingOptions) -> Answer:
    """The mapping trained with its prompt."""
    if is_dual(ground.pipeline.source):
        raise InputError(f"{method} maps the classes of a classifier; on an image-text source use clip-{method}.")
    cell, pipeline = ground.cell, ground.pipeline
    twin = open_differentiable(cell.source, read=cell.reading.read, device=ground.device)
    train = images(ground, ground.drawn.train, pipeline.geometry)
    recipe = published_recipe(
        method,
        epochs=options.epochs,
        batch_size=options.batch_size or (SMALL_BATCH if cell.dataset in SMALL else BATCH),
        mapping="pass" if options.mapping_pass else "seen",
        seed=cell.seed,
    )
    if pipeline.prompt.name == "watermark":
        recipe = replace(recipe, augmentation=CROPS)
    prompt = TrainablePrompt(pipeline.prompt, twin.device)
    training = baseline_training(
        method, twin, prompt, train, recipe, choose=chooser(options.select), progress=ground.progress
    )
    return run_training(ground, training, train, options.select)
