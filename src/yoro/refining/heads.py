"""Heads: they turn responses into scores while a prompt is trained, and learn from the responses they see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from yoro.discriminant.statistics import ResponseStatistics
from yoro.files.tensors import Arrays
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import class_codes
from yoro.prompts.trainable import NamedParameters
from yoro.refining.recipe import FROZEN, blended

BLOCK = 512  # responses that are gathered at once: statistics take the same time for a few as for many


class Collector(Protocol):
    """An accumulator of responses (n, width) and class names, such as `ResponseStatistics`."""

    def update(self, responses: Any, labels: Sequence[str]) -> None: ...


C = TypeVar("C", bound=Collector)


class DeviceStatistics:
    """Statistics gathered where the responses are, in float64, and brought to the host once, at the end.

    Moments are taken about the mean of the first block, so that no digits are lost to a common offset.
    """

    def __init__(self, classes: Sequence[str]) -> None:
        self._classes = tuple(sorted(classes))
        self._moments: list[torch.Tensor] = []  # the offset, counts, sums and second moment about it

    def update(self, responses: torch.Tensor, labels: Sequence[str]) -> None:
        """Add one batch."""
        wide = responses.double()
        if not self._moments:
            classes, width = len(self._classes), wide.shape[1]
            zeros = [wide.new_zeros(shape) for shape in ((classes,), (classes, width), (width, width))]
            self._moments = [wide.mean(dim=0), *zeros]
        offset, counts, sums, second = self._moments
        codes = torch.from_numpy(class_codes(labels, self._classes)).to(wide.device, non_blocking=True)
        wide = wide - offset
        counts.index_add_(0, codes, torch.ones_like(codes, dtype=wide.dtype))
        sums.index_add_(0, codes, wide)
        second.addmm_(wide.T, wide)

    def gathered(self) -> ResponseStatistics:
        """As `ResponseStatistics` of the same responses, to rounding."""
        if not self._moments:
            return ResponseStatistics(self._classes)
        offset, counts, sums, second = (part.cpu().numpy() for part in self._moments)
        about = ResponseStatistics.from_moments(counts, sums, second, self._classes)
        about.means += np.where(counts[:, None] > 0, offset, 0.0)
        return about


class TrainingHead(NamedParameters):
    """The scoring half of a training: scores, and what an epoch teaches it.

    As it is, it learns by gradient alone, and `arrays` are its state at the end of an epoch.
    """

    def __init__(self, classes: Sequence[str], learned: Mapping[str, torch.nn.Parameter] | None = None) -> None:
        super().__init__(learned)
        self.classes = tuple(classes)

    def score(self, responses: torch.Tensor) -> torch.Tensor:
        """Scores (n, classes) of responses (n, width), with gradients."""
        raise NotImplementedError

    def loss(self, responses: torch.Tensor, truth: torch.Tensor, temperature: float) -> torch.Tensor:
        """The loss summed over responses (n, width) of images whose classes have the indices `truth` (n,)."""
        return cross_entropy(self.score(responses) / temperature, truth, reduction="sum")

    def observe(self, responses: torch.Tensor, labels: Sequence[str]) -> None:
        """Take in detached responses that the prompt gave before its update."""

    def end_of_epoch(self) -> None:
        """Learn from what was observed, and start over."""


class MappingHead(TrainingHead, Generic[C]):
    """An affine mapping that is solved anew from each epoch's responses and blended with the old one, of weight `beta`.

    `collect` makes what gathers the responses and `solve` turns it into a mapping: statistics and BDM,
    dense or low-rank, or a co-occurrence table and FLM, BLM or BLM+.
    """

    def __init__(
        self,
        mapping: AffineMapping,
        beta: float,
        *,
        collect: Callable[[], C],
        solve: Callable[[C], AffineMapping],
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__(mapping.classes)
        self._beta, self._collect, self._solve = beta, collect, solve
        self._device = torch.device(device)
        # Scores are differences of large terms; Apple's graphics have no float64.
        self._dtype = torch.float32 if self._device.type == "mps" else torch.float64
        self._collected: C | None = None
        self._waiting: list[tuple[torch.Tensor, Sequence[str]]] = []
        self.mapping = mapping
        self._put(mapping)

    def score(self, responses: torch.Tensor) -> torch.Tensor:
        return responses.to(self._dtype) @ self._weights + self._bias

    def observe(self, responses: torch.Tensor, labels: Sequence[str]) -> None:
        if self._beta < FROZEN:
            self._waiting.append((responses, labels))
            if sum(len(names) for _, names in self._waiting) >= BLOCK:
                self._take_in()

    def end_of_epoch(self) -> None:
        self._take_in()
        if self._collected is not None:
            self._put(blended(self.mapping, self._solve(self._collected), self._beta))
        self._forget()

    def freeze(self) -> None:
        """Keep the mapping as it is now, whatever is observed later."""
        self._beta = FROZEN
        self._forget()

    def arrays(self) -> Arrays:
        return {"weights": self.mapping.weights.copy(), "bias": self.mapping.bias.copy()}

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        weights, bias = (np.asarray(arrays[key], dtype=np.float64) for key in ("weights", "bias"))
        self._put(AffineMapping(weights, bias, self.classes))
        self._forget()

    def _take_in(self) -> None:
        if self._waiting:
            self._collected = self._collect() if self._collected is None else self._collected
            responses = torch.cat([part for part, _ in self._waiting])
            labels = [name for _, names in self._waiting for name in names]
            if isinstance(self._collected, DeviceStatistics):
                self._collected.update(responses, labels)
            else:
                self._collected.update(responses.cpu().numpy().astype(np.float64), labels)
            self._waiting = []

    def _forget(self) -> None:
        self._collected, self._waiting = None, []

    def _put(self, mapping: AffineMapping) -> None:
        self.mapping = mapping
        self._weights = torch.from_numpy(mapping.weights).to(self._device, self._dtype)
        self._bias = torch.from_numpy(mapping.bias).to(self._device, self._dtype)


class LinearHead(TrainingHead):
    """Deep label mapping: one matrix on the responses, learned by gradient, without a bias.

    The published code makes a bias and never uses it; the start is torch's own for linear layers.
    """

    def __init__(
        self, width: int, classes: Sequence[str], *, seed: int = 0, device: torch.device | str = "cpu"
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        bound = width**-0.5
        start = (2.0 * torch.rand(len(classes), width, generator=generator) - 1.0) * bound
        self._matrix = torch.nn.Parameter(start.to(device))
        super().__init__(classes, {"matrix": self._matrix})

    @property
    def mapping(self) -> AffineMapping:
        weights = self._matrix.detach().cpu().numpy().T.astype(np.float64)
        return AffineMapping(weights, np.zeros(len(self.classes)), self.classes)

    def score(self, responses: torch.Tensor) -> torch.Tensor:
        return responses @ self._matrix.T
