"""Sufficient statistics of responses: counts, class means and one within-class scatter.

The paper accumulates `(n, S, Q)`: counts, class sums and an uncentred second moment
(eq. streaming-statistics). The same information is kept here in centred form, which never
subtracts large numbers; `to_moments` and `from_moments` convert between the two.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yoro import limits
from yoro.errors import InputError, NonFiniteError, PrecisionWarning, StatisticsError, WidthError
from yoro.mappings.batches import Array, LabelledBatch, check_batch, class_codes, refuse_non_finite

BLOCK = 1024  # responses that enter the scatter at once, unless there are many classes
ROWS_A_CLASS = 8  # ... since each class of a block adds a row of its own
PIECE = 128  # rows centred at a time
COLUMNS = 256  # of a scatter that are added to at once
ROUNDING = 1e-8  # relative size of a negative left over by removal that is still rounding
LARGEST = 1e10 * limits.RESPONSE_SIZE  # row of a scatter: the deviations of very many responses added up
LOST = 1e-6  # relative error of a scatter after removal that is worth a warning


class ResponseStatistics:
    """The sufficient statistics of responses: counts, class means and scatter, in float64.

    Two instances that saw disjoint halves of a dataset add up to the one that saw it whole, in any order and any
    batching. Classes are matched by name, sorted by name, and appear when first seen; a class named beforehand is kept
    although it has no data.

    >>> statistics = ResponseStatistics()
    >>> statistics.update([[1.0, 2.0], [3.0, 2.0], [0.0, 1.0]], ["cat", "cat", "dog"])
    >>> statistics.classes, statistics.counts.tolist(), statistics.means.tolist()
    (('cat', 'dog'), [2.0, 1.0], [[2.0, 2.0], [0.0, 1.0]])
    """

    def __init__(self, classes: Iterable[object] = ()) -> None:
        self.classes: tuple[str, ...] = tuple(sorted({str(name) for name in classes}))
        self.counts: Array = np.zeros(len(self.classes))
        self.means: Array = np.zeros((len(self.classes), 0))  # (classes, width); zero where there is no data
        self._upper: Array = np.zeros((0, 0), order="F")  # the scatter; only its upper triangle counts
        self._rows: tuple[Array, ...] = ()  # what is not yet in it: the scatter is its sum with rows' rows

    @property
    def width(self) -> int:
        """Coordinates of a response; 0 before the first batch."""
        return int(self.means.shape[1])

    @property
    def total(self) -> float:
        """Number of responses, or the sum of their weights."""
        return float(self.counts.sum())

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the scatter, n - k, where k counts the classes that have data."""
        return self.total - int((self.counts > 0).sum())

    @property
    def centre(self) -> Array:
        """Mean (width,) of all responses."""
        centre: Array = self.counts @ self.means / self.total
        return centre

    @property
    def scatter(self) -> Array:
        """Within-class scatter, (width, width), symmetric."""
        upper = np.triu(self._folded())
        return upper + np.triu(upper, 1).T

    @property
    def factor(self) -> Array | None:
        """Rows (r, width) with rows' rows = scatter, if there are fewer than the width; else None.

        While there are few responses, they take less memory and time than the matrix.
        """
        if self._upper.size or not self.width:
            return None
        return np.concatenate(self._rows) if self._rows else np.zeros((0, self.width))

    def update(self, responses: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Add one batch: responses (batch, width), labels (batch,) of names, weights (batch,) as frequencies."""
        batch = check_batch(responses, labels, weights)
        if not len(batch.labels):
            return
        if batch.responses.dtype.itemsize > 4:
            refuse_non_finite(batch.responses)
        several = len(batch.labels) > BLOCK  # blocks: an early one changes arrays in place before a later one is read
        before = self.copy() if several else self._of(self.classes, self.counts, self.means, self._upper, self._rows)
        try:
            self._absorb_all(batch)
        except NonFiniteError:
            self._become(before)
            refuse_non_finite(batch.responses)  # says where in the whole batch
            raise

    def remove(self, responses: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Remove one batch, exactly; what was never added is an error."""
        gone = ResponseStatistics()
        gone.update(responses, labels, weights)
        self._become(self - gone)

    def __add__(self, other: ResponseStatistics) -> ResponseStatistics:
        if not isinstance(other, ResponseStatistics):
            return NotImplemented
        if other.width == 0 or self.width == 0:
            filled, empty = (self, other) if other.width == 0 else (other, self)
            return filled._widened(empty.classes)
        self._same_width(other)
        names = set(self.classes) | set(other.classes)
        one, two = self._widened(names), other._widened(names)
        counts = one.counts + two.counts
        both = _ratio(one.counts * two.counts, counts)
        step = two.means - one.means
        means = one.means + _ratio(two.counts, counts)[:, None] * step
        between = np.sqrt(both)[:, None] * step
        if not one._upper.size and not two._upper.size:
            result = self._of(one.classes, counts, means, one._upper, (*one._rows, *two._rows))
            result._add(between[both > 0])
            return result
        upper = np.asfortranarray(one._folded() + two._folded())
        return self._of(one.classes, counts, means, _add_rows(upper, between))

    def __sub__(self, other: ResponseStatistics) -> ResponseStatistics:
        """Chan's formula backwards: `(a + b) - b` is `a` to rounding. A class emptied by it disappears."""
        if not isinstance(other, ResponseStatistics):
            return NotImplemented
        if other.width == 0:
            return self._widened(())
        self._check_removable(other)
        gone = other._widened(self.classes)
        left = np.where(self.counts - gone.counts > ROUNDING * self.counts, self.counts - gone.counts, 0.0)
        step = np.where(left > 0, _ratio(gone.counts, left), 0.0)[:, None] * (gone.means - self.means)
        means = np.where(left[:, None] > 0, self.means - step, 0.0)
        both = _ratio(left * gone.counts, self.counts)
        between = np.sqrt(both)[:, None] * (gone.means - means)
        self._fold()
        upper = _add_rows(np.asfortranarray(self._upper - gone._folded()), between, sign=-1.0)
        upper = self._checked(upper) if left.any() else np.zeros_like(upper)
        self._warn_of_lost_digits(upper)
        keep = (left > 0) | (self.counts == 0)
        names = tuple(name for name, kept in zip(self.classes, keep, strict=True) if kept)
        return self._of(names, left[keep], means[keep], upper)

    def rename(self, names: dict[str, str]) -> ResponseStatistics:
        """Classes under new names; classes with the same new name are merged, exactly."""
        unknown = sorted(set(names) - set(self.classes))
        if unknown:
            raise InputError(f"No class is named {unknown[0]!r}. The classes are {_some(self.classes)}.")
        new = [names.get(name, name) for name in self.classes]
        if len(set(new)) == len(new):
            order = sorted(range(len(new)), key=new.__getitem__)
            upper = self._upper.copy(order="F")
            return self._of(tuple(sorted(new)), self.counts[order], self.means[order], upper, self._rows)
        result, no_scatter = ResponseStatistics(), np.zeros((0, 0), order="F")
        for name, count, mean in zip(self.classes, self.counts, self.means, strict=True):
            result = result + self._of((names.get(name, name),), np.array([count]), mean[None].copy(), no_scatter)
        if self._upper.size or result._upper.size:
            result._upper, result._rows = np.asfortranarray(result._folded() + self._folded()), ()
        else:
            result._rows += self._rows
        return result

    def to_moments(self) -> tuple[Array, Array, Array]:
        """The paper's `(n, S, Q)`: counts (classes,), sums (classes, width), second moment (width, width)."""
        sums = self.counts[:, None] * self.means
        return self.counts.copy(), sums, self.scatter + sums.T @ self.means

    @classmethod
    def from_moments(
        cls, counts: ArrayLike, sums: ArrayLike, second_moment: ArrayLike, classes: Sequence[object]
    ) -> Self:
        """Statistics from the paper's `(n, S, Q)`; precision that the uncentred form has lost stays lost."""
        n, s, q = (np.asarray(part, dtype=np.float64) for part in (counts, sums, second_moment))
        if n.shape != (len(classes),) or s.shape[:1] != n.shape or q.shape != s.shape[1:] * 2:
            raise InputError(
                f"Moments of shapes {n.shape}, {s.shape}, {q.shape} for {len(classes)} classes do not fit; "
                "expected (classes,), (classes, width), (width, width)."
            )
        if not all(np.isfinite(part).all() for part in (n, s, q)) or (n < 0).any():
            raise InputError("Moments must be finite, and counts must not be negative.")
        order = np.argsort([str(name) for name in classes])
        means = np.divide(s, n[:, None], out=np.zeros_like(s), where=n[:, None] > 0)
        scatter = q - s.T @ means
        names = tuple(str(classes[i]) for i in order)
        return cls()._of(names, n[order], means[order], np.asfortranarray((scatter + scatter.T) / 2))

    def copy(self) -> ResponseStatistics:
        return self._widened(())

    def folded(self) -> ResponseStatistics:
        """A copy with the scatter as a matrix only; as rows it would reveal single responses while these are few."""
        result = self._widened(())
        if result.width:
            result._fold()
        return result

    def save(self, path: str | Path) -> None:
        """Write a safetensors file, atomically."""
        from yoro.files.tensors import write_tensors  # files are another module's subject

        write_tensors(Path(path), self.to_arrays(), {"kind": "yoro-statistics", "classes": list(self.classes)})

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote; anything else is an error."""
        from yoro.files.tensors import read_tensors

        arrays, metadata = read_tensors(Path(path), kind="yoro-statistics")
        return cls.from_arrays(arrays, cast("list[object]", metadata.get("classes", [])))

    def to_arrays(self, *, rows: bool = False) -> dict[str, NDArray[np.generic]]:
        """The arrays that `from_arrays` takes back; with `rows` the scatter as its factor, where there is one."""
        factor = self.factor if rows else None
        scatter = {"scatter": self.scatter} if factor is None else {"rows": factor}
        return {"counts": self.counts, "means": self.means, **scatter}

    @classmethod
    def from_arrays(cls, arrays: dict[str, NDArray[np.generic]], classes: Sequence[object]) -> Self:
        """Statistics from `to_arrays`; the input is checked, not trusted."""
        form = "rows" if "rows" in arrays else "scatter"
        missing = {"counts", "means", form} - set(arrays)
        if missing:
            raise InputError(f"Statistics lack the array {sorted(missing)[0]!r}.")
        counts, means, scatter = (np.asarray(arrays[key]) for key in ("counts", "means", form))
        names = tuple(str(name) for name in classes)
        fits = counts.shape == (len(names),) and means.ndim == 2 and scatter.ndim == 2
        fits = fits and scatter.shape[1] == means.shape[1] and (form == "rows" or len(scatter) == scatter.shape[1])
        if not fits or len(means) != len(names) or any(part.dtype != np.float64 for part in (counts, means, scatter)):
            raise InputError(
                f"Statistics of shapes {counts.shape}, {means.shape}, {scatter.shape} for {len(names)} classes "
                "do not fit; expected float64 (classes,), (classes, width), (width, width), or rows (r, width)."
            )
        if names != tuple(sorted(set(names))):
            raise InputError("Class names of statistics must be sorted and without repeats.")
        most = (LARGEST, limits.RESPONSE_SIZE, LARGEST if form == "rows" else LARGEST**2)
        within = all((np.abs(part) <= top).all() for part, top in zip((counts, means, scatter), most, strict=True))
        sound = within and bool((counts >= 0).all())
        if sound and form == "rows":
            result = cls()._of(names, counts.copy(), means.copy(), np.zeros((0, 0), order="F"))
            result._add(scatter.copy())
            return result
        if not sound or not np.array_equal(scatter, scatter.T) or (scatter.diagonal() < 0).any():
            raise InputError(
                f"Statistics must be finite and within {limits.RESPONSE_SIZE:g}, with counts of zero or more and a "
                "symmetric scatter."
            )
        return cls()._of(names, counts.copy(), means.copy(), scatter.copy(order="F"))

    def _absorb_all(self, batch: LabelledBatch) -> None:
        self._expect_width(batch.responses.shape[1])
        codes = self._codes(batch.labels.tolist())
        block = max(BLOCK, ROWS_A_CLASS * len(self.classes))
        for start in range(0, len(codes), block):
            stop = start + block
            weight = None if batch.weights is None else batch.weights[start:stop]
            self._absorb(np.asarray(batch.responses[start:stop], dtype=np.float64), codes[start:stop], weight)

    def _absorb(self, responses: Array, codes: NDArray[np.intp], weights: Array | None) -> None:
        """Chan's update with one block: its own scatter, and a row for each class mean that moves."""
        seen, places = np.unique(codes, return_inverse=True)
        new, sums = _class_sums(responses, places, weights, len(seen))
        if not np.isfinite(sums).all():  # NaN and infinity survive a sum; nothing has been changed yet
            raise NonFiniteError("These responses contain NaN, infinity, or numbers too large to be squared.")
        old = self.counts[seen]
        block_means = sums / new[:, None]
        step = block_means - self.means[seen]  # a class without data has mean zero and count zero
        rows = np.empty((len(codes) + len(seen), self.width))
        _centre(responses, block_means, places, rows)
        if weights is not None:
            rows[: len(codes)] *= np.sqrt(weights)[:, None]
        np.multiply(step, np.sqrt(old * new / (old + new))[:, None], out=rows[len(codes) :])
        self._add(rows)
        self.means[seen] += (new / (old + new))[:, None] * step
        self.counts[seen] = old + new

    def _codes(self, labels: list[str]) -> NDArray[np.intp]:
        """Index of each label among the classes, which grow by those not seen before."""
        if not set(labels) <= set(self.classes):
            self._become(self._widened(set(labels)))
        return class_codes(labels, self.classes)

    def _widened(self, names: Iterable[str]) -> ResponseStatistics:
        """A copy that also knows these classes."""
        classes = tuple(sorted(set(self.classes) | set(names)))
        where = class_codes(self.classes, classes)
        counts = np.zeros(len(classes))
        means = np.zeros((len(classes), self.width))
        counts[where], means[where] = self.counts, self.means
        return self._of(classes, counts, means, self._upper.copy(order="F"), self._rows)

    def _of(
        self, classes: tuple[str, ...], counts: Array, means: Array, upper: Array, rows: tuple[Array, ...] = ()
    ) -> Self:
        result = type(self)()
        result.classes, result.counts, result.means, result._upper, result._rows = classes, counts, means, upper, rows
        return result

    def _become(self, other: ResponseStatistics) -> None:
        self.__dict__ |= other.__dict__

    def _add(self, rows: Array) -> None:
        """Add rows' rows to the scatter: as rows while they are fewer than the width, then as a matrix."""
        if self._upper.size:
            self._upper = _add_rows(self._upper, rows)
        elif len(rows):
            self._rows = (*self._rows, rows)
            if sum(map(len, self._rows)) >= self.width:
                self._fold()

    def _fold(self) -> None:
        """Make the scatter a matrix."""
        self._upper, self._rows = self._folded(), ()

    def _folded(self) -> Array:
        if self._upper.size or not self.width:
            return self._upper
        upper = np.zeros((self.width, self.width), order="F")
        return _add_rows(upper, np.concatenate(self._rows)) if self._rows else upper

    def _expect_width(self, width: int) -> None:
        if width > limits.RESPONSE_WIDTH:
            raise WidthError(f"These responses have width {width:,}; at most {limits.RESPONSE_WIDTH:,} can be fitted.")
        if self.width == 0:
            self.means = np.zeros((len(self.classes), width))
        elif width != self.width:
            raise WidthError(
                f"This batch has responses of width {width}, but earlier batches had width {self.width}. "
                "Did the response source change between batches?"
            )

    def _same_width(self, other: ResponseStatistics) -> None:
        if self.width != other.width:
            raise WidthError(f"Statistics of widths {self.width} and {other.width} come from different sources.")

    def _check_removable(self, gone: ResponseStatistics) -> None:
        self._same_width(gone)
        here = dict(zip(self.classes, self.counts.tolist(), strict=True))
        for name, count in zip(gone.classes, gone.counts.tolist(), strict=True):
            if count > 0 and name not in here:
                raise StatisticsError(f"No example of class {name!r} was ever added. There are {_some(self.classes)}.")
            if count > here.get(name, 0.0) * (1 + ROUNDING):
                raise StatisticsError(
                    f"Class {name!r} holds {here[name]:g} examples, but {count:g} were to be removed. "
                    "Only what was added can be removed."
                )

    def _warn_of_lost_digits(self, upper: Array) -> None:
        """Say so where what is left is so much smaller than what was there that its digits are mostly rounding."""
        before, after = float(self._upper.diagonal().max(initial=0.0)), float(upper.trace()) / max(len(upper), 1)
        error = np.finfo(float).eps * before / after if after > 0 else 0.0
        if error > LOST:
            warnings.warn(
                "So much was removed that the scatter of the rest has only about "
                f"{max(0, int(-np.log10(error)))} right digits. Fit again to restore them.",
                PrecisionWarning,
                stacklevel=3,
            )

    def _checked(self, upper: Array) -> Array:
        """A scatter has no negative direction; one that removal has made is a sign of foreign data."""
        from scipy.linalg.lapack import dpotrf

        slack = ROUNDING * max(float(self._upper.diagonal().max(initial=0.0)), np.finfo(float).tiny)
        if dpotrf(upper + slack * np.eye(len(upper)), lower=0, overwrite_a=1)[1] > 0:
            raise StatisticsError(
                "Removing these responses would leave a negative scatter, so they were never all added. "
                "Remove only responses that were added, with the labels they were added under."
            )
        np.fill_diagonal(upper, np.maximum(upper.diagonal(), 0.0))
        return upper


def _class_sums(responses: Array, codes: NDArray[np.intp], weights: Array | None, classes: int) -> tuple[Array, Array]:
    """Counts (classes,) and sums (classes, width) of a block; a sparse product reads each response once."""
    from scipy.sparse import csr_array  # here: a prediction needs no scipy, which takes long to import

    ones = np.ones(len(codes)) if weights is None else weights
    member = csr_array((ones, codes, np.arange(len(codes) + 1)), shape=(len(codes), classes))
    return np.bincount(codes, ones, classes).astype(np.float64), member.T @ responses


def _add_rows(upper: Array, rows: Array, sign: float = 1.0) -> Array:
    """`upper + sign * rows' rows` on the upper triangle, in place, in blocks: half the work of a product.

    As fast as BLAS's dsyrk, which scipy calls with Python's lock held: the forward pass beside it would wait.
    """
    lower = upper.T  # C order
    for start in range(0, len(lower), COLUMNS):
        block = slice(start, start + COLUMNS)
        product = rows[:, block].T @ rows[:, : block.stop]
        lower[block, : block.stop] += product if sign > 0 else -product
    return upper


def _centre(responses: Array, means: Array, codes: NDArray[np.intp], out: Array) -> None:
    """Residuals about the class means, in pieces that stay in the cache between the two steps."""
    for start in range(0, len(codes), PIECE):
        piece = slice(start, min(start + PIECE, len(codes)))
        np.take(means, codes[piece], axis=0, out=out[piece], mode="clip")  # clip: no copy for bounds checks
        np.subtract(responses[piece], out[piece], out=out[piece])


def _ratio(part: Array, whole: Array) -> Array:
    """`part / whole`, zero where the whole is zero."""
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _some(names: Sequence[str], most: int = 8) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "") if names else "none"
