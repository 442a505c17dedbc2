"""Fixed-point numbers of 128 bits as two limbs: sums are exact, in any order, and wrap around.

A number v is the integer round(v 2^bits) modulo 2^128, negative ones as in two's complement. Floating-point sums of
masked numbers could not be exact: a mask that hides a number must be as large as any, and would round it away.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from yoro.errors import InputError
from yoro.mappings.batches import Array

Limbs = NDArray[np.uint64]  # (n, 2): the low and the high half of each integer

HALF = 64  # bits of a limb
RANGE = 126  # an integer of a sum has fewer bits than this, and one for its sign
BITS = 70  # after the binary point: 2^-70 is 8.5e-22
FEWEST, MOST = 1, 110


def check_bits(bits: int) -> int:
    """The number of fractional bits, if it leaves room for the integer part."""
    if not FEWEST <= bits <= MOST:
        raise InputError(f"{bits} fractional bits; expected {FEWEST} to {MOST}.")
    return bits


def largest(bits: int, terms: int) -> float:
    """The largest number that a sum of this many terms can have without overflow."""
    return float(2.0 ** (RANGE - bits) / terms)


def encode(values: Array, bits: int, terms: int = 1) -> Limbs:
    """Numbers (n,) as integers, rounded to the nearest; one that a sum of so many terms might overflow is an error."""
    size = np.abs(values)
    if not (size <= largest(bits, terms)).all():  # NaN is not
        raise InputError(
            f"A sum is as large as {size.max():.3g}; with {bits} fractional bits and {terms} parties at most "
            f"{largest(bits, terms):.3g} can be added up. Agree on fewer bits."
        )
    scaled = np.ldexp(size, bits - HALF)  # exact, as are the two lines below: only the last rounds
    high = np.floor(scaled)
    low = np.rint(np.ldexp(scaled - high, HALF))  # below 2^64: a fraction of 53 bits is no nearer to 1
    limbs = np.stack([low.astype(np.uint64), high.astype(np.uint64)], axis=1)
    negate(limbs, values < 0)
    return limbs


def decode(limbs: Limbs, bits: int) -> Array:
    """The numbers of integers, to the precision of float64."""
    negative = limbs[:, 1] >> np.uint64(HALF - 1) > 0
    size = limbs.copy()
    negate(size, negative)
    values = np.ldexp(size[:, 1].astype(np.float64), HALF - bits) + np.ldexp(size[:, 0].astype(np.float64), -bits)
    return np.where(negative, -values, values)


def add(total: Limbs, other: Limbs) -> None:
    """Add integers to others in place, modulo 2^128."""
    low = total[:, 0] + other[:, 0]
    total[:, 1] += other[:, 1] + (low < other[:, 0])
    total[:, 0] = low


def subtract(total: Limbs, other: Limbs) -> None:
    """Subtract integers from others in place, modulo 2^128."""
    borrow = total[:, 0] < other[:, 0]
    total[:, 1] -= other[:, 1] + borrow
    total[:, 0] -= other[:, 0]


def negate(limbs: Limbs, which: NDArray[np.bool_]) -> None:
    """Change the sign of some integers in place."""
    low, high = ~limbs[which, 0] + np.uint64(1), ~limbs[which, 1]
    limbs[which, 1] = high + (low == 0)
    limbs[which, 0] = low
