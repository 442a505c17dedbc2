"""Options of a refinement, and its two protocols: the default and the paper's."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from yoro.environment import install
from yoro.errors import InputError, SourceError
from yoro.model.settings import HERE, PROTOCOLS, Loading, Tell, silence

if TYPE_CHECKING:
    from yoro.refining.recipe import Recipe

PAPER_RATE = 0.01
PAPER_RATE_CLIP = 0.1
PAPER_BATCHES = {"resnet18": 256}  # by network; 64 for all others
DEFAULT_RATE = 0.03
DEFAULT_BATCH = 32
PROMISING = 600  # updates: with fewer no refinement of photographs was kept here; the paper's largest gain took 3,000
PER_EPOCH = 3  # passes that an epoch is worth: forward, and backward at twice the cost


@dataclass(frozen=True)
class RefineSettings:
    """Settings of YORO-FP; None leaves a number to the protocol.

    epochs, mapping, beta : how long, and how the mapping is updated each epoch (momentum, refresh or frozen).
    protocol : "paper" is Adam 0.01 (0.1 for CLIP) at batches of 256 (ResNet-18) or 64, the loss of plain
        scores, and an initial pass without augmentation; "default" is what was measured to help.
    canvas : another canvas side than the model's; smaller is faster.
    learning_rate, batch_size, warm_up : of Adam; warm-up in epochs.
    temperature : that scores are divided by in the loss; "fitted" is the leave-one-out one of epoch 0.
    augmented_start : whether the initial statistics are taken from augmented images.
    augment, flip : random resized crops, and mirroring; leave mirroring out where left and right matter.
    epoch_zero : whether the predictor before training may be chosen; if not, the best trained epoch is always kept.
    """

    epochs: int = 20
    mapping: str = "momentum"
    beta: float = 0.9  # the paper's smoothing coefficient
    protocol: str = "default"
    canvas: int | None = None
    learning_rate: float | None = None
    batch_size: int | None = None
    warm_up: float = 0.0
    temperature: float | Literal["fitted"] | None = None
    augmented_start: bool = False
    augment: bool = True
    flip: bool = True
    mixed_precision: bool = False
    epoch_zero: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if self.protocol not in PROTOCOLS:
            raise InputError(f"Unknown protocol {self.protocol!r}; use 'default' or 'paper'.")
        if self.paper and (self.warm_up or self.temperature not in (None, 1.0) or self.augmented_start):
            raise InputError(
                "The paper's protocol has no temperature, no warm-up and no augmented start; remove these options."
            )

    @property
    def paper(self) -> bool:
        """Whether this is the paper's protocol."""
        return self.protocol == "paper"

    def recipe(self, source: str, fitted: float) -> Recipe:
        """The recipe for a source, given the temperature that epoch 0 was fitted with."""
        from yoro.data.geometry import Augmentation
        from yoro.refining.recipe import Recipe

        network = source.partition(":")[2].partition("?")[0].partition("/")[0].partition(".")[0]
        paper_batch = PAPER_BATCHES.get(network, 64)
        temperature = self.temperature
        if temperature is None:
            temperature = 1.0 if self.paper else "fitted"
        return Recipe(
            epochs=self.epochs,
            batch_size=self.batch_size or (paper_batch if self.paper else DEFAULT_BATCH),
            learning_rate=self._rate(source),
            warm_up=self.warm_up,
            temperature=fitted if temperature == "fitted" else float(temperature),
            augmentation=Augmentation(flip=self.flip) if self.augment else None,
            mixed_precision=self.mixed_precision,
            epoch_zero=self.epoch_zero,
            seed=self.seed,
        )

    def _rate(self, source: str) -> float:
        if self.learning_rate is not None:
            return self.learning_rate
        if not self.paper:
            return DEFAULT_RATE
        return PAPER_RATE_CLIP if source.startswith("open_clip:") else PAPER_RATE


@dataclass(frozen=True)
class RefineRun:
    """How a refinement is run: settings that do not change the result.

    source : location of the backbone, if it moved.
    checkpoint, resume : a folder that is written after each epoch, and whether to continue from it. The caller removes
        it once the result is saved.
    """

    loading: Loading = HERE
    source: str | None = None
    device: str = "auto"
    checkpoint: Path | None = None
    resume: bool = False
    progress: bool = False
    tell: Tell = silence


def check_torch(what: str = "Refinement") -> None:
    """Refuse to train where torch is not installed, with the command that installs it."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("timm") is None:
        raise SourceError(f"{what} needs torch and timm, which are not installed: {install('torch')}.")


def prospects(images: int, epochs: int, batch_size: int) -> list[str]:
    """A warning that so few images rarely gain from refinement; none where there are enough."""
    updates = epochs * math.ceil(images / batch_size)
    if updates >= PROMISING:
        return []
    few = f"A gain is unlikely: {images:,} images give only {updates:,} updates of the prompt in {epochs} epochs."
    cost = f"This takes about {PER_EPOCH * epochs} times as long as the fit; Ctrl-C keeps the best epoch so far."
    return [f"{few} {cost}"]
