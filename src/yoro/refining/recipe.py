"""A training as data: recipe (optimiser, schedule, augmentation), updates of the mapping, and records of its epochs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import numpy as np

from yoro.data.geometry import WEAK, Looks, Views
from yoro.errors import InputError
from yoro.mappings.affine import AffineMapping
from yoro.option import check_choice, check_range
from yoro.refining.settings import RefineSettings

if TYPE_CHECKING:
    import torch

MILESTONES = (0.5, 0.72)  # of the epochs, where the published schedules divide the rate by ten
GAMMA = 0.1


@dataclass(frozen=True)
class EpochRecord:
    """The result of one epoch; epoch 0 is the predictor before any training, and has no loss."""

    epoch: int
    loss: float | None  # mean over the training images, each before the update it contributed to
    correct: int  # validation images (or test images, where these choose) classified correctly
    total: int
    seconds: float  # of training; validation is not counted

    @property
    def accuracy(self) -> float:
        return self.correct / self.total if self.total else 0.0


def is_best(records: Sequence[EpochRecord], epoch_zero: bool = True) -> bool:
    """Whether the last epoch is strictly better than all before it: the paper's rule for choosing an epoch.

    Without `epoch_zero` the predictor before training is no candidate.
    """
    candidates = records if epoch_zero else records[1:]
    return bool(candidates) and all(candidates[-1].correct > earlier.correct for earlier in candidates[:-1])


@dataclass(frozen=True)
class Recipe:
    """How a prompt is trained. The defaults are the paper's for full data, but for the batch of 256 of ResNet-18."""

    epochs: int = RefineSettings.epochs
    batch_size: int = 64
    optimiser: Literal["adam", "sgd"] = "adam"
    learning_rate: float = 0.01  # of the prompt
    head_learning_rate: float = 0.1  # of a learned head
    momentum: float = 0.9  # of SGD
    weight_decay: float = 0.0
    schedule: Literal["none", "milestones", "cosine"] = "none"
    schedule_epochs: int | None = None  # that a cosine falls over; None are all epochs
    warm_up: float = 0.0  # epochs over which the rate grows to its full size
    temperature: float = 1.0  # that scores are divided by in the loss
    augmentation: Views | None = WEAK
    head_clip: float | None = None  # largest size of any gradient of a learned head; larger ones are cut to it
    clip_scaled: bool = False  # cut gradients to it while they carry the factor of the scaled loss, as AutoVP does
    whole_batches: bool = False  # answer batches in one piece, for scores that depend on the images beside
    mapping_pass: bool = False  # gather in a pass of its own before each epoch, as published ILM and BLM do
    mixed_precision: bool = False  # in half precision where torch deems it safe, its loss scaled
    on_device: bool | None = None  # make views and gather statistics where the training runs; None: unless on a CPU
    epoch_zero: bool = True  # whether the predictor before training may be chosen
    seed: int = 0

    def __post_init__(self) -> None:
        checks = {
            "epochs": self.epochs >= 0,
            "batch_size": self.batch_size >= 1,
            "optimiser": self.optimiser in ("adam", "sgd"),
            "learning_rate": math.isfinite(self.learning_rate) and self.learning_rate >= 0,
            "weight_decay": math.isfinite(self.weight_decay) and self.weight_decay >= 0,
            "schedule": self.schedule in ("none", "milestones", "cosine"),
            "schedule_epochs": self.schedule_epochs is None or self.schedule_epochs >= 1,
            "head_clip": self.head_clip is None or self.head_clip > 0,
            "warm_up": math.isfinite(self.warm_up) and self.warm_up >= 0,
            "temperature": math.isfinite(self.temperature) and self.temperature > 0,
            "seed": self.seed >= 0,
        }
        for name, sound in checks.items():
            if not sound:
                raise InputError(f"{name}={getattr(self, name)!r} is out of range for a training.")

    def looks(self, epoch: int, *more: int) -> Looks | None:
        """The random view of each image in an epoch, by the seed and these numbers; None without augmentation."""
        augmentation, seed = self.augmentation, self.seed
        return None if augmentation is None else lambda image: partial(augmentation.draw, (seed, epoch, image, *more))

    def rate(self, epoch: int, progress: float) -> float:
        """Factor on the learning rates at `progress` (0 to 1) of an epoch, the first being 1.

        >>> recipe = Recipe(epochs=200, schedule="milestones")
        >>> [round(recipe.rate(epoch, 0.0), 3) for epoch in (1, 100, 101, 144, 145)]
        [1.0, 1.0, 0.1, 0.1, 0.01]
        """
        done = epoch - 1 + progress
        factor = min(1.0, done / self.warm_up) if self.warm_up and done < self.warm_up else 1.0
        if self.schedule == "cosine":
            factor *= 0.5 * (1.0 + math.cos(math.pi * done / (self.schedule_epochs or self.epochs)))
        if self.schedule == "milestones":
            factor *= GAMMA ** sum(epoch - 1 >= int(share * self.epochs) for share in MILESTONES)
        return factor


def make_optimiser(
    recipe: Recipe,
    programs: Sequence[torch.nn.Parameter],
    learned: Sequence[torch.nn.Parameter],
    shares: Sequence[float] = (),
) -> torch.optim.Optimizer:
    """Adam (0.9, 0.999) or SGD; a learned head has a rate of its own.

    Programs are trained at their share of the learning rate, all of it where no shares are given.
    """
    import torch

    rates = [recipe.learning_rate * share for share in shares or (1.0,) * len(programs)]
    groups = [{"params": [p], "lr": rate, "full": rate} for p, rate in zip(programs, rates, strict=True)]
    if learned:
        rate = recipe.head_learning_rate
        groups.append({"params": list(learned), "lr": rate, "full": rate})
    if recipe.optimiser == "sgd":
        return torch.optim.SGD(groups, momentum=recipe.momentum, weight_decay=recipe.weight_decay)
    return torch.optim.Adam(groups, betas=(0.9, 0.999), weight_decay=recipe.weight_decay)


FROZEN, REFRESH = 1.0, 0.0  # weights of the old mapping: the first one stays, or the new one replaces it


def blended(old: AffineMapping, new: AffineMapping, beta: float) -> AffineMapping:
    """`beta old + (1 - beta) new` (eq. momentum).

    >>> old, new = (AffineMapping([[value]], [value], ("a",)) for value in (1.0, 2.0))
    >>> blended(old, new, 0.75).weights.tolist()
    [[1.25]]
    """
    if beta in (FROZEN, REFRESH):
        return old if beta == FROZEN else new
    with np.errstate(invalid="ignore"):  # equal are also infinities, of a class without data
        weights, bias = (
            np.where(one == two, one, beta * one + (1.0 - beta) * two)
            for one, two in ((old.weights, new.weights), (old.bias, new.bias))
        )
    return AffineMapping(weights, bias, old.classes)


def weight_of_old(update: str, beta: float = RefineSettings.beta) -> float:
    """The weight of the old mapping under an update by the name a user gives; beta is that of "momentum"."""
    weights = {"momentum": beta, "refresh": REFRESH, "frozen": FROZEN}
    check_choice("mapping update", update, weights)
    check_range("beta", beta, 0, 1)
    return weights[update]
