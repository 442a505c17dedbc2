"""Noise that hides whether any one image is in a sum: how much, and what becomes of sums that have it.

Every response is clipped to a length about the agreed point. One image then changes the counts, the sums over C and the
second moments over C^2 by a vector whose length is at most sqrt(1 + 2 R), with R readings: one for its count, and for
each reading at most one for its sum and one for its second moment. Gaussian noise of sigma times that length, on every
number, gives (epsilon, delta) for adding or removing one image.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtri

from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.readings import Layout
from yoro.discriminant.statistics import ResponseStatistics
from yoro.errors import InputError
from yoro.model.gathered import Gathered
from yoro.model.model import Json
from yoro.model.noise_facts import NOISE
from yoro.model.shards import Shard
from yoro.parties.moments import length, taken_apart, to_vector

Array = NDArray[np.float64]

WIDEST, NARROWEST = 1e9, 1e-9  # sigmas between which the right one is looked for


@dataclass(frozen=True)
class Noise:
    """What the noise promises, and the length that every response is clipped to.

    `makers` add noise apart from each other, and their noises together make up the promise.
    """

    epsilon: float
    delta: float
    clip: float = 1.0
    makers: int = 1

    def __post_init__(self) -> None:
        sound = all(math.isfinite(x) for x in (self.epsilon, self.delta, self.clip))
        if not sound or self.epsilon <= 0 or not 0 < self.delta < 1:
            raise InputError(
                f"Noise of ({self.epsilon}, {self.delta}); expected epsilon above 0, delta within 0 and 1."
            )
        if self.clip <= 0 or self.makers < 1:
            raise InputError(f"Responses clipped to {self.clip} by {self.makers}; expected more than 0, and 1 or more.")

    @classmethod
    def parse(cls, text: str, clip: float, makers: int = 1) -> Self:
        """The noise that is written as EPSILON,DELTA.

        >>> Noise.parse("1,1e-5", clip=1.0)
        Noise(epsilon=1.0, delta=1e-05, clip=1.0, makers=1)
        """
        try:
            epsilon, delta = (float(word) for word in text.split(","))
        except ValueError:
            raise InputError(f"{text!r} is no noise; expected EPSILON,DELTA such as 1,1e-5.") from None
        return cls(epsilon, delta, clip, makers)

    @property
    def sigma(self) -> float:
        """Standard deviation of all noise together, for a change of length one."""
        return sigma_of(self.epsilon, self.delta)

    def to_json(self) -> Json:
        """The same as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, table: object) -> Self:
        """What `to_json` gave, checked as if a stranger had written it."""
        if not isinstance(table, dict) or set(table) != {"epsilon", "delta", "clip", "makers"}:
            raise InputError("Noise is a table of epsilon, delta, clip and makers.")
        epsilon, delta, clip = (float(cast(float, table[key])) for key in ("epsilon", "delta", "clip"))
        return cls(epsilon, delta, clip, int(cast(int, table["makers"])))


def delta_of(sigma: float, epsilon: float) -> float:
    """The least delta of Gaussian noise on a change of length one (Balle and Wang 2018, theorem 8)."""
    near, far = log_ndtr(0.5 / sigma - epsilon * sigma), log_ndtr(-0.5 / sigma - epsilon * sigma)
    return float(np.exp(near) - np.exp(epsilon + far))


def sigma_of(epsilon: float, delta: float) -> float:
    """The least standard deviation of Gaussian noise that gives (epsilon, delta) for a change of length one."""
    low, high = NARROWEST, WIDEST
    if delta_of(high, epsilon) > delta:
        raise InputError(f"No noise gives ({epsilon:g}, {delta:g}): epsilon or delta is too small.")
    found = brentq(lambda x: delta_of(math.exp(x), epsilon) - delta, math.log(low), math.log(high), xtol=1e-14)
    return math.exp(float(found)) * (1 + 1e-9)  # on the safe side of the root


def sensitivity(layout: Layout) -> float:
    """The longest change that one clipped response makes, in units of the clip."""
    return math.sqrt(1 + 2 * len(layout.readings))


def scales(classes: int, layout: Layout, clip: float) -> Array:
    """The unit of every number of a vector of sums: 1 for counts, the clip for sums, its square for second moments."""
    blocks = [np.ones(classes)]
    for reading in layout.readings:
        w = reading.width
        blocks += [np.full(classes * w, clip), np.full(w * (w + 1) // 2, clip**2)]
    return np.concatenate(blocks)


def noisy(vector: Array, classes: int, layout: Layout, noise: Noise, content: bytes) -> Array:
    """The vector with one maker's noise, drawn from random bytes, 8 a number."""
    each = noise.sigma * sensitivity(layout) / math.sqrt(noise.makers)
    return vector + each * scales(classes, layout, noise.clip) * normal(content)


def bytes_needed(classes: int, layout: Layout) -> int:
    """How many random bytes `noisy` takes."""
    return 8 * length(classes, layout)


def normal(content: bytes) -> Array:
    """Numbers of the normal distribution, one from each 8 random bytes: a bit for the sign, the others for the size."""
    whole = np.frombuffer(content, dtype="<u8")
    size = ndtri(((whole >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64)  # of 0 to 1/2, so of no sign but minus
    return cast(Array, np.where(whole & np.uint64(1), size, -size))


def from_noisy(
    vector: Array, classes: Sequence[str], layout: Layout, shift: Array, noise: Noise, makers: int
) -> JointStatistics:
    """Statistics of sums that so many makers have put noise on.

    Counts are at least one. What noise leaves of a scatter may have negative directions: those that do not rise above
    the noise are all given the same size, and the whole the size that its trace has.
    """
    k, parts = len(classes), []
    each = noise.sigma * sensitivity(layout) * math.sqrt(makers / noise.makers)
    counts = np.maximum(vector[:k], 1.0)
    for columns, sums, second in taken_apart(vector, k, layout):
        steps = sums / counts[:, None]
        lost = float(((each * noise.clip) ** 2 / counts).sum())  # that noise on the sums takes from the diagonal
        scatter = _above(second - sums.T @ steps + lost * np.eye(len(second)), each * noise.clip**2)
        arrays: dict[str, NDArray[np.generic]] = {"counts": counts, "means": steps + shift[columns], "scatter": scatter}
        parts.append(ResponseStatistics.from_arrays(arrays, classes))
    return JointStatistics(layout, parts)


def with_noise(shard: Shard, noise: Noise) -> Shard:
    """Sums alone of clipped responses, with noise of one holder; nothing exact of them is left, nor is their number."""
    statistics = shard.gathered.statistics
    classes, layout, about = statistics.classes, statistics.layout, np.zeros(statistics.width)
    drawn = secrets.token_bytes(bytes_needed(len(classes), layout))
    vector = noisy(to_vector(statistics, classes, about), len(classes), layout, noise, drawn)
    told = from_noisy(vector, classes, layout, about, noise, noise.makers)
    gathered = Gathered(told, noting=False)
    return replace(shard, gathered=gathered, facts={NOISE: {part: noise.to_json() for part in shard.parts}})


def clip_of(layout: Layout, given: float | None) -> float:
    """The length to clip to: the one given, or that of responses which have one length by how they are read."""
    if given is not None:
        return given
    if all(reading.transform != "plain" for reading in layout.readings):
        return 1.0
    plain = next(reading.name for reading in layout.readings if reading.transform == "plain")
    raise InputError(
        f"Responses read at {plain!r} may have any length; say with --clip C what they are clipped to. "
        "It must not be found by looking at the data."
    )


def _above(scatter: Array, deviation: float) -> Array:
    """A scatter whose directions below the noise are all alike; the largest of pure noise is about 2 sqrt(w) of it."""
    w = len(scatter)
    values, vectors = np.linalg.eigh(scatter)
    raised = np.maximum(values, 2 * math.sqrt(w) * deviation)
    trace = max(float(values.sum()), math.sqrt(w) * deviation)
    result = (vectors * (raised * trace / raised.sum())) @ vectors.T
    return cast(Array, (result + result.T) / 2)
