"""Names and numbers of the published methods, at hand without torch."""

from __future__ import annotations

from dataclasses import dataclass

from yoro.errors import InputError

LABEL_MAPPINGS = ("rlm", "flm", "ilm", "blm", "blm+", "deep")  # for classifiers
ITERATIVE = ("ilm", "blm", "blm+")  # label mappings that are gathered anew for each epoch
CLIP_METHODS = ("vp", "ar", "attrvr", "dvp-cls", "dvp-cse", "autovp", "dga", "blm", "blm+")  # for image-text models

EPOCHS = 200
BATCH = 256  # of the label mappings; 64 for DTD and Oxford Pets
CLIP_RATE = 40.0  # of SGD, for image-text models
PROJECTION_RATE = 0.01  # of DGA's projections; published with 0.001 on SUN397, EuroSAT, Food101, Pets and ImageNet
ALPHA = 0.5  # weight of the describing sentences beside the distinguishing ones
NEAREST = 3  # sentences of a class that count for an image
PROMPTS = 3  # of the clustered DVP; published with 1 on EuroSAT, 2 on Food101 and UCF101


@dataclass(frozen=True)
class Granularity:
    """How many levels of super-classes, scales beside the whole image, and crops at each. The default is Flowers'."""

    levels: int = 2
    scales: int = 1
    crops: int = 5

    def __post_init__(self) -> None:
        if self.levels < 1 or self.scales < 0 or self.crops < 1:
            raise InputError(f"{self} cannot be; expected at least one level, no scale or more, and one crop or more.")
