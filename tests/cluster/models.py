"""How far two models are apart."""

from __future__ import annotations

import numpy as np

from yoro.model.model import Model

CLOSE = 1e-9  # of the largest number: sums of float64 in another order, solved


def assert_same(one: Model, two: Model, *, ordered: bool = True) -> None:
    """The same mapping, statistics, sample and ledger; the last in the same order unless the data came in another."""
    for a, b in ((one.mapping.weights, two.mapping.weights), (one.mapping.bias, two.mapping.bias)):
        np.testing.assert_allclose(a, b, rtol=0, atol=CLOSE * np.abs(b).max())
    for mine, theirs in zip(one.statistics.parts, two.statistics.parts, strict=True):
        np.testing.assert_array_equal(mine.counts, theirs.counts)
        np.testing.assert_allclose(mine.scatter, theirs.scatter, rtol=0, atol=CLOSE * np.abs(theirs.scatter).max())
    assert one.mapping.classes == two.mapping.classes
    entries = one.ledger.entries(), two.ledger.entries()
    assert entries[0] == entries[1] if ordered else sorted(entries[0]) == sorted(entries[1])
    kept, wanted = (model.reservoir.members() for model in (one, two) if model.reservoir is not None)
    assert sorted(kept.digests) == sorted(wanted.digests)
