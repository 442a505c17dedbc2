"""Batches of labelled responses: checked, numbered by class, identified by content."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from yoro.errors import InputError, NonFiniteError
from yoro.limits import RESPONSE_SIZE

Array = NDArray[np.float64]
Codes = NDArray[np.intp]

MISSING = frozenset({"nan", "NaN", "<NA>", "NaT"})  # as the gaps of arrays and tables are written
DIGEST = 16  # bytes of a content digest


@dataclass(frozen=True)
class LabelledBatch:
    """Checked responses (batch, width), labels (batch,) as names, and weights (batch,) or None."""

    responses: NDArray[np.floating]
    labels: NDArray[np.str_]
    weights: Array | None


def check_batch(responses: ArrayLike, labels: ArrayLike, weights: ArrayLike | None = None) -> LabelledBatch:
    """A batch in known shapes, or an error that says what is wrong with it."""
    z = np.asarray(responses)
    if z.ndim != 2 or z.shape[1] == 0:
        raise InputError(f"Responses have shape {z.shape}; expected (batch, width) with a width of at least 1.")
    if not np.issubdtype(z.dtype, np.floating):
        if not (np.issubdtype(z.dtype, np.integer) or z.dtype == np.bool_):
            raise InputError(f"Responses have type {z.dtype}; expected real numbers.")
        z = z.astype(np.float64)
    y = label_array(labels)
    if y.shape != (len(z),):
        raise InputError(
            f"There are {len(z)} responses but labels of shape {y.shape}; expected one label per response."
        )
    names = y.astype(np.str_, copy=False)
    return LabelledBatch(z, names, None) if weights is None else _weighted(z, names, weights)


def label_array(labels: ArrayLike) -> NDArray[np.generic]:
    """Labels as an array, lists as one of objects; an error if any is missing: None, NaN, NA, NaT, masked or blank."""
    listed = isinstance(labels, list | tuple)
    y: NDArray[np.generic] = np.asarray(labels, dtype=object if listed else None)
    each: Sequence[object] = labels if listed and y.ndim == 1 else y.ravel()  # type: ignore[assignment]
    masked = np.ma.getmaskarray(labels).ravel() if isinstance(labels, np.ma.MaskedArray) else np.zeros(y.size, bool)
    if y.dtype.kind in "US":
        masked = masked | (np.char.str_len(np.char.strip(y.ravel())) == 0)  # type: ignore[arg-type]
    elif y.dtype.kind not in "biu":
        masked = masked | np.array([_is_missing(label) for label in each], dtype=bool)
    if masked.any():
        raise InputError(
            f"{masked.sum()} of {len(masked)} labels are missing, the first at index {masked.argmax()}. "
            "Leave these examples out, or label them."
        )
    return y


def _is_missing(label: object) -> bool:
    if isinstance(label, complex):
        return label != label
    if isinstance(label, str):
        return not label.strip()
    return label is None or label is np.ma.masked or str(label) in MISSING


def _weighted(z: NDArray[np.floating], y: NDArray[np.str_], weights: ArrayLike) -> LabelledBatch:
    w = np.asarray(weights, dtype=np.float64)
    if w.shape != y.shape:
        raise InputError(
            f"There are {len(z)} responses but weights of shape {w.shape}; expected one weight per response."
        )
    if not np.isfinite(w).all() or (w < 0).any():
        raise InputError("Weights must be finite and not negative.")
    some = w > 0
    return LabelledBatch(z[some], y[some], w[some])


def refuse_non_finite(responses: NDArray[np.floating], names: Sequence[str] | None = None) -> None:
    """Raise if any response holds NaN, infinity or a number too large to be squared, with their count and the first."""
    wide = responses.dtype.itemsize > 4  # smaller types hold no number that large
    with np.errstate(invalid="ignore", over="ignore"):  # a sum of infinities is what is looked for
        finite = np.isfinite(responses.sum(dtype=np.float64))
    if finite and not (wide and (np.abs(responses) > RESPONSE_SIZE).any()):
        return
    bad = np.flatnonzero(~(np.abs(responses.astype(np.float64, copy=False)) <= RESPONSE_SIZE).all(axis=1))
    if len(bad):
        first = f"at index {bad[0]}" if names is None else f"to {names[bad[0]]!r}"
        raise NonFiniteError(
            f"{len(bad)} of {len(responses)} responses contain NaN, infinity or numbers beyond {RESPONSE_SIZE:g}, "
            f"the first {first}. Leave them out, or look for an overflow in the source."
        )


def class_codes(labels: Iterable[str], classes: Sequence[str]) -> Codes:
    """Index (n,) of each label among the classes; a label that is none of them is an error.

    >>> class_codes(["dog", "cat", "dog"], ("cat", "dog")).tolist()
    [1, 0, 1]
    """
    index = {name: i for i, name in enumerate(classes)}
    try:
        return np.array([index[label] for label in labels], dtype=np.intp)
    except KeyError as error:
        raise InputError(
            f"Class {error.args[0]!r} has no training example. Add examples of it, or leave it out of the data."
        ) from None


def row_digests(responses: NDArray[np.floating]) -> list[bytes]:
    """Content digest of each response; the same numbers in another type or layout have the same."""
    rows = np.ascontiguousarray(responses, dtype=np.float64)
    return [hashlib.blake2b(row, digest_size=DIGEST).digest() for row in rows]
