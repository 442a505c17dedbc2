"""Which source classes answer to which target classes: one table, and the label mappings that are made of it.

FLM and ILM give every target class one source class, and RLM does so by lot. Under the Bayesian mappings BLM and BLM+
each target class reads all sources, weighted by how they answer to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yoro.errors import InputError, WidthError
from yoro.mappings.affine import AffineMapping
from yoro.mappings.batches import Array, check_batch, class_codes, refuse_non_finite

SMOOTHING = 1.0  # lambda, the published value for BLM and BLM+
SHARE = 0.15  # share of the target classes: how many source classes an image counts for under BLM+
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
    from scipy.special import softmax

    probabilities: Array = softmax(logits, axis=1)
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
    from scipy.sparse import csr_array

    member = csr_array((np.ones(rows), codes, np.arange(rows + 1)), shape=(rows, classes))
    by_class: Array = member.T @ top_probabilities(responses.astype(np.float64), top)  # (classes, width)
    return by_class.T


def frequency_mapping(table: CoOccurrence, each: int = 1) -> AffineMapping:
    """The greedy one-to-one mapping of a table of counts, FLM and ILM; in AutoVP, `each` sources a class.

    >>> table = CoOccurrence()
    >>> table.update([[2.0, 1.0, 0.0], [0.0, 3.0, 1.0], [0.0, 1.0, 0.0]], ["cat", "dog", "dog"])
    >>> frequency_mapping(table)([[5.0, 6.0, 7.0]]).tolist()
    [[5.0, 6.0]]
    """
    mass = filled(table)
    check_sources(len(mass), table.classes, each)
    return select_sources(greedy_sources(mass, each), len(mass), table.classes)


def greedy_sources(mass: Array, each: int = 1) -> NDArray[np.intp]:
    """Source classes (classes, each) of each target, from mass (width, classes) of zero or more.

    Again and again the largest entry is taken, and its row leaves the game, and its column once it has `each`. Among
    equals the first in row-major order wins: the smallest source, then the smallest target. So targets left with
    nothing but zeros get the lowest free sources, in order.
    """
    width, classes = mass.shape
    result = np.full((classes, each), -1, dtype=np.intp)
    taken = [0] * classes
    free = np.ones(width, dtype=np.bool_)
    rows, columns = np.nonzero(mass)  # in row-major order, which a stable sort keeps among equals
    order = np.argsort(-mass[rows, columns], kind="stable")
    for source, target in zip(rows[order].tolist(), columns[order].tolist(), strict=True):
        if free[source] and taken[target] < each:
            result[target, taken[target]], free[source] = source, False
            taken[target] += 1
    left = result < 0
    result[left] = np.flatnonzero(free)[: left.sum()]
    return result


def select_sources(sources: ArrayLike, width: int, classes: Sequence[str]) -> AffineMapping:
    """The mapping that gives each class the mean response of its sources (classes, each): no bias."""
    chosen = np.asarray(sources, dtype=np.intp)
    weights = np.zeros((width, len(classes)))
    weights[chosen, np.arange(len(classes))[:, None]] = 1.0 / chosen.shape[1]
    return AffineMapping(weights, np.zeros(len(classes)), tuple(classes))


def check_sources(width: int, classes: Sequence[str], each: int = 1) -> None:
    """Refuse more target classes than there are source classes to give them."""
    if len(classes) * each > width:
        count = "one" if each == 1 else each
        raise InputError(
            f"{len(classes)} classes cannot each have {count} of {width} source classes to themselves. "
            "Use a source with more classes, or a mapping that shares them, such as BLM."
        )


def random_mapping(width: int, classes: Sequence[str], generator: np.random.Generator) -> AffineMapping:
    """The first sources of a random permutation of all `width`, one for each class in the order given.

    >>> mapping = random_mapping(1000, ("cat", "dog"), np.random.default_rng(0))
    >>> mapping.weights.shape, mapping.weights.sum(axis=0).tolist()
    ((1000, 2), [1.0, 1.0])
    """
    check_sources(width, classes)
    return select_sources(generator.permutation(width)[: len(classes), None], width, classes)


def bayesian_mapping(table: CoOccurrence, *, smoothing: float = SMOOTHING) -> AffineMapping:
    """BLM from a table of counts, BLM+ from one made by `plus_table`; it maps logits, and has no bias.

    >>> table = CoOccurrence()
    >>> table.update([[2.0, 1.0], [0.0, 3.0], [0.0, 1.0], [0.0, 1.0]], ["cat", "dog", "dog", "cat"])
    >>> bayesian_mapping(table).weights.round(3).tolist()
    [[0.667, 0.0], [0.333, 1.0]]
    """
    return AffineMapping(bayesian_weights(filled(table), smoothing), np.zeros(len(table.classes)), table.classes)


def plus_table(classes: Iterable[object]) -> CoOccurrence:
    """An empty table for BLM+; every class is named beforehand, because their number sets how much is kept."""
    names = {str(name) for name in classes}
    return CoOccurrence(names, top=kept_sources(len(names)))


def kept_sources(classes: int) -> int:
    """K of BLM+ for a number of target classes; at least 1, where the published code has 0 below 7 classes."""
    return max(1, int(SHARE * classes))


def bayesian_weights(mass: Array, smoothing: float = SMOOTHING) -> Array:
    """Weights (width, classes) whose columns sum to 1, from mass (width, classes).

    The smoothing stands in the denominator alone. A class without any mass gets equal weights of
    1 / width, so that its score is the mean response: the published code divides by zero there.
    """
    if not smoothing >= 0 or not np.isfinite(smoothing):
        raise InputError(f"The smoothing is {smoothing}; expected a finite number of zero or more.")
    rows = mass.sum(axis=1, keepdims=True) + smoothing
    shares = np.divide(mass, rows, out=np.zeros_like(mass), where=rows > 0)  # P(target | source), smoothed
    columns = shares.sum(axis=0)
    weights: Array = np.full_like(mass, 1.0 / len(mass))
    np.divide(shares, columns, out=weights, where=columns > 0)
    return weights
