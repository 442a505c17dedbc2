"""The cost of refinement: an epoch against plain forward and backward passes, one pass against 200 epochs, the canvas.

And what it gains by the default and by the paper's settings.

Data: scikit-learn's digits, through the embedded network in torch.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

import yoro
from timing import print_machine, print_table, rounds
from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.discriminant.solve import solve_once
from yoro.discriminant.statistics import ResponseStatistics
from yoro.mappings.affine import AffineMapping
from yoro.prompts.prompt import make_prompt
from yoro.prompts.trainable import TrainablePrompt
from yoro.refining.few_pass import refine
from yoro.refining.heads import MappingHead
from yoro.refining.images import Codes, LabelledImages, Pixels
from yoro.refining.loop import PromptTraining
from yoro.refining.recipe import Recipe
from yoro.refining.settings import RefineSettings
from yoro.research.baselines.label_mappings import baseline_training, published_recipe
from yoro.research.baselines.published import EPOCHS
from yoro.sources.torch.gradients import Twin, open_differentiable

CANVAS = 96
IMAGES = 320
EPOCH_IMAGES = 640  # the solution of the mapping comes once in an epoch, whatever its length
BATCH = 32
PAPER_BLM_PLUS = 5019.9 / 17.1  # seconds in tab:clip-efficiency: Oxford Flowers, 16 shots, CLIP ViT-B/32, one A100
PAPER_FEW_PASS = 20.8  # tab:compute-return: 20 epochs of YORO-FP and the pass, ResNet-18 with padding, one A100


def digits(start: int, count: int) -> list[Example]:
    data = load_digits()
    pixels = np.round(data.images * 255 / 16).astype(np.uint8)
    return [Example(pixels[i], str(data.target[i]), f"digit {i}") for i in range(start, start + count)]


def labelled(examples: list[Example], side: int) -> LabelledImages:
    return LabelledImages(examples, tuple(sorted({example.label or "" for example in examples})), Geometry(side))


def bdm_training(twin: Twin, train: LabelledImages) -> PromptTraining:
    """A training that gathers, solves and blends, as YORO-FP does."""
    classes = train.classes
    blank = AffineMapping(np.zeros((twin.width, len(classes))), np.zeros(len(classes)), classes)
    head = MappingHead(
        blank,
        0.9,
        collect=lambda: ResponseStatistics(classes),
        solve=lambda seen: solve_once(seen, 0.1),
    )
    prompt = make_prompt("watermark", twin.side, mean=twin.mean, std=twin.std)
    return PromptTraining(TrainablePrompt(prompt), twin, head, Recipe(epochs=1, batch_size=BATCH, temperature=4.0))


class PlainEpoch:
    """Nothing but the network: forward, a fixed linear head, backward to the prompt, Adam; in the same lanes."""

    def __init__(self, twin: Twin, train: LabelledImages) -> None:
        self._training = bdm_training(twin, train)  # for its lanes, prompt and optimiser
        self._twin, self._train, self._prompt = twin, train, self._training.prompt
        generator = torch.Generator().manual_seed(0)
        self._matrix = 0.03 * torch.randn(twin.width, len(train.classes), generator=generator)

    def __call__(self, ready: list[tuple[Pixels, Codes]] | None = None) -> None:
        """Over batches that are in memory, or decoded on the way."""
        training = self._training
        with training._lanes() as lanes:
            for pixels, codes in ready or self._train.batches(BATCH, looks=training.recipe.looks(1), pool=lanes):
                parts = list(lanes.map(self._backward, training._pieces(pixels), training._pieces(codes)))
                self._prompt.program.grad = sum(parts[1:], parts[0]) / len(codes)
                training._optimiser.step()

    def _backward(self, pixels: Pixels, codes: Codes) -> torch.Tensor:
        images = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
        scores = self._twin(self._prompt.compose(images)) @ self._matrix
        loss = cross_entropy(scores, torch.from_numpy(codes), reduction="sum")
        return torch.autograd.grad(loss, [self._prompt.program])[0]


def bench_epoch() -> None:
    """The bar is 1.1 against the same network's own passes over pixels that are in memory."""
    rows = []
    for side in (64, 128):
        twin, train = (
            open_differentiable("embedded:lite0", side=side, device="cpu"),
            labelled(digits(0, EPOCH_IMAGES), side),
        )
        ready = list(train.batches(BATCH))
        training, plain = bdm_training(twin, train), PlainEpoch(twin, train)
        training._epoch(1, train)  # the first passes of a network prepare it
        ours, bare, decoding = rounds(
            lambda: training._epoch(1, train),
            lambda: plain(ready),
            plain,
        )
        rows.append([str(side), *(f"{statistics.median(part[0]):.2f}" for part in (ours, bare, decoding))])
        rows[-1] += [ratio(ours[0], bare[0]), ratio(ours[1], bare[1]), ratio(ours[0], decoding[0])]
    print_table(
        f"One refinement epoch of {EPOCH_IMAGES} images (views, statistics, solution, blend) against plain passes in "
        "the same lanes; medians of 5 rounds; the bar is 1.1",
        ["canvas", "ours (s)", "plain (s)", "plain and views (s)", "ours / plain", "in CPU time", "ours / with views"],
        rows,
    )


def ratio(one: list[float], other: list[float]) -> str:
    """Median of the ratios within each round."""
    return f"{statistics.median(a / b for a, b in zip(one, other, strict=True)):.2f}"


def bench_pass() -> None:
    """One YORO pass on the normal path against BLM+ as published and against YORO-FP, from measured epochs."""
    examples = digits(0, IMAGES)
    name = f"embedded:lite0?side={CANVAS}"
    yoro.fit(examples[:64], source=name)  # what is loaded once
    started = time.perf_counter()
    yoro.fit(examples, source=name)
    one = time.perf_counter() - started
    twin, train = open_differentiable(name, device="cpu"), labelled(examples, CANVAS)
    prompt = TrainablePrompt(make_prompt("watermark", CANVAS, mean=twin.mean, std=twin.std))
    held = labelled(digits(IMAGES, 20), CANVAS)
    blm = baseline_training("blm+", twin, prompt, train, published_recipe("blm+", epochs=3, batch_size=64))
    few = PromptTraining(prompt, twin, bdm_training(twin, train).head, Recipe(epochs=3, batch_size=BATCH))
    rows = [["YORO, images to classifier", "1", f"{one:.2f}", f"{one:.2f}", "1", "1"]]
    for what, training, epochs, paper in (
        ("BLM+, mapping pass before each epoch", blm, EPOCHS, PAPER_BLM_PLUS),
        ("YORO-FP and its first pass", few, 20, PAPER_FEW_PASS),
    ):
        epoch = statistics.median(record.seconds for record in training.run(train, held).records[1:])
        whole = epochs * epoch + (one if training is few else 0.0)
        rows.append([what, str(epochs), f"{epoch:.2f}", f"{whole:.0f}", f"{whole / one:,.0f}", f"{paper:.1f}"])
    print_table(
        f"{IMAGES} images, canvas {CANVAS}, extrapolated from epochs measured. The paper's ratios: BLM+ 5019.9 s by "
        "17.1 s (tab:clip-efficiency, CLIP on a GPU); YORO-FP from tab:compute-return (ResNet-18 on a GPU)",
        ["method", "epochs", "an epoch (s)", "whole (s)", "times one pass", "in the paper"],
        rows,
    )


def bench_canvas() -> None:
    """What a smaller canvas costs in accuracy and saves in time."""
    train, held, test = digits(0, 300), digits(300, 200), digits(800, 400)
    rows = []
    for side in (64, 96, 128):
        first = yoro.fit(train, source=f"embedded:lite0?side={side}")
        refined, refinement = refine(first, train, held, settings=RefineSettings(epochs=5, flip=False))
        found = [refinement.records[0], refinement.records[refinement.epoch]]
        rows.append([str(side), *(f"{100 * record.accuracy:.1f}" for record in found), str(refinement.epoch)])
        rows[-1] += [f"{100 * part.evaluate(test).accuracy:.1f}" for part in (first, refined)]
        rows[-1].append(f"{statistics.median(record.seconds for record in refinement.records[1:]):.1f}")
    print_table(
        "Digits, 300 images to train on, 200 to validate on, 400 to test, 5 epochs of the default, one seed: "
        "accuracy (%) against the canvas",
        ["canvas", "validation, epoch 0", "chosen", "epoch", "test, one pass", "refined", "an epoch (s)"],
        rows,
    )


PROTOCOLS = {
    "default": RefineSettings(),
    "default, `--augmented-start`": RefineSettings(augmented_start=True),
    "paper": RefineSettings(protocol="paper"),
}


def drawn_digits(seed: int) -> list[list[Example]]:
    """30 digits of each class to train on, 30 to validate on and 60 to test, by lot."""
    everything = digits(0, len(load_digits().target))
    rng, parts = np.random.default_rng(seed), [[], [], []]
    for name in sorted({example.label or "" for example in everything}):
        mine = [example for example in everything if example.label == name]
        order = rng.permutation(len(mine))
        for part, (start, end) in zip(parts, ((0, 30), (30, 60), (60, 120)), strict=True):
            part += [mine[i] for i in order[start:end]]
    return parts


def protocol_row(name: str) -> list[str]:
    """What a protocol makes of three draws."""
    found, before, after = [], [], []
    for seed in range(3):
        train, held, test = drawn_digits(seed)
        first = yoro.fit(train, source="embedded:lite0?side=64")
        settings = replace(PROTOCOLS[name], epochs=10, flip=False, seed=seed)
        refined, refinement = refine(first, train, held, settings=settings)
        found.append(refinement)
        before.append(100 * first.evaluate(test).accuracy)
        after.append(100 * refined.evaluate(test).accuracy)
    right = [[one.records[epoch].correct for one in found] for epoch in (0, 1)]
    best = [one.records[one.epoch].correct for one in found]
    return [
        name, *(f"{statistics.mean(counts):.1f}" for counts in right),
        f"{statistics.mean(best):.1f} ({', '.join(str(one.epoch) for one in found)})",
        f"{statistics.mean(one.records[1].loss or 0.0 for one in found):.2f}",
        f"{statistics.mean(before):.1f}", f"{statistics.mean(after):.1f}",
        ", ".join(f"{two - one:.1f}" for one, two in zip(before, after, strict=True)),
    ]  # fmt: skip


def bench_protocols() -> None:
    """The default against the paper's settings."""
    print_table(
        "Digits at a canvas of 64, means of three draws of 300 images to train on, 300 to validate on and 600 to test, "
        "10 epochs: right validation answers, and test accuracy (%)",
        ["settings", "epoch 0", "epoch 1", "chosen (epochs)", "first loss", "test before", "after", "gains"],
        [protocol_row(name) for name in PROTOCOLS],
    )


def main() -> None:
    print_machine()
    bench_epoch()
    bench_pass()
    bench_canvas()
    bench_protocols()


if __name__ == "__main__":
    main()
