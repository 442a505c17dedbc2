"""How the mapping is updated after an epoch: kept, replaced, or blended (momentum)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from yoro.errors import InputError
from yoro.mappings.affine import AffineMapping
from yoro.refining.settings import RefineSettings


@dataclass(frozen=True)
class Momentum:
    """`beta old + (1 - beta) new` (eq. momentum): at 1 the first mapping stays, at 0 the new one replaces the old.

    >>> old, new = (AffineMapping([[value]], [value], ("a",)) for value in (1.0, 2.0))
    >>> Momentum(0.75).next(old, new).weights.tolist()
    [[1.25]]
    """

    beta: float = RefineSettings.beta

    def __post_init__(self) -> None:
        if not 0.0 <= self.beta <= 1.0:
            raise InputError(f"The momentum (beta) is {self.beta}; expected a number from 0 to 1.")

    @property
    def solves(self) -> bool:
        """Whether a new mapping is needed at all."""
        return self.beta < 1.0

    def next(self, old: AffineMapping, new: AffineMapping) -> AffineMapping:
        """The mapping of the next epoch."""
        if self.beta in (0.0, 1.0):
            return old if self.beta else new
        with np.errstate(invalid="ignore"):  # equal are also infinities, of a class without data
            weights, bias = (
                np.where(one == two, one, self.beta * one + (1.0 - self.beta) * two)
                for one, two in ((old.weights, new.weights), (old.bias, new.bias))
            )
        return AffineMapping(weights, bias, old.classes)


FROZEN, REFRESH = Momentum(1.0), Momentum(0.0)


def make_policy(name: str, beta: float = RefineSettings.beta) -> Momentum:
    """A policy by the name a user gives."""
    policies = {"momentum": Momentum(beta), "refresh": REFRESH, "frozen": FROZEN}
    if name not in policies:
        raise InputError(f"Unknown mapping update {name!r}; choose one of {', '.join(policies)}.")
    return policies[name]
