"""The options that a plan may give to a method."""

from __future__ import annotations

from dataclasses import dataclass

from yoro.errors import InputError
from yoro.refining.baselines import published
from yoro.refining.policies import make_policy
from yoro.refining.settings import RefineSettings


@dataclass(frozen=True)
class NoOptions:
    """A method that has nothing to choose."""


@dataclass(frozen=True)
class FewPassOptions:
    """YORO-FP. None leaves a number to the protocol.

    epoch_zero : whether the predictor before training is a candidate, as the paper says; without, the best trained
        epoch is kept whatever it is worth, which is how the paper's legacy column was probably made.
    """

    epochs: int = RefineSettings.epochs
    mapping: str = RefineSettings.mapping
    beta: float = RefineSettings.beta
    protocol: str = "paper"  # where a refinement of the product has "default"
    learning_rate: float | None = RefineSettings.learning_rate
    batch_size: int | None = RefineSettings.batch_size
    augment: bool = RefineSettings.augment
    epoch_zero: bool = RefineSettings.epoch_zero

    def __post_init__(self) -> None:
        check(self.epochs, self.batch_size)
        make_policy(self.mapping)


@dataclass(frozen=True)
class TrainingOptions:
    """A label mapping that is trained with a prompt, on a classifier.

    select : what chooses the epoch: "validation" images, or the "test" images as in the published numbers.
    mapping_pass : whether an iterative mapping is gathered in a pass of its own, as published, or from the training.
    """

    epochs: int = published.EPOCHS
    batch_size: int | None = None  # None: 256, and 64 for DTD and Oxford Pets, as published
    select: str = "validation"
    mapping_pass: bool = True

    def __post_init__(self) -> None:
        check(self.epochs, self.batch_size, self.select)


@dataclass(frozen=True)
class ClipOptions:
    """A published reprogramming method for image-text models; the defaults are the published ones.

    prompts : of the clustered DVP. levels, scales, crops, projection_rate : of DGA.
    """

    epochs: int = published.EPOCHS
    select: str = "validation"
    nearest: int = published.NEAREST
    alpha: float = published.ALPHA
    prompts: int = published.PROMPTS
    levels: int = published.Granularity.levels
    scales: int = published.Granularity.scales
    crops: int = published.Granularity.crops
    projection_rate: float = published.PROJECTION_RATE
    learning_rate: float = published.CLIP_RATE

    def __post_init__(self) -> None:
        check(self.epochs, None, self.select)


def check(epochs: int, batch_size: int | None, select: str = "validation") -> None:
    """Raise if a number or word cannot be."""
    if not isinstance(epochs, int) or epochs < 0:
        raise InputError(f"epochs is {epochs!r}; expected a whole number of at least 0.")
    if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
        raise InputError(f"batch_size is {batch_size!r}; expected a whole number of at least 1.")
    if select not in ("validation", "test"):
        raise InputError(f"select is {select!r}; expected 'validation', or 'test' as in the published numbers.")
