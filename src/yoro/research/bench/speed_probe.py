"""Speed of a source on this machine, measured for a few seconds before a plan is run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from yoro.data.examples import Example
from yoro.environment import cores
from yoro.model.estimator import DiscriminantMapping
from yoro.model.pipeline import Pipeline
from yoro.model.settings import STRICT
from yoro.research.bench.cell_loading import open_pipeline
from yoro.research.bench.cells import BenchCell
from yoro.research.bench.datasets.dataset import BenchDataset

WARM, MOST = 8, 96  # images before the clock starts, and at most while it runs
PATIENCE = 2.0  # seconds that a pass may take to be measured
ROWS = 1024  # random responses that a mapping is solved for


@dataclass(frozen=True)
class Speed:
    """Seconds per image, forward and in an epoch of training (None: unknown), and per solved mapping."""

    forward: float
    training: float | None = None
    solving: float = 0.0


def measure(
    cell: BenchCell, dataset: BenchDataset, examples: Sequence[Example], *, trains: bool, device: str = "auto"
) -> Speed:
    """The speed of a cell's source on images of the dataset."""
    pipeline = open_pipeline(cell, dataset, device)
    drawn = np.random.default_rng(0).permutation(len(examples))[: WARM + MOST].tolist()
    chosen = [examples[i] for i in drawn]
    first = _seconds(pipeline, chosen[:WARM])
    rest = chosen[WARM : WARM + max(WARM, min(MOST, int(PATIENCE / first)))] or chosen
    forward = _seconds(pipeline, rest)
    return Speed(forward, _training(cell, pipeline, rest, device) if trains else None, _solving(pipeline))


def _seconds(pipeline: Pipeline, examples: Sequence[Example]) -> float:
    """Seconds to decode one image and run the source on it."""
    started = time.perf_counter()
    count = sum(len(batch) for batch in pipeline.stream(examples, STRICT))
    return (time.perf_counter() - started) / max(count, 1)


def _training(cell: BenchCell, pipeline: Pipeline, examples: Sequence[Example], device: str) -> float:
    """Seconds per image in an epoch: the second of two, since the first has to warm up."""
    from yoro.prompts.trainable import TrainablePrompt
    from yoro.refining.heads import LinearHead
    from yoro.refining.images import LabelledImages
    from yoro.refining.loop import PromptTraining
    from yoro.refining.recipe import Recipe
    from yoro.sources.torch.gradients import open_differentiable

    twin = open_differentiable(cell.source, read=cell.inputs.read, device=device)
    classes = tuple(sorted({example.label or "" for example in examples}))
    images = LabelledImages(examples, classes, pipeline.geometry)
    prompt, head = TrainablePrompt(pipeline.prompt, twin.device), LinearHead(twin.width, classes, device=twin.device)
    recipe = Recipe(epochs=2, batch_size=min(len(examples), 16 * cores()), augmentation=None)
    records = PromptTraining(prompt, twin, head, recipe).run(images, images).records
    return records[-1].seconds / len(examples)


def _solving(pipeline: Pipeline) -> float:
    """Seconds of one decomposition and solution, the main cost of most methods that do not train."""
    rng = np.random.default_rng(0)
    responses, labels = rng.normal(size=(ROWS, pipeline.source.width)), rng.integers(0, 10, ROWS)
    started = time.perf_counter()
    DiscriminantMapping(shrinkage=0.1).fit(responses, labels)
    return time.perf_counter() - started
