"""Speed of a source on this machine, measured for a few seconds before a plan is run."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from yoro import limits
from yoro.data.examples import Example
from yoro.environment import cores
from yoro.errors import InputError, one_line
from yoro.files.reading import read_json
from yoro.model.estimator import DiscriminantMapping
from yoro.model.pipeline import Pipeline
from yoro.model.settings import STRICT
from yoro.research.bench.cell_loading import open_pipeline
from yoro.research.bench.cells import BenchCell
from yoro.research.bench.datasets.bench_datasets import find_bench_dataset
from yoro.research.bench.datasets.dataset import BenchDataset
from yoro.research.bench.machine import machine_facts

WARM, MOST = 8, 96  # images before the clock starts, and at most while it runs
PATIENCE = 2.0  # seconds that a pass may take to be measured
SIDE = 256  # pixels of made-up images
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


def measure_sources(cells: Iterable[BenchCell], device: str) -> tuple[dict[str, Speed], dict[str, str]]:
    """The speed of each cell's source on made-up images, and why others could not be opened."""
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8) for _ in range(WARM + MOST)]
    examples = [Example(picture, str(i % 2), name=str(i)) for i, picture in enumerate(pictures)]
    found, missing = dict[str, Speed](), dict[str, str]()
    for cell in cells:
        about = find_bench_dataset(cell.dataset)
        try:
            found[cell.source] = measure(cell, about, examples, trains=True, device=device)
        except Exception as error:  # sources fail in as many ways as there are libraries
            missing[cell.source] = one_line(error)
    return found, missing


def rates_json(speeds: Mapping[str, Speed], device: str) -> bytes:
    """Speeds as a file, with the machine that they were measured on; `read_rates` takes it back."""
    told = {"machine": machine_facts(device), "seconds_an_image": {name: asdict(one) for name, one in speeds.items()}}
    return json.dumps(told, indent=1).encode() + b"\n"


def read_rates(path: Path) -> dict[str, Speed]:
    """The speeds in a file of `rates_json`."""
    try:
        told = read_json(path, limits.RESULT_BYTES)["seconds_an_image"]  # type: ignore[index]
        speeds = {str(name): Speed(**one) for name, one in told.items()}
        if not all(one.forward > 0 and (one.training or 1.0) > 0 for one in speeds.values()):
            raise ValueError("a time that is not positive")
    except (OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"'{path}' is not a file of rates ({one_line(error)}); make one with `yoro bench measure`."
        ) from None
    return speeds


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
