"""Names and numbers of the published methods; this module does not import torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from yoro.errors import InputError
from yoro.option import check_choice, check_range

LABEL_MAPPINGS = ("rlm", "flm", "ilm", "blm", "blm+", "deep")  # for classifiers
ITERATIVE = ("ilm", "blm", "blm+")  # label mappings that are gathered anew for each epoch
CLIP_METHODS = ("vp", "ar", "attrvr", "dvp-cls", "dvp-cse", "autovp", "dga", "blm", "blm+")  # for image-text models

EPOCHS = 200
BATCH = 256  # of the label mappings; 64 for DTD and Oxford Pets
CLIP_RATE = 40.0  # of SGD, for image-text models
PROJECTION_RATE = 0.01  # of DGA's projections; published with 0.001 on SUN397, EuroSAT, Food101, Pets and ImageNet
IMAGE = 128 / 224  # of the canvas: the image of AutoVP before it is resized
SCALES = (0.5, 1.0, 1.5)  # ... and the factors that it tries
SCALE_BOUNDS = (0.1, 5.0)
RATES, DECAYS = (35.0, 40.0, 45.0), (0.0, 1e-5, 1e-10)
SEARCH_EPOCHS = {
    "": 5,
    "food101": 2,
    "stanfordcars": 2,
    "sun397": 2,
    "cifar100": 2,
    "svhn": 3,
    "gtsrb": 3,
    "eurosat": 3,
}
TEXTS = {"": (1, 5, 10), "flowers102": (1, 5, 9), "food101": (1, 5, 9), "ucf101": (1, 5, 9),
         "stanfordcars": (1, 2, 5), "sun397": (1, 2)}  # fmt: skip
ALPHA = 0.5  # weight of the describing sentences beside the distinguishing ones
NEAREST = 3  # sentences of a class that count for an image
PROMPTS = 3  # of the clustered DVP; published with 1 on EuroSAT, 2 on Food101 and UCF101


@dataclass(frozen=True)
class Granularity:
    """Levels of super-classes, scales beside the whole image, and crops per scale. The default is that of Flowers."""

    levels: int = 2
    scales: int = 1
    crops: int = 5

    def __post_init__(self) -> None:
        for name, least in (("levels", 1), ("scales", 0), ("crops", 1)):
            check_range(name, getattr(self, name), least)


@dataclass(frozen=True)
class Configuration:
    """What AutoVP chooses by search, but for the network. The default is that of the paper's table of times."""

    scale: float = 1.5  # of an image of 128 pixels, on a canvas of 224; where it is trained, at first
    resize: Literal["fixed", "trained"] = "fixed"
    mapping: Literal["full", "frequency"] = "full"
    sources: int = 1  # texts a class, under a frequency mapping
    again: bool = False  # count the frequency mapping anew before each epoch

    def __post_init__(self) -> None:
        if not self.scale > 0:
            raise InputError(f"The option scale is {self.scale}; expected a number above 0.")
        check_range("sources", self.sources, 1)
        check_choice("resize", self.resize, ("fixed", "trained"))
        check_choice("mapping", self.mapping, ("full", "frequency"))

    def image_side(self, canvas: int) -> int:
        """Side of the image before a trained resize, or after a fixed one.

        >>> [Configuration(scale).image_side(224) for scale in (0.5, 1.0, 1.5)]
        [64, 128, 192]
        """
        side = round(canvas * IMAGE)
        return side if self.resize == "trained" else min(int(side * self.scale), canvas - 1)


@dataclass(frozen=True)
class ClipOptions(Granularity, Configuration):
    """A published reprogramming method for image-text models; the defaults are the published ones.

    prompts : of the clustered DVP.
    width : of the frame or watermark, in pixels of 224; None is that of the public code: 30 for VP, 16 for AR.
    weight_decay, search : of AutoVP; with `search` its configuration, rate and decay are those that are the best on the
    training images after a few epochs.
    """

    epochs: int = EPOCHS
    select: str = "validation"
    nearest: int = NEAREST
    alpha: float = ALPHA
    prompts: int = PROMPTS
    projection_rate: float = PROJECTION_RATE
    learning_rate: float = CLIP_RATE
    width: int | None = None
    mixed_precision: bool = False
    weight_decay: float = 0.0
    search: bool = False

    def __post_init__(self) -> None:
        check_training(self.epochs, None, self.select)
        Granularity.__post_init__(self)
        Configuration.__post_init__(self)


def check_training(epochs: int, batch_size: int | None, select: str = "validation") -> None:
    """Raise if an option of a training is out of range."""
    check_range("epochs", epochs, 0, whole=True)
    check_range("batch_size", batch_size, 1, whole=True)
    check_choice("select", select, ("validation", "test"))  # the images that choose the epoch


def search_space(dataset: str) -> tuple[list[dict[str, object]], list[dict[str, object]]]:
    """The options of AutoVP's search on a dataset, those of image and mapping, then those of the optimiser."""
    mappings: list[dict[str, object]] = [{"mapping": "full"}]
    for sources in TEXTS.get(dataset, TEXTS[""]):
        mappings += [{"mapping": "frequency", "sources": sources, "again": again} for again in (False, True)]
    images = [{"scale": scale, "resize": resize} for scale in SCALES for resize in ("trained", "fixed")]
    rates: list[dict[str, object]] = [
        {"learning_rate": rate, "weight_decay": decay} for rate in RATES for decay in DECAYS
    ]
    return [mapping | image for mapping in mappings for image in images], rates
