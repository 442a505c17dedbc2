"""Heads of the CLIP baselines, and the text vectors that they score by."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray

from yoro.discriminant.descriptions import Descriptions
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError
from yoro.option import check_range
from yoro.refining.heads import MappingHead, TrainingHead
from yoro.refining.recipe import FROZEN
from yoro.research.baselines.published import ALPHA, NEAREST
from yoro.sources.cache import cached_vectors
from yoro.sources.protocol import DualEncoder
from yoro.sources.torch.gradients import DifferentiableSource
from yoro.text.banks import fill_template
from yoro.text.encoded_bank import make_encoded_bank
from yoro.text.settings import EACH, Attributes, SentenceSettings


def label_head(
    vectors: Vectors, classes: Sequence[str], scale: float, device: torch.device | str = "cpu"
) -> MappingHead[ResponseStatistics]:
    """The head of VP and AR, which stays as it is: `scale <v, t>` with text vectors t (classes, dimension)."""
    mapping = Descriptions(vectors, tuple(classes), scale).head(classes)
    return MappingHead(mapping, FROZEN, collect=ResponseStatistics, solve=lambda _: mapping, device=device)


class AttributeHead(TrainingHead):
    """AttrVR's score: `alpha` times the mean of a class's nearest describing sentences, and the rest distinguishing.

    Banks are unit vectors (classes, sentences, dimension); a single bank counts wholly. The nearest are chosen
    anew for every image, in training and after.
    """

    def __init__(
        self,
        banks: Sequence[Vectors],
        classes: Sequence[str],
        scale: float,
        *,
        alpha: float = ALPHA,
        nearest: int = NEAREST,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(classes)
        check_banks(banks, len(self.classes), nearest, alpha)
        self._banks = [torch.from_numpy(np.array(bank)).to(device) for bank in banks]
        self._scale, self._alpha, self._nearest = scale, alpha, nearest

    def score(self, responses: torch.Tensor) -> torch.Tensor:
        return self._scale * attribute_scores(responses, self._banks, self._alpha, self._nearest)


def attribute_scores(
    vectors: torch.Tensor, banks: Sequence[torch.Tensor], alpha: float = ALPHA, nearest: int = NEAREST
) -> torch.Tensor:
    """Scores (n, classes) of image vectors (n, dimension) by one bank or two, unscaled. See `AttributeHead`."""
    parts = []
    for bank in banks:
        similarities = torch.einsum("nd,kmd->nkm", vectors, bank)
        parts.append(similarities.topk(min(nearest, bank.shape[1]), dim=2).values.mean(dim=2))
    return parts[0] if len(parts) == 1 else alpha * parts[0] + (1.0 - alpha) * parts[1]


def check_banks(banks: Sequence[Vectors], classes: int, nearest: int, alpha: float) -> None:
    """Raise if banks or numbers cannot make an attribute score."""
    if len(banks) not in (1, 2):
        raise InputError(f"Got {len(banks)} banks; expected describing sentences, and optionally distinguishing ones.")
    for bank in banks:
        if bank.ndim != 3 or len(bank) != classes:
            raise InputError(f"Got a bank of shape {bank.shape}; expected ({classes}, sentences, dimension).")
    check_range("nearest", nearest, 1)
    check_range("alpha", alpha, 0, 1)


Vectors = NDArray[np.float32]

LABEL_TEMPLATE = "This is a photo of {name}."  # of VP and AR
DEFAULT_TEMPLATE = "This is a photo of a {name}."  # the first of BLM's and AutoVP's 81
# The published runs have ImageNet's 80 templates here. These 80 are ours, so their numbers may differ.
_VIEWS = (
    "a snapshot", "a wide view", "a near view", "a scanned print", "a watercolour", "a pencil study",
    "a frame of a film", "a page of a catalogue",
)  # fmt: skip
_SCENES = (
    "", " in daylight", " at night", " in bad weather", " indoors", " before a plain wall", ", partly hidden",
    ", far away", ", out of focus", ", seen from above",
)  # fmt: skip
FURTHER_TEMPLATES = tuple(f"{view} showing {{a}}{scene}." for view, scene in product(_VIEWS, _SCENES))
SOURCE_TEMPLATES = (DEFAULT_TEMPLATE, *FURTHER_TEMPLATES)


def label_vectors(texts: DualEncoder, classes: Sequence[str]) -> Vectors:
    """One unit vector (classes, dimension) for each class name in the template of VP and AR."""
    return _encoded(texts, [fill_template(LABEL_TEMPLATE, name) for name in classes])


def source_vectors(texts: DualEncoder, classes: Sequence[str], templates: Sequence[str] = SOURCE_TEMPLATES) -> Vectors:
    """Unit vectors (templates * classes, dimension) of every class in every template, template after template.

    Names are lower-cased, their hyphens blanks, as in the published runs of BLM on CLIP.
    """
    plain = [name.lower().replace("-", " ") for name in classes]
    return _encoded(texts, [fill_template(template, name) for template in templates for name in plain])


def bank_vectors(
    texts: DualEncoder, classes: Sequence[str], attributes: Attributes, *, each: int = EACH, seed: int = 0
) -> tuple[Vectors, list[str]]:
    """Unit vectors (classes, sentences, dimension) of a bank, the classes sorted by name; and notes on it."""
    encoded, notes = make_encoded_bank(texts, classes, SentenceSettings(attributes, each), seed=seed)
    return encoded.vectors.reshape(len(classes), -1, texts.dimension), notes


class Similarities:
    """See `DifferentiableSource`: the responses of an image are its scaled similarities to given texts.

    Every text is a source class, as label mappings want them.
    """

    def __init__(self, images: DifferentiableSource, vectors: Vectors, scale: float) -> None:
        if vectors.ndim != 2 or vectors.shape[1] != images.width:
            raise InputError(
                f"Text vectors of shape {vectors.shape} do not match image vectors of width {images.width}; "
                "open both from the same source."
            )
        self.side, self.width = images.side, len(vectors)
        self.mean, self.std, self.device = images.mean, images.std, images.device
        self._images = images
        self._texts = scale * torch.from_numpy(vectors).to(images.device).T  # (dimension, texts)

    def __call__(self, pixels: torch.Tensor) -> torch.Tensor:
        return self._images(pixels) @ self._texts


def _encoded(texts: DualEncoder, sentences: list[str]) -> Vectors:
    return cached_vectors(str(texts.describe()["digest"]), sentences, texts.dimension, texts.encode_texts)
