"""What becomes of a mapping when an epoch has given a new one: kept, replaced, or blended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from yoro.errors import InputError
from yoro.mappings.affine import AffineMapping
from yoro.refining.settings import RefineSettings

Array = NDArray[np.float64]

BETA = RefineSettings.beta


class Policy(Protocol):
    """How an old mapping and a newly solved one make the next."""

    @property
    def solves(self) -> bool:
        """Whether a new mapping is needed at all."""

    def next(self, old: AffineMapping, new: AffineMapping) -> AffineMapping:
        """The mapping of the next epoch."""


@dataclass(frozen=True)
class Frozen:
    """The first mapping stays."""

    solves: bool = False

    def next(self, old: AffineMapping, new: AffineMapping) -> AffineMapping:
        """The old one."""
        return old


@dataclass(frozen=True)
class Refresh:
    """Each epoch's mapping replaces the one before."""

    solves: bool = True

    def next(self, old: AffineMapping, new: AffineMapping) -> AffineMapping:
        """The new one."""
        return new


@dataclass(frozen=True)
class Momentum:
    """`beta old + (1 - beta) new` (eq. momentum): 1 is Frozen, 0 is Refresh.

    >>> old, new = (AffineMapping([[value]], [value], ("a",)) for value in (1.0, 2.0))
    >>> Momentum(0.75).next(old, new).weights.tolist()
    [[1.25]]
    """

    beta: float = BETA
    solves: bool = True

    def __post_init__(self) -> None:
        if not 0.0 <= self.beta <= 1.0:
            raise InputError(f"The momentum is {self.beta}, expected a number from 0 to 1.")

    def next(self, old: AffineMapping, new: AffineMapping) -> AffineMapping:
        """The blend."""
        return AffineMapping(self._blend(old.weights, new.weights), self._blend(old.bias, new.bias), old.classes)

    def _blend(self, old: Array, new: Array) -> Array:
        same = old == new  # minus infinity among them, for a class without data
        with np.errstate(invalid="ignore"):
            return np.where(same, old, self.beta * old + (1.0 - self.beta) * new)


def make_policy(name: str, beta: float = BETA) -> Policy:
    """A policy by the name a user gives."""
    policies: dict[str, Policy] = {"momentum": Momentum(beta), "refresh": Refresh(), "frozen": Frozen()}
    if name not in policies:
        raise InputError(f"{name!r} is no way to carry the mapping on; expected {', '.join(policies)}.")
    return policies[name]
