"""Options of a refinement, and its two protocols: the one that helps, and the paper's."""

import importlib.util
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from yoro import limits
from yoro.environment import install
from yoro.errors import InputError, SourceError, counted
from yoro.model.settings import PROTOCOLS, USUAL, Loading, Tell, silence
from yoro.option import check_choice, check_range, option

if TYPE_CHECKING:
    from yoro.refining.recipe import Recipe

PAPER_RATE = 0.01
PAPER_RATE_CLIP = 0.1
PAPER_BATCHES = {"resnet18": 256}  # by network; 64 for all others
DEFAULT_RATE = 0.03
DEFAULT_BATCH = 32
LARGEST_RATE = LARGEST_TEMPERATURE = 1_000_000
PROMISING = 600  # updates: with fewer no refinement of photographs was kept here; the paper's largest gain took 3,000
PER_EPOCH = 3  # passes that an epoch is worth: forward, and backward at twice the cost


@dataclass(frozen=True)
class RefineSettings:
    """Options of YORO-FP; None leaves a number to the protocol."""

    epochs: int = option(20, "Training epochs.")
    mapping: str = option(
        "momentum", "How the mapping is updated after each epoch.", metavar="momentum|refresh|frozen", expert=True
    )
    beta: float = option(0.9, "Momentum: weight of the old mapping.", expert=True)  # as in the paper
    protocol: str = option(
        "default",
        "'paper' follows the paper exactly.",
        "That is: Adam at 0.01 (0.1 for CLIP), batches of 256 (ResNet-18) or 64, the loss of plain scores, and an "
        "initial pass without augmentation. The default is what was measured to help.",
        metavar="default|paper",
        expert=True,
    )
    canvas: int | None = option(None, "Input side, if other than the model's; smaller is faster.", expert=True)
    learning_rate: float | None = option(None, "Learning rate of Adam.", expert=True)
    batch_size: int | None = option(None, "Images per update.", expert=True)
    warm_up: float = option(0.0, "Warm-up of the learning rate, in epochs.", expert=True)
    temperature: float | Literal["fitted"] | None = option(
        None,
        "Temperature of the loss.",
        '"fitted" is the one that leave-one-out chose before training.',
        metavar="fitted|NUMBER",
        expert=True,
    )
    augmented_start: bool = option(False, "Compute the initial statistics from augmented images.", expert=True)
    augment: bool = option(True, "Random resized crops.", expert=True)
    flip: bool = option(True, "Random mirroring; switch it off where left and right matter.")
    mixed_precision: bool = option(
        False, "Mixed precision: faster, slightly different numbers.", flags=("--amp",), expert=True
    )
    epoch_zero: bool = option(
        True,
        "Whether the model before training may win; otherwise the best trained epoch is kept.",
        python_only=True,
        expert=True,
    )
    seed: int = option(0, "Random seed.", expert=True)

    def __post_init__(self) -> None:
        check_choice("protocol", self.protocol, PROTOCOLS)
        check_range("epochs", self.epochs, 0, limits.EPOCHS)
        check_range("beta", self.beta, 0, 1)
        check_range("canvas", self.canvas, 1, limits.CANVAS_SIDE)
        check_range("learning_rate", self.learning_rate, 0, LARGEST_RATE)
        check_range("batch_size", self.batch_size, 1, limits.BATCH)
        check_range("warm_up", self.warm_up, 0, limits.EPOCHS)
        check_range("seed", self.seed, 0, limits.SEED)
        check_range("temperature", None if self.temperature == "fitted" else self.temperature, 0, LARGEST_TEMPERATURE)
        if self.paper and (self.warm_up or self.temperature not in (None, 1.0) or self.augmented_start):
            raise InputError(
                "The paper's protocol has the loss of plain scores, no warm-up and no augmented start; "
                "remove the options temperature, warm_up and augmented_start."
            )

    @property
    def paper(self) -> bool:
        return self.protocol == "paper"

    def recipe(self, source: str, fitted: float) -> "Recipe":
        """The recipe for a source, given the temperature that epoch 0 was fitted with."""
        from yoro.data.geometry import Augmentation
        from yoro.refining.recipe import Recipe
        from yoro.sources.names import network_name

        paper_batch = PAPER_BATCHES.get(network_name(source), 64)
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
    """How a refinement is run: settings that affect no result.

    source : location of the classifier's backbone, if it moved.
    checkpoint, resume : a folder that is written after each epoch, and whether to resume from it. It is the caller's to
        remove once the result is saved.
    """

    loading: Loading = USUAL
    source: str | None = None
    device: str = "auto"
    checkpoint: Path | None = None
    resume: bool = False
    progress: bool = False
    tell: Tell = silence


def check_torch(what: str = "Refinement") -> None:
    """Raise if torch is not installed, with the command that installs it."""
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("timm") is None:
        raise SourceError(f"{what} needs torch and timm, which are not installed: {install('torch')}.")


def prospects(images: int, epochs: int, batch_size: int) -> list[str]:
    """A warning for users with few images, for whom a gain is unlikely; otherwise nothing."""
    updates = epochs * math.ceil(images / batch_size)
    if updates >= PROMISING:
        return []
    given = f"{images:,} images give only {updates:,} updates of the prompt in {counted(epochs, 'epoch')}"
    few = f"A gain is unlikely: {given}."
    cost = f"Refining takes about {PER_EPOCH * epochs} times as long as the fit; Ctrl-C keeps the best so far."
    return [f"{few} {cost}"]
