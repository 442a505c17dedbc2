"""The cost of refinement: an epoch against plain forward and backward passes, one pass against 200 epochs, the canvas.

Data: scikit-learn's digits, through the embedded network in torch.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from sklearn.datasets import load_digits

import yoro
from timing import medians, print_machine, print_table
from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.mappings.affine import AffineMapping
from yoro.mappings.discriminant import solve_mapping
from yoro.pipeline import Pipeline, Reading
from yoro.prompts import make_prompt
from yoro.prompts.trainable import TrainablePrompt
from yoro.refine import PIECE, Training
from yoro.refining.baselines import EPOCHS, baseline_training, published_recipe
from yoro.refining.few_pass import refine
from yoro.refining.heads import MappingHead
from yoro.refining.images import LabelledImages
from yoro.refining.policies import Momentum
from yoro.refining.recipe import Recipe
from yoro.refining.settings import Settings
from yoro.sources.gradients import Twin, open_differentiable
from yoro.statistics import ResponseStatistics

CANVAS = 96
PAPER_RATIO = "20.8 (20 epochs of YORO-FP, ResNet-18, one A100)"


def digits(start: int, count: int) -> list[Example]:
    data = load_digits()
    pixels = np.round(data.images * 255 / 16).astype(np.uint8)
    return [Example(pixels[i], str(data.target[i]), f"digit {i}") for i in range(start, start + count)]


def labelled(examples: list[Example], side: int) -> LabelledImages:
    return LabelledImages(examples, tuple(sorted({example.label for example in examples})), Geometry(side))


def bdm_training(twin: Twin, train: LabelledImages) -> Training:
    """A training of one epoch that solves and blends, as YORO-FP does."""
    classes = train.classes
    blank = AffineMapping(np.zeros((twin.width, len(classes))), np.zeros(len(classes)), classes)
    head = MappingHead(
        blank,
        Momentum(),
        collect=lambda: ResponseStatistics(classes),
        solve=lambda statistics: solve_mapping(statistics, 0.1),
    )
    prompt = make_prompt("watermark", twin.side, mean=twin.mean, std=twin.std)
    return Training(TrainablePrompt(prompt), twin, head, Recipe(epochs=1, batch_size=32))


def plain_epoch(twin: Twin, images: torch.Tensor, threads: int) -> None:
    """Forward and backward to the pixels, on images that are decoded already."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    for start in range(0, len(images), PIECE):
        pixels = images[start : start + PIECE].clone().requires_grad_()
        twin(pixels).sum().backward()
    torch.set_num_threads(before)


def bench_epoch() -> None:
    """The bar is 1.1 against the same network's own passes."""
    examples = digits(0, 480)
    rows = []
    for side in (64, CANVAS, 128):
        twin = open_differentiable("embedded:lite0", side=side)
        train = labelled(examples, side)
        pixels = np.concatenate([part for part, _ in train.batches(64)])
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
        training = bdm_training(twin, train)

        def epoch() -> None:
            training._epoch(1, train)
            training.head.end_of_epoch()

        ours, plain = medians(epoch, lambda: plain_epoch(twin, images, torch.get_num_threads()), repeats=3)
        rows.append([str(side), f"{480 / ours:.0f}", f"{480 / plain:.0f}", f"{ours / plain:.2f}"])
    print_table(
        "One refinement epoch (augmentation, statistics, solve) against plain passes (bar: at most 1.1)",
        ["canvas", "refinement (img/s)", "plain (img/s)", "ours / plain"],
        rows,
    )


def bench_pass() -> None:
    """One YORO pass on the normal path against BLM+ as published, from measured epochs."""
    examples = digits(0, 480)
    pipeline_source = yoro.fit(examples, source=f"embedded:lite0?side={CANVAS}").pipeline
    started = time.perf_counter()
    for _ in Pipeline(pipeline_source.source, pipeline_source.prompt, pipeline_source.geometry).stream(
        examples, Reading(workers=0)
    ):
        pass
    one = time.perf_counter() - started
    twin = open_differentiable("embedded:lite0", side=CANVAS)
    train = labelled(examples, CANVAS)
    prompt = make_prompt("watermark", CANVAS, mean=twin.mean, std=twin.std)
    recipe = published_recipe("blm+", epochs=2, batch_size=64)
    training = baseline_training("blm+", twin, TrainablePrompt(prompt), train, recipe)
    records = training.run(train, labelled(digits(480, 32), CANVAS)).records
    epoch = float(np.mean([record.seconds for record in records[1:]]))
    print_table(
        f"One YORO pass against {EPOCHS} epochs of BLM+, extrapolated; the paper's ratio of YORO-FP: {PAPER_RATIO}",
        ["one pass (s)", "one epoch of BLM+ (s)", f"{EPOCHS} epochs (s)", "ratio"],
        [[f"{one:.2f}", f"{epoch:.2f}", f"{EPOCHS * epoch:.0f}", f"{EPOCHS * epoch / one:,.0f}"]],
    )


def bench_canvas() -> None:
    """What a smaller canvas costs in accuracy and saves in time."""
    train, held, test = digits(0, 300), digits(300, 200), digits(800, 500)
    rows = []
    for side in (48, 64, 96, 128):
        first = yoro.fit(train, source=f"embedded:lite0?side={side}")
        started = time.perf_counter()
        refined, refinement = refine(first, train, held, settings=Settings(epochs=8, flip=False))
        seconds = time.perf_counter() - started
        found = [refinement.records[0], refinement.records[refinement.epoch]]
        rows.append([str(side), *(f"{100 * record.accuracy:.1f}" for record in found)])
        rows[-1] += [f"{100 * part.evaluate(test).accuracy:.1f}" for part in (first, refined)] + [f"{seconds:.0f}"]
    print_table(
        "Digits, 30 images a class, 8 epochs of the default: accuracy (%) against the canvas",
        ["canvas", "validation, epoch 0", "chosen", "test, one pass", "refined", "seconds"],
        rows,
    )


def main() -> None:
    print_machine()
    bench_epoch()
    bench_pass()
    bench_canvas()


if __name__ == "__main__":
    main()
