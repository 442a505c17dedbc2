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
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from yoro.environment import cores
from yoro.errors import InputError
from yoro.prompts.trainable import VisualPrompt
from yoro.refining.checkpoint import TrainingCheckpoint, TrainingState, optimiser_arrays, restore_optimiser
from yoro.refining.heads import Arrays, OwnLoss, TrainingHead
from yoro.refining.images import Codes, LabelledImages, Pixels
from yoro.refining.recipe import EpochRecord, Recipe, is_best, make_optimiser
from yoro.sources.torch.gradients import DifferentiableSource

PIECE = 16  # images whose activations stay near a CPU's cache: 120 a second through Lite0 at 128, 95 in pieces of 64
BEFORE = 1  # of the draws in the pass before an epoch, which are not those of the epoch itself
LANES = 8  # pieces of a batch side by side on a CPU, each on one core

T = TypeVar("T", bound=np.generic)
TellEpoch = Callable[[Sequence[EpochRecord], int], None]  # called with all epochs so far and the chosen one


@dataclass(frozen=True)
class Outcome:
    """How a training went. Prompt and head are left as they were in the chosen epoch."""

    records: list[EpochRecord]
    chosen: int
    interrupted: bool = False


class PromptTraining:
    """A prompt, the source it is seen through and the head that scores, trained by a recipe."""

    def __init__(self, prompt: VisualPrompt, source: DifferentiableSource, head: TrainingHead, recipe: Recipe) -> None:
        self.prompt, self.source, self.head, self.recipe = prompt, source, head, recipe
        self._optimiser = make_optimiser(recipe, prompt.parameters(), head.parameters(), prompt.rates)
        self._in_lanes = source.device.type == "cpu" and not recipe.whole_batches
        self._piece = PIECE if self._in_lanes else recipe.batch_size
        self._trained = [*prompt.parameters(), *head.parameters()]
        self._best: Arrays = {}

    def run(
        self,
        train: LabelledImages,
        held: LabelledImages,
        *,
        checkpoint: TrainingCheckpoint | None = None,
        resume: bool = False,
        tell: TellEpoch = lambda records, chosen: None,
        progress: bool = False,
    ) -> Outcome:
        """Train for the recipe's epochs, validating before the first and after each; Ctrl-C keeps the best so far.

        With a checkpoint the state is written after each epoch; `resume` continues from it, with the same result.
        """
        if not len(held):
            raise InputError("There are no validation images to choose an epoch by.")
        before = checkpoint.read() if checkpoint is not None and resume else None
        if before:
            self._restore(before)
            records, chosen = list(before.records), before.chosen
        else:
            self._best = self._candidate()
            records, chosen = [EpochRecord(0, None, self.correct(held), len(held), 0.0)], 0
            tell(records, chosen)
        interrupted = False
        try:
            while len(records) <= self.recipe.epochs:
                records.append(self._turn(len(records), train, held, progress))
                if is_best(records, self.recipe.epoch_zero):
                    chosen, self._best = records[-1].epoch, self._candidate()
                if checkpoint is not None:
                    memory = {f"optimiser.{key}": value for key, value in optimiser_arrays(self._optimiser).items()}
                    checkpoint.write(TrainingState(records, chosen, self._candidate() | memory, self._best))
                tell(records, chosen)
        except KeyboardInterrupt:
            interrupted = True
        self._put(self._best)
        return Outcome(records, chosen, interrupted)

    def correct(self, images: LabelledImages) -> int:
        """How many images are answered rightly, each seen whole."""
        with self._lanes() as lanes:
            return sum(
                int((np.concatenate(list(lanes.map(self._answers, self._pieces(pixels)))) == codes).sum())
                for pixels, codes in images.batches(self.recipe.batch_size, pool=self._decoders(lanes))
            )

    def gather(self, images: LabelledImages, epoch: int = 0) -> None:
        """Let the head learn from a forward pass over images seen as the training sees them, before an epoch's own."""
        looks = self.recipe.looks(epoch, BEFORE)
        with self._lanes() as lanes:
            for pixels, codes in images.batches(self.recipe.batch_size, looks=looks, pool=self._decoders(lanes)):
                self._observe(lanes.map(self._forward, self._pieces(pixels)), codes)
            self.head.end_of_epoch()

    def _turn(self, epoch: int, train: LabelledImages, held: LabelledImages, progress: bool) -> EpochRecord:
        started = time.perf_counter()
        if self.recipe.mapping_pass:
            self.gather(train, epoch)
        loss = self._epoch(epoch, train, progress)
        seconds = time.perf_counter() - started
        return EpochRecord(epoch, loss, self.correct(held), len(held), round(seconds, 3))

    def _epoch(self, epoch: int, train: LabelledImages, progress: bool) -> float:
        """Run one epoch of updates and let the head learn from it; the mean loss over its images."""
        recipe, total = self.recipe, 0.0
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
                    bar.update(len(codes))
            if not recipe.mapping_pass:
                self.head.end_of_epoch()
        return total / len(train)

    def _step(self, pixels: Pixels, codes: Codes, lanes: Executor) -> float:
        """One update from one batch; the sum of its losses. What the head observes was answered before the update."""
        parts = lanes.map(self._backward, self._pieces(pixels), self._pieces(codes))
        losses, responses, gradients = zip(*parts, strict=True)
        total: float = sum(losses)
        if not np.isfinite(total):
            raise InputError("The training loss diverged. Use a smaller learning rate or a higher temperature.")
        if not self.recipe.mapping_pass:
            self._observe(responses, codes)
        for parameter, (first, *others) in zip(self._trained, zip(*gradients, strict=True), strict=True):
            parameter.grad = sum(others, first) / len(codes)  # in the order of the pieces: the same every time
        if self.recipe.head_clip:
            torch.nn.utils.clip_grad_value_(self.head.parameters(), self.recipe.head_clip)
        self._optimiser.step()
        return total

    def _backward(self, pixels: Pixels, codes: Codes) -> tuple[float, NDArray[np.float32], tuple[torch.Tensor, ...]]:
        """Summed loss of one piece of a batch, its responses, and the gradients of that loss."""
        responses = self._respond(pixels)
        truth = torch.from_numpy(codes).to(responses.device)
        loss = self._loss(responses, truth)
        gradients = torch.autograd.grad(loss, self._trained)
        return float(loss.detach()), responses.detach().float().cpu().numpy(), gradients

    def _loss(self, responses: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
        if isinstance(self.head, OwnLoss):
            return self.head.loss(responses, truth)
        return cross_entropy(self.head.score(responses) / self.recipe.temperature, truth, reduction="sum")

    def _forward(self, pixels: Pixels) -> NDArray[np.float32]:
        with torch.inference_mode():
            answers: NDArray[np.float32] = self._respond(pixels).float().cpu().numpy()
        return answers

    def _answers(self, pixels: Pixels) -> NDArray[np.int64]:
        with torch.inference_mode():
            best: NDArray[np.int64] = self.head.score(self._respond(pixels)).argmax(dim=1).cpu().numpy()
        return best

    def _respond(self, pixels: Pixels) -> torch.Tensor:
        device = self.source.device
        images = torch.from_numpy(pixels).to(device).permute(0, 3, 1, 2).float() / 255
        with torch.autocast(device.type, enabled=self.recipe.mixed_precision):
            return self.prompt.respond(self.source, images)

    def _pieces(self, batch: NDArray[T]) -> list[NDArray[T]]:
        return [batch[start : start + self._piece] for start in range(0, len(batch), self._piece)]

    def _observe(self, seen: Iterable[NDArray[np.float32]], codes: Codes) -> None:
        self.head.observe(np.concatenate(list(seen)), [self.head.classes[code] for code in codes])

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

    def _put(self, arrays: Arrays) -> None:
        """Prompt and head as they were in a candidate."""
        self.prompt.restore(_part(arrays, "prompt."))
        self.head.restore(_part(arrays, "head."))

    def _restore(self, state: TrainingState) -> None:
        self._put(state.now)
        restore_optimiser(self._optimiser, _part(state.now, "optimiser."))
        self._best = state.best


def _part(arrays: Arrays, prefix: str) -> Arrays:
    return {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
