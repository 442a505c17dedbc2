"""Names and numbers of the published methods; this module does not import torch."""

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
    """Levels of super-classes, scales beside the whole image, and crops per scale. The default is that of Flowers."""

    levels: int = 2
    scales: int = 1
    crops: int = 5

    def __post_init__(self) -> None:
        if self.levels < 1 or self.scales < 0 or self.crops < 1:
            raise InputError(f"{self} is out of range; expected levels and crops of at least 1, scales of at least 0.")


def check_method(method: str, known: tuple[str, ...]) -> None:
    """Raise if a method is not one of those known."""
    if method not in known:
        raise InputError(f"Unknown baseline {method!r}; choose one of {', '.join(known)}.")
