"""DGA: attributes at several scales of the image and at several levels of super-classes.

Where the paper's text and the published code differ, this is the code:

- Crops of one scale are weighed by 1 - H with H the entropy of a crop's scores, *averaged over the batch*, after crops
  of H >= 0.9 are left out (all are kept, with equal weights, where none would remain). The text has weights H0 - H for
  every image by itself. Scores therefore depend on the images of the same batch.
- Super-classes act on their classes by rescaling: the scores of a super-class's members are multiplied so that their
  mean is the log-softmax of the super-class. The text redistributes the softmax of the super-class among its members.
  A log-softmax is negative, so that positive scores are turned round within a super-class; the share of 0.7 of the
  plain log-softmax outweighs this. The rescaling divides by a mean of similarities: those of trained image-text models
  are positive; where they pass through zero the loss explodes.

Ours in two points: the projections have the source's dimension, where the code has 512 whatever the source, and an
image's crops are drawn by its own pixels, so that trainings repeat and validation gives one answer; in the code they
are drawn anew each time, in tests too.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from torch.nn.functional import cross_entropy, interpolate, log_softmax

from yoro.errors import InputError
from yoro.mappings.batches import Array
from yoro.prompts.prompt import Prompt
from yoro.prompts.trainable import PromptSet, Respond, TrainablePrompt
from yoro.refining.heads import TrainingHead
from yoro.research.baselines.clip_heads import Vectors, attribute_scores, check_banks
from yoro.research.baselines.published import ALPHA, NEAREST, Granularity

MIXTURE = 0.7  # weight of the classes' own scores beside those by super-classes
ENTROPY = 0.9  # nats; crops less certain than this are left out
SUPER_RATE = 0.5  # of the prompts of super-classes, as a share of the learning rate: 20 beside 40
LEAST = 1e-12  # keeps a mean score of zero from dividing


class GranularPrompts(PromptSet):
    """One prompt for each scale and one for each level, all of one kind.

    Responses are, side by side: the whole image behind the mean program of its own prompt and those of all levels; the
    crops, scale after scale, behind the prompt of their scale; the whole image behind the prompt of each level.
    """

    def __init__(
        self, prompt: Prompt, granularity: Granularity, *, seed: int = 0, device: torch.device | str = "cpu"
    ) -> None:
        scales, levels = granularity.scales + 1, granularity.levels
        super().__init__(
            [TrainablePrompt(prompt, device) for _ in range(scales + levels)], (1.0,) * scales + (SUPER_RATE,) * levels
        )
        self._granularity, self._seed = granularity, seed

    def respond(self, source: Respond, images: torch.Tensor) -> torch.Tensor:
        scales = self._granularity.scales + 1
        whole, levels = self.prompts[0], self.prompts[scales:]
        mean = torch.stack([whole.program, *(prompt.program for prompt in levels)]).mean(dim=0)
        views = [whole.compose(images, whole.addend(mean))]
        for scale in range(1, scales):
            views += [self.prompts[scale].compose(crop) for crop in self._crops(images, scale)]
        views += [prompt.compose(images) for prompt in levels]
        return torch.cat([source(view) for view in views], dim=1)

    def _crops(self, images: torch.Tensor, scale: int) -> list[torch.Tensor]:
        """The crops of one scale, each in the size of the images."""
        side, crops = images.shape[2], self._granularity.crops
        small = crop_side(side, scale)
        corners = np.stack([self._corners(image, scale, side - small) for image in images])  # (n, crops, 2)
        result = []
        for number in range(crops):
            places = corners[:, number].tolist()
            cut = [
                image[:, top : top + small, left : left + small]
                for image, (top, left) in zip(images, places, strict=True)
            ]
            result.append(interpolate(torch.stack(cut), size=(side, side), mode="bilinear", align_corners=False))
        return result

    def _corners(self, image: torch.Tensor, scale: int, most: int) -> NDArray[np.int64]:
        pixels = (image * 255).round().byte().cpu().numpy().tobytes()
        generator = np.random.default_rng([self._seed, scale, crc32(pixels)])
        return generator.integers(0, most, (self._granularity.crops, 2), endpoint=True)


def crop_side(side: int, scale: int) -> int:
    """Side of the crops of a scale: 192 - 32 scale, but 64 at least, of images of 192; in proportion of others.

    >>> [crop_side(192, scale) for scale in (1, 2, 5)], crop_side(48, 1)
    ([160, 128, 64], 40)
    """
    return max(1, round(side * max(192 - 32 * scale, 64) / 192))


class GranularHead(TrainingHead):
    """DGA's score of the responses of `GranularPrompts`, and its loss.

    Every scale and level has a projection (dimension, dimension) of the sentences, at first the identity.
    """

    def __init__(
        self,
        banks: Sequence[Vectors],
        tree: Sequence[Groups],
        classes: Sequence[str],
        scale: float,
        granularity: Granularity,
        *,
        device: torch.device | str = "cpu",
    ) -> None:
        check_banks(banks, len(classes), NEAREST, ALPHA)
        if len(tree) != granularity.levels:
            raise InputError(f"Got {len(tree)} levels of super-classes; expected {granularity.levels}.")
        names = [f"scale.{i}" for i in range(granularity.scales + 1)] + [f"level.{i}" for i in range(len(tree))]
        dimension = banks[0].shape[2]
        super().__init__(classes, {name: torch.nn.Parameter(torch.eye(dimension, device=device)) for name in names})
        self._scale, self._granularity = scale, granularity
        self._banks = [torch.from_numpy(np.array(bank)).to(device) for bank in banks]
        self._groups = [torch.from_numpy(groups).to(device) for groups in tree]
        self._pooled = [
            [torch.from_numpy(pooled(bank, groups, 2 ** (level + 1))).to(device) for bank in banks]
            for level, groups in enumerate(tree)
        ]

    def score(self, responses: torch.Tensor) -> torch.Tensor:
        """See `TrainingHead.score`; the scores depend on what else is in the batch."""
        return self._answers(responses)[0]

    def loss(self, responses: torch.Tensor, truth: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
        """Cross entropy of the scores, and the mean of that of the levels, without a temperature."""
        scores, levels = self._answers(responses)
        losses = [
            cross_entropy(level, groups[truth], reduction="sum")
            for level, groups in zip(levels, self._groups, strict=True)
        ]
        return cross_entropy(scores, truth, reduction="sum") + sum(losses) / len(losses)

    def _answers(self, responses: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Scores of the classes (n, classes), and of the super-classes of each level."""
        granularity, dimension = self._granularity, self._banks[0].shape[2]
        views = responses.view(len(responses), -1, dimension).unbind(1)
        parts = [self._by(views[0], "scale.0", self._banks)]
        for scale in range(granularity.scales):
            crops = views[1 + scale * granularity.crops : 1 + (scale + 1) * granularity.crops]
            parts.append(fused([self._by(crop, f"scale.{scale + 1}", self._banks) for crop in crops]))
        own = torch.stack(parts).mean(dim=0)
        wholes = views[1 + granularity.scales * granularity.crops :]
        levels = [self._by(v, f"level.{i}", self._pooled[i]) for i, v in enumerate(wholes)]
        above = [rescaled(own, level, groups) for level, groups in zip(levels, self._groups, strict=True)]
        return MIXTURE * log_softmax(own, dim=1) + (1.0 - MIXTURE) * torch.stack(above).mean(dim=0), levels

    def _by(self, vectors: torch.Tensor, name: str, banks: Sequence[torch.Tensor]) -> torch.Tensor:
        """Attribute scores by projected sentences: <v, P t> is <P' v, t>, which is cheaper."""
        return self._scale * attribute_scores(vectors @ self._learned[name], banks)


def fused(crops: Sequence[torch.Tensor]) -> torch.Tensor:
    """Scores (n, classes) of several crops in one, the more certain ones of the batch weighing more."""
    scores = torch.stack(list(crops))  # (crops, n, classes)
    if len(scores) == 1:
        return scores[0]
    logs = log_softmax(scores, dim=2)
    entropies = -(logs.exp() * logs).sum(dim=2).mean(dim=1)  # (crops,)
    kept = entropies < ENTROPY
    if not kept.any():
        return scores.mean(dim=0)
    weights = (1.0 - entropies) * kept
    return torch.einsum("c,cnk->nk", weights / weights.sum(), scores)


def rescaled(scores: torch.Tensor, above: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Scores (n, classes) multiplied so that those of a super-class have its log-softmax for their mean."""
    sums = torch.zeros_like(above).index_add(1, groups, scores)
    means = sums / torch.bincount(groups, minlength=above.shape[1])
    return scores * (log_softmax(above, dim=1) / (means + LEAST))[:, groups]


Groups = NDArray[np.intp]  # (classes,): the super-class of each class


def super_classes(prototypes: Array, levels: int) -> list[Groups]:
    """For each level the super-class of every class, by the prototypes (classes, dimension) of the classes.

    A level merges the super-classes of the level before in strict pairs, the nearest first; an odd one stays alone.
    The prototype of a super-class is the mean over its classes. Super-classes are numbered in the order of merging.
    The published code averages other classes than these from the fourth level on, by an index of the wrong level.

    >>> [groups.tolist() for groups in super_classes(np.array([[0.0], [5.0], [1.0], [9.0], [5.5]]), 2)]
    [[1, 0, 1, 2, 0], [1, 0, 1, 0, 0]]
    """
    if prototypes.ndim != 2 or len(prototypes) < 2 or levels < 1:
        raise InputError(
            f"Got {levels} levels of super-classes and prototypes of shape {prototypes.shape}; "
            "expected at least one level and two classes."
        )
    result: list[Groups] = []
    groups = np.arange(len(prototypes))
    for _ in range(levels):
        means = np.stack([prototypes[groups == group].mean(axis=0) for group in range(groups.max() + 1)])
        groups = _merged(means)[groups]
        result.append(groups)
    return result


def pooled(bank: NDArray[np.float32], groups: Groups, size: int) -> NDArray[np.float32]:
    """Sentences (super-classes, size * sentences, dimension): those of all members, from the start again if short."""
    _, sentences, dimension = bank.shape
    rows = [bank[groups == group].reshape(-1, dimension) for group in range(groups.max() + 1)]
    return np.stack([np.resize(row, (size * sentences, dimension)) for row in rows])


def _merged(means: Array) -> Groups:
    """The pair that each of the means belongs to; among equal distances the first indices are merged first."""
    distances = cdist(means, means)
    np.fill_diagonal(distances, np.inf)
    pair, number = np.full(len(means), -1), 0
    while np.isfinite(distances).any():
        one, two = np.unravel_index(int(distances.argmin()), distances.shape)
        pair[[one, two]] = number
        distances[[one, two]] = np.inf
        distances[:, [one, two]] = np.inf
        number += 1
    pair[pair < 0] = number
    return pair
