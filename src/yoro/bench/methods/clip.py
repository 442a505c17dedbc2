"""The published reprogramming methods for image-text models on the bench."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from yoro.bench.context import Answer, Ground
from yoro.bench.datasets.attribute_files import read_templates
from yoro.bench.methods.options import ClipOptions
from yoro.bench.methods.training import chooser, images, run_training
from yoro.bench.sentences import SEED, Origin, is_list
from yoro.refining.baselines.clip import ClipSettings, clip_geometry, clip_prompt, clip_recipe, clip_training
from yoro.refining.baselines.clip_texts import DEFAULT_TEMPLATE, SOURCE_TEMPLATES
from yoro.refining.baselines.dga import Granularity
from yoro.sources.torch.gradients import open_differentiable
from yoro.text.encoded_bank import need_texts


def run(name: str, ground: Ground, options: ClipOptions) -> Answer:
    """The method with its own prompt and geometry, whatever the prompt of the setting is."""
    method, cell = name.removeprefix("clip-"), ground.cell
    texts = need_texts(ground.pipeline.source, name)
    twin = open_differentiable(cell.source, read=cell.reading.read, device=ground.device)
    prompt = clip_prompt(method, twin)
    train = images(ground, ground.drawn.train, clip_geometry(prompt, twin))
    recipe = clip_recipe(
        method, epochs=options.epochs, shots=cell.reading.shots, flip=ground.dataset.flip, seed=cell.seed
    )
    projections = options.projection_rate if method == "dga" else options.learning_rate
    recipe = replace(recipe, learning_rate=options.learning_rate, head_learning_rate=projections)
    settings = ClipSettings(
        sentences=cell.reading.sentences,
        nearest=options.nearest,
        alpha=options.alpha,
        prompts=options.prompts,
        granularity=Granularity(options.levels, options.scales, options.crops),
        bank_seed=SEED,
        templates=_templates(ground.sentences),
    )
    training, notes = clip_training(
        method, texts, twin, train, recipe, banks=_banks(name, ground.sentences), settings=settings, prompt=prompt,
        choose=chooser(options.select), progress=ground.progress,
    )  # fmt: skip
    return run_training(ground, training, train, options.select, notes)


def _templates(sentences: tuple[Origin, ...]) -> tuple[str, ...]:
    """The templates of BLM and AutoVP: their own first one, and those of a file or ours."""
    lists = [Path(origin) for origin in sentences if is_list(origin)]
    return (DEFAULT_TEMPLATE, *read_templates(lists[0])) if lists else SOURCE_TEMPLATES


def _banks(name: str, sentences: tuple[Origin, ...]) -> tuple[Origin, ...]:
    """The banks that a method takes; templates are none."""
    return () if name in ("autovp", "clip-blm", "clip-blm+") else sentences
