"""Random label mapping (RLM): each target class reads a source class drawn by lot, without repeats."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from yoro.mappings.affine import AffineMapping
from yoro.mappings.frequency import check_one_to_one, select_sources


def random_mapping(width: int, classes: Sequence[str], generator: np.random.Generator) -> AffineMapping:
    """The first sources of a random permutation of all `width`, one for each class in the order given.

    >>> mapping = random_mapping(1000, ("cat", "dog"), np.random.default_rng(0))
    >>> mapping.weights.shape, mapping.weights.sum(axis=0).tolist()
    ((1000, 2), [1.0, 1.0])
    """
    check_one_to_one(width, classes)
    return select_sources(generator.permutation(width)[: len(classes)], width, classes)
