"""The form of every label mapping: scores = responses @ weights + bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yoro.errors import InputError, WidthError
from yoro.mappings.batches import Array


@dataclass(frozen=True, repr=False)
class AffineMapping:
    """An affine map from responses to target classes (eq. affine-lm).

    >>> mapping = AffineMapping([[1.0, 0.0], [0.0, 1.0]], [0.0, 0.5], ("cat", "dog"))
    >>> mapping([[2.0, 1.0]]).tolist(), mapping.predict([[2.0, 1.0]]).tolist()
    ([[2.0, 1.5]], ['cat'])
    """

    weights: Array  # (width, classes)
    bias: Array  # (classes,); minus infinity for a class of which nothing is known
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", np.asarray(self.weights, dtype=np.float64))
        object.__setattr__(self, "bias", np.asarray(self.bias, dtype=np.float64))
        object.__setattr__(self, "classes", tuple(str(name) for name in self.classes))
        k = len(self.classes)
        if self.weights.ndim != 2 or self.weights.shape[1] != k or self.bias.shape != (k,):
            raise InputError(
                f"Weights {self.weights.shape} and bias {self.bias.shape} do not fit {k} classes; "
                "expected (width, classes) and (classes,)."
            )

    def __repr__(self) -> str:
        return f"<AffineMapping: responses of width {self.width:,} to {len(self.classes):,} classes>"

    @property
    def width(self) -> int:
        """Coordinates of a response."""
        return int(self.weights.shape[0])

    def __call__(self, responses: ArrayLike) -> Array:
        """Scores (n, classes) of responses (n, width)."""
        z = np.asarray(responses)
        if z.ndim != 2 or z.shape[1] != self.width:
            raise WidthError(f"Responses have shape {z.shape}, but this mapping takes (n, {self.width}).")
        return z.astype(np.float64, copy=False) @ self.weights + self.bias

    def renamed(self, names: Mapping[str, str]) -> AffineMapping:
        """The same map with classes under new names, sorted by them; no two may have the same."""
        new = [names.get(name, name) for name in self.classes]
        order = sorted(range(len(new)), key=new.__getitem__)
        return AffineMapping(self.weights[:, order], self.bias[order], tuple(new[i] for i in order))

    def predict(self, responses: ArrayLike) -> NDArray[np.str_]:
        """Name of the best class of each response; among equals the first by name."""
        names: NDArray[np.str_] = np.asarray(self.classes, dtype=np.str_)[self(responses).argmax(axis=1)]
        return names
