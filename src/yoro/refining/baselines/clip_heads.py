"""Heads of the CLIP baselines that score image vectors by sentences."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from yoro.discriminant.descriptions import Descriptions
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError
from yoro.refining.baselines.clip_texts import Vectors
from yoro.refining.baselines.published import ALPHA, NEAREST
from yoro.refining.heads import LearnedHead, MappingHead
from yoro.refining.policies import Frozen


def label_head(
    vectors: Vectors, classes: Sequence[str], scale: float, device: torch.device | str = "cpu"
) -> MappingHead[ResponseStatistics]:
    """The head of VP and AR, which stays as it is: `scale <v, t>` with text vectors t (classes, dimension)."""
    mapping = Descriptions(vectors, tuple(classes), scale).head(classes)
    return MappingHead(mapping, Frozen(), collect=ResponseStatistics, solve=lambda _: mapping, device=device)


class AttributeHead(LearnedHead):
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
    parts = [_nearest_mean(torch.einsum("nd,kmd->nkm", vectors, bank), nearest) for bank in banks]
    return parts[0] if len(parts) == 1 else alpha * parts[0] + (1.0 - alpha) * parts[1]


def check_banks(banks: Sequence[Vectors], classes: int, nearest: int, alpha: float) -> None:
    """Refuse banks and numbers that make no attribute score."""
    if len(banks) not in (1, 2):
        raise InputError(f"{len(banks)} banks came; expected describing sentences, or these and distinguishing ones.")
    for bank in banks:
        if bank.ndim != 3 or len(bank) != classes:
            raise InputError(f"A bank of shape {bank.shape} came; expected ({classes}, sentences, dimension).")
    if nearest < 1:
        raise InputError(f"The nearest {nearest} sentences were asked for; expected at least 1.")
    if not 0.0 <= alpha <= 1.0:
        raise InputError(f"alpha is {alpha}; expected a number from 0 to 1.")


def _nearest_mean(similarities: torch.Tensor, nearest: int) -> torch.Tensor:
    """Mean of the largest of (n, classes, sentences) for each class, (n, classes)."""
    return similarities.topk(min(nearest, similarities.shape[2]), dim=2).values.mean(dim=2)
