"""Which source classes answer to which target classes: the one table behind FLM, ILM, BLM and BLM+."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from yoro.errors import InputError, WidthError
from yoro.mappings.batches import check_batch, class_codes, refuse_non_finite

Array = NDArray[np.float64]

BLOCK = 2048  # rows made float64 at a time: 16 MB at width 1000


class CoOccurrence:
    """Mass of each source class (rows) among the images of each target class (columns), in float64.

    Without `top` every image adds 1 to its strongest source class (among equals the first); with
    `top` it adds its softmax probabilities, the `top` largest of them, not rescaled. Tables add up
    in any order and any batching: exactly for counts, to rounding for probabilities. Classes are
    matched by name, sorted by name, and appear when first seen; a class named beforehand is kept
    although it has no image.

    >>> table = CoOccurrence()
    >>> table.update([[2.0, 1.0], [0.0, 3.0], [0.0, 1.0]], ["cat", "dog", "cat"])
    >>> table.classes, table.mass.tolist()
    (('cat', 'dog'), [[1.0, 0.0], [1.0, 1.0]])
    """

    def __init__(self, classes: Iterable[object] = (), *, top: int | None = None) -> None:
        if top is not None and top < 1:
            raise InputError(f"A table cannot keep the {top} largest probabilities; expected at least 1.")
        self.top = top
        self.classes: tuple[str, ...] = tuple(sorted({str(name) for name in classes}))
        self.mass: Array = np.zeros((0, len(self.classes)))  # (width, classes)

    @property
    def width(self) -> int:
        """Source classes; 0 before the first batch."""
        return len(self.mass)

    def update(self, responses: ArrayLike, labels: ArrayLike) -> None:
        """Add one batch: responses (batch, width) as logits, labels (batch,) of names."""
        batch = check_batch(responses, labels)
        if not len(batch.labels):
            return
        self._expect_width(batch.responses.shape[1])
        refuse_non_finite(batch.responses)
        names = batch.labels.tolist()
        wide = self._widened(names, batch.responses.shape[1])
        codes = class_codes(names, wide.classes)
        for start in range(0, len(codes), BLOCK):
            part = slice(start, start + BLOCK)
            wide.mass += _block_mass(batch.responses[part], codes[part], len(wide.classes), self.top)
        self.classes, self.mass = wide.classes, wide.mass

    def __add__(self, other: CoOccurrence) -> CoOccurrence:
        if not isinstance(other, CoOccurrence):
            return NotImplemented
        if self.top != other.top:
            raise InputError(
                f"One table was filled with top={self.top}, the other with top={other.top}; both must agree."
            )
        if self.width and other.width:
            self._expect_width(other.width)
        width = max(self.width, other.width)
        result = self._widened(other.classes, width)
        result.mass += other._widened(self.classes, width).mass
        return result

    def _widened(self, names: Iterable[str], width: int) -> CoOccurrence:
        """A copy that also knows these classes; a table without data takes the width."""
        result = CoOccurrence({*self.classes, *names}, top=self.top)
        result.mass = np.zeros((width, len(result.classes)))
        if self.width:
            result.mass[:, class_codes(self.classes, result.classes)] = self.mass
        return result

    def _expect_width(self, width: int) -> None:
        if self.width and width != self.width:
            raise WidthError(
                f"These responses have width {width}, but earlier ones had width {self.width}. "
                "Did the response source change?"
            )


def filled(table: CoOccurrence) -> Array:
    """The mass (width, classes) of a table that has seen something, or an error."""
    if not table.width:
        raise InputError("This table has seen no response, so it cannot tell which source classes answer to what.")
    return table.mass


def top_probabilities(logits: Array, top: int) -> Array:
    """Softmax (n, width), zero but for the `top` largest of each row; among equals the first are kept."""
    probabilities: Array = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    if top >= logits.shape[1]:
        return probabilities
    least = np.partition(logits, -top, axis=1)[:, -top, None]
    room = top - (logits > least).sum(axis=1, keepdims=True)
    tied = logits == least
    kept = (logits > least) | (tied & (tied.cumsum(axis=1) <= room))
    probabilities[~kept] = 0.0
    return probabilities


def _block_mass(responses: NDArray[np.floating], codes: NDArray[np.intp], classes: int, top: int | None) -> Array:
    """What a block of responses adds to the table, (width, classes)."""
    rows, width = responses.shape
    if top is None:
        cells = responses.argmax(axis=1) * classes + codes
        return np.bincount(cells, minlength=width * classes).reshape(width, classes).astype(np.float64)
    member = csr_array((np.ones(rows), codes, np.arange(rows + 1)), shape=(rows, classes))
    by_class: Array = member.T @ top_probabilities(responses.astype(np.float64), top)  # (classes, width)
    return by_class.T
