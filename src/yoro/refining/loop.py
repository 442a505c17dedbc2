"""The prompt-training loop: a visual prompt, or several, through a frozen source, while a label mapping is active.

YORO-FP is this loop with BDM, 20 epochs and a momentum policy; the published reprogramming baselines are
the same loop with other heads and longer recipes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from yoro.data.geometry import Views
from yoro.environment import cores
from yoro.errors import InputError
from yoro.files.tensors import Arrays
from yoro.prompts.trainable import VisualPrompt
from yoro.refining.checkpoint import TrainingCheckpoint, TrainingState, optimiser_arrays, restore_optimiser
from yoro.refining.device_views import DeviceImages
from yoro.refining.heads import TrainingHead
from yoro.refining.images import Codes, LabelledImages, Pixels
from yoro.refining.recipe import EpochRecord, Recipe, is_best, make_optimiser
from yoro.sources.torch.gradients import DifferentiableSource

PIECE = 16  # images whose activations stay near a CPU's cache: 120 a second through Lite0 at 128, 95 in pieces of 64
BEFORE = 1  # of the draws in the pass before an epoch, which are not those of the epoch itself
LANES = 8  # pieces of a batch side by side on a CPU, each on one core

CHECKED = 32  # updates between two looks at whether the loss is still a number: each waits for a device

Images = LabelledImages | DeviceImages
Batch = TypeVar("Batch", Pixels, Codes, torch.Tensor, Pixels | torch.Tensor)
TellEpoch = Callable[[Sequence[EpochRecord], int], None]  # called with all epochs so far and the chosen one


@dataclass(frozen=True)
class TrainingOutcome:
    """How a training went. Prompt and head are left as they were in the chosen epoch."""

    records: list[EpochRecord]
    chosen: int
    interrupted: bool = False


class PromptTraining:
    """A prompt, the source it is seen through and the head that scores, trained by a recipe."""

    def __init__(self, prompt: VisualPrompt, source: DifferentiableSource, head: TrainingHead, recipe: Recipe) -> None:
        self.prompt, self.source, self.head, self.recipe = prompt, source, head, recipe
        self._optimiser = make_optimiser(recipe, prompt.parameters(), head.parameters(), prompt.rates)
        self._device = source.device
        self._on_device = on_device(recipe, self._device)
        self._wide = torch.float32 if self._device.type == "mps" else torch.float64  # Apple's graphics have no float64
        self._in_lanes = self._device.type == "cpu" and not self._on_device and not recipe.whole_batches
        self._scaler = torch.amp.GradScaler(self._device.type, enabled=recipe.mixed_precision and _scales(self._device))
        if self._scaler.is_enabled():
            self._scaler.scale(torch.zeros((), device=self._device))  # makes its factor, before the lanes ask for it
        self._piece = PIECE if self._in_lanes else recipe.batch_size
        self._trained = [*prompt.parameters(), *head.parameters()]
        self._clipped = [*head.parameters(), *prompt.clipped()]
        self._best: Arrays = {}
        self.prepared = 0.0  # seconds of passes before the first epoch

    def run(
        self,
        train: LabelledImages,
        held: LabelledImages,
        *,
        checkpoint: TrainingCheckpoint | None = None,
        resume: bool = False,
        tell: TellEpoch = lambda records, chosen: None,
        progress: bool = False,
    ) -> TrainingOutcome:
        """Train for the recipe's epochs, validating before the first and after each; Ctrl-C keeps the best so far.

        With a checkpoint the state is written after each epoch; `resume` continues from it, with the same result.
        """
        if not len(held):
            raise InputError("There are no validation images to choose an epoch by.")
        started = time.perf_counter()
        learnt = self._ready(train, self.recipe.augmentation)
        waited, seen = time.perf_counter() - started, self._ready(held, None)
        before = checkpoint.read() if checkpoint is not None and resume else None
        if before:
            self._restore(before)
            records, chosen = list(before.records), before.chosen
        else:
            self._best = self._candidate()
            records, chosen = [EpochRecord(0, None, self._right(seen), len(held), 0.0)], 0
            tell(records, chosen)
        interrupted = False
        try:
            while len(records) <= self.recipe.epochs:
                made = self._turn(len(records), learnt, seen, progress)
                records.append(replace(made, seconds=round(made.seconds + waited, 3)))
                waited = 0.0
                if is_best(records, self.recipe.epoch_zero):
                    chosen, self._best = records[-1].epoch, self._candidate()
                if checkpoint is not None:
                    checkpoint.write(TrainingState(records, chosen, self._candidate() | self._memory(), self._best))
                tell(records, chosen)
        except KeyboardInterrupt:
            interrupted = True
        self._put(self._best)
        return TrainingOutcome(records, chosen, interrupted)

    def correct(self, images: LabelledImages) -> int:
        """How many images are answered rightly, each seen whole."""
        return self._right(images)

    def gather(self, images: LabelledImages) -> None:
        """Let the head learn from a forward pass over images seen as the training sees them, before the first epoch."""
        started = time.perf_counter()
        self._gather(self._placed(images), 0)
        self.prepared += time.perf_counter() - started

    def _ready(self, images: LabelledImages, views: Views | None) -> Images:
        """The images of a training, decoded once for several epochs: every pixel, or what is seen without views."""
        if self.recipe.epochs > 1:
            images = images.seen_once() if views is None else images.decoded_once()
        return self._placed(images)

    def _placed(self, images: LabelledImages) -> Images:
        """The images, or views of them made on the device."""
        there = self._on_device and not images.geometry.reduced
        return DeviceImages(images, self._device) if there else images

    def _right(self, images: Images) -> int:
        total = torch.zeros((), dtype=torch.int64, device=self._device)
        with self._lanes() as lanes:
            for pixels, codes in images.batches(self.recipe.batch_size, pool=self._decoders(lanes)):
                for right in lanes.map(self._answered, self._pieces(pixels), self._pieces(codes)):
                    total += right
        return int(total)

    def _gather(self, images: Images, epoch: int) -> None:
        looks = self.recipe.looks(epoch, BEFORE)
        with self._lanes() as lanes:
            for pixels, codes in images.batches(self.recipe.batch_size, looks=looks, pool=self._decoders(lanes)):
                self._observe(lanes.map(self._forward, self._pieces(pixels)), codes)
            self.head.end_of_epoch()

    def _turn(self, epoch: int, train: Images, held: Images, progress: bool) -> EpochRecord:
        started = time.perf_counter()
        if self.recipe.mapping_pass:
            self._gather(train, epoch)
        loss = self._epoch(epoch, train, progress)
        seconds = time.perf_counter() - started
        return EpochRecord(epoch, loss, self._right(held), len(held), round(seconds, 3))

    def _epoch(self, epoch: int, train: Images, progress: bool) -> float:
        """Run one epoch of updates and let the head learn from it; the mean loss over its images."""
        recipe, total = self.recipe, torch.zeros((), dtype=self._wide, device=self._device)
        order = np.random.default_rng([recipe.seed, epoch]).permutation(len(train))
        steps = math.ceil(len(train) / recipe.batch_size)
        with self._lanes() as lanes:
            looks, pool = recipe.looks(epoch), self._decoders(lanes)
            batches = train.batches(recipe.batch_size, order=order, looks=looks, pool=pool)
            what, hidden = f"epoch {epoch} of {recipe.epochs}", None if progress else True  # None: silent in logs
            with tqdm(total=len(train), desc=what, unit="img", disable=hidden, leave=False) as bar:
                for step, (pixels, codes) in enumerate(batches):
                    factor = recipe.rate(epoch, step / steps)
                    for group in self._optimiser.param_groups:
                        group["lr"] = factor * group["full"]
                    total += self._step(pixels, codes, lanes)
                    if step % CHECKED == 0:
                        _check_loss(total)
                    bar.update(len(codes))
            if not recipe.mapping_pass:
                self.head.end_of_epoch()
        return _check_loss(total) / len(train)

    def _step(self, pixels: Pixels | torch.Tensor, codes: Codes, lanes: Executor) -> torch.Tensor:
        """One update from one batch; the sum of its losses. What the head observes was answered before the update."""
        parts = lanes.map(self._backward, self._pieces(pixels), self._pieces(codes))
        losses, responses, gradients = zip(*parts, strict=True)
        if not self.recipe.mapping_pass:
            self._observe(responses, codes)
        for parameter, (first, *others) in zip(self._trained, zip(*gradients, strict=True), strict=True):
            parameter.grad = sum(others, first) / len(codes)  # in the order of the pieces: the same every time
        if self.recipe.head_clip and self._clipped:
            if not self.recipe.clip_scaled:
                self._scaler.unscale_(self._optimiser)
            torch.nn.utils.clip_grad_value_(self._clipped, self.recipe.head_clip)
        self._scaler.step(self._optimiser)
        self._scaler.update()
        self.prompt.confine()
        return sum(losses[1:], losses[0])

    def _backward(
        self, pixels: Pixels | torch.Tensor, codes: Codes
    ) -> tuple[torch.Tensor, torch.Tensor, tuple[torch.Tensor, ...]]:
        """Summed loss of one piece of a batch, its responses, and the gradients of that loss."""
        responses = self._respond(pixels)
        loss = self.head.loss(responses, self._moved(codes), self.recipe.temperature)
        gradients = torch.autograd.grad(self._scaler.scale(loss), self._trained)
        return loss.detach(), responses.detach(), gradients

    def _forward(self, pixels: Pixels | torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            return self._respond(pixels)

    def _answered(self, pixels: Pixels | torch.Tensor, codes: Codes) -> torch.Tensor:
        with torch.inference_mode():
            return (self.head.score(self._respond(pixels)).argmax(dim=1) == self._moved(codes)).sum()

    def _respond(self, pixels: Pixels | torch.Tensor) -> torch.Tensor:
        images = self._moved(pixels).permute(0, 3, 1, 2).float() / 255
        with torch.autocast(self._device.type, enabled=self.recipe.mixed_precision):
            return self.prompt.respond(self.source, images).float()

    def _moved(self, batch: Pixels | Codes | torch.Tensor) -> torch.Tensor:
        tensor = batch if isinstance(batch, torch.Tensor) else torch.from_numpy(batch)
        return tensor.to(self._device, non_blocking=True)

    def _pieces(self, batch: Batch) -> list[Batch]:
        return [batch[start : start + self._piece] for start in range(0, len(batch), self._piece)]

    def _observe(self, seen: Iterable[torch.Tensor], codes: Codes) -> None:
        self.head.observe(torch.cat(list(seen)), [self.head.classes[code] for code in codes])

    @contextmanager
    def _lanes(self) -> Iterator[Executor]:
        """Threads for the pieces of a batch, each on one core.

        Lanes never wait for each other, as the threads within one operator do: on two busy cores those were
        measured to take seven times as long. The same holds for numpy's products and solutions between batches.
        Numbers too small to be normal, which an image answered with certainty sends back, are slow and count as zero.
        """
        threads = torch.get_num_threads()
        lanes = min(LANES, cores()) if self._in_lanes else 1
        if self._in_lanes:
            torch.set_num_threads(1)
        try:
            with (
                threadpool_limits(1, user_api="blas"),
                ThreadPoolExecutor(lanes, "yoro-lane", torch.set_flush_denormal, (True,)) as pool,
            ):
                yield pool
        finally:
            torch.set_num_threads(threads)

    def _decoders(self, lanes: Executor) -> Executor | None:
        """Who decodes: on a CPU the lanes, since more threads than cores would wait for each other."""
        return lanes if self._in_lanes else None

    def _candidate(self) -> Arrays:
        """Prompt and head as they are now."""
        prompt = {f"prompt.{key}": value for key, value in self.prompt.arrays().items()}
        return prompt | {f"head.{key}": value for key, value in self.head.arrays().items()}

    def _memory(self) -> Arrays:
        """What the optimiser and the scaling of the loss remember."""
        scaler = {f"scaler.{key}": np.array(value) for key, value in self._scaler.state_dict().items()}
        return scaler | {f"optimiser.{key}": value for key, value in optimiser_arrays(self._optimiser).items()}

    def _put(self, arrays: Arrays) -> None:
        """Prompt and head as they were in a candidate."""
        self.prompt.restore(_part(arrays, "prompt."))
        self.head.restore(_part(arrays, "head."))

    def _restore(self, state: TrainingState) -> None:
        self._put(state.now)
        restore_optimiser(self._optimiser, _part(state.now, "optimiser."))
        self._scaler.load_state_dict({key: value.item() for key, value in _part(state.now, "scaler.").items()})
        self._best = state.best


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}


def on_device(recipe: Recipe, device: torch.device) -> bool:
    """Whether views are made and statistics gathered where the training runs."""
    return device.type != "cpu" if recipe.on_device is None else recipe.on_device


def _scales(device: torch.device) -> bool:
    """Whether mixed precision may lose small gradients there: half precision has five bits of exponent."""
    return device.type in ("cpu", "cuda")


def _check_loss(total: torch.Tensor) -> float:
    """The sum of losses as a number, for which a device is waited for."""
    if not math.isfinite(value := float(total)):
        raise InputError("The training loss diverged. Use a smaller learning rate or a higher temperature.")
    return value
