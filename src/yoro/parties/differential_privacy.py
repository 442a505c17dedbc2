"""Differential privacy by the Gaussian mechanism: how much noise the sums need, and statistics from noisy sums.

Every response is clipped to length C about the agreed origin. One image then changes the counts, the sums over C and
the second moments over C^2 by a vector of length at most sqrt(1 + 2 R), the sensitivity, with R readings: one for its
count, and for each reading at most one for its sum and one for its second moment. Gaussian noise of sigma times the
sensitivity on every number gives (epsilon, delta)-differential privacy for adding or removing one image.
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
from yoro.limits import RESPONSE_SIZE
from yoro.mappings.batches import Array
from yoro.model.card import NOISE
from yoro.model.gathered import Gathered
from yoro.model.model import Json
from yoro.model.shards import Shard
from yoro.parties.moments import length, split_vector, to_vector

LARGEST_SIGMA, SMALLEST_SIGMA = 1e9, 1e-9  # of the search
LARGEST_EPSILON = 1e9  # far beyond any that protects anybody


@dataclass(frozen=True)
class Noise:
    """The privacy budget (epsilon, delta), and the length that responses are clipped to.

    `makers` parties add noise independently; together their noise meets the budget.
    """

    epsilon: float
    delta: float
    clip: float = 1.0
    makers: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.epsilon <= LARGEST_EPSILON or not 0 < self.delta < 1:
            raise InputError(
                f"Privacy budget ({self.epsilon}, {self.delta}); expected epsilon above 0 and at most "
                f"{LARGEST_EPSILON:g}, and delta between 0 and 1."
            )
        sigma_of(self.epsilon, self.delta)  # an error, where no noise gives it, before any image is read
        if not 0 < self.clip <= RESPONSE_SIZE or self.makers < 1:
            raise InputError(
                f"Clip {self.clip} and {self.makers} noise makers; expected a clip above 0, at most "
                f"{RESPONSE_SIZE:g}, and at least 1 maker."
            )

    @classmethod
    def parse(cls, text: str, clip: float, makers: int = 1) -> Self:
        """The noise of a budget written as EPSILON,DELTA.

        >>> Noise.parse("1,1e-5", clip=1.0)
        Noise(epsilon=1.0, delta=1e-05, clip=1.0, makers=1)
        """
        try:
            epsilon, delta = (float(word) for word in text.split(","))
        except ValueError:
            raise InputError(f"{text!r} is not a privacy budget; expected EPSILON,DELTA such as 1,1e-5.") from None
        return cls(epsilon, delta, clip, makers)

    @property
    def sigma(self) -> float:
        """Standard deviation of all noise together, for sensitivity one."""
        return sigma_of(self.epsilon, self.delta)

    def to_json(self) -> Json:
        return asdict(self)

    @classmethod
    def from_json(cls, table: object) -> Self:
        """The reverse of `to_json`, checked."""
        if not isinstance(table, dict) or set(table) != {"epsilon", "delta", "clip", "makers"}:
            raise InputError("The noise must be a table of epsilon, delta, clip and makers.")
        epsilon, delta, clip = (float(cast(float, table[key])) for key in ("epsilon", "delta", "clip"))
        return cls(epsilon, delta, clip, int(cast(int, table["makers"])))


def delta_of(sigma: float, epsilon: float) -> float:
    """The least delta of the Gaussian mechanism at sensitivity one (Balle and Wang 2018, theorem 8)."""
    near, far = log_ndtr(0.5 / sigma - epsilon * sigma), log_ndtr(-0.5 / sigma - epsilon * sigma)
    return float(np.exp(near) - np.exp(epsilon + far))


def sigma_of(epsilon: float, delta: float) -> float:
    """The least standard deviation of Gaussian noise that gives (epsilon, delta) at sensitivity one."""
    if delta_of(LARGEST_SIGMA, epsilon) > delta:
        raise InputError(f"No noise can give ({epsilon:g}, {delta:g}); use a larger epsilon or delta.")
    low, high = math.log(SMALLEST_SIGMA), math.log(LARGEST_SIGMA)
    found = brentq(lambda x: delta_of(math.exp(x), epsilon) - delta, low, high, xtol=1e-14)
    return math.exp(float(found)) * (1 + 1e-9)  # on the safe side of the root


def sensitivity(layout: Layout) -> float:
    """The largest change that one clipped response makes, in units of the clip."""
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
    """How many random bytes `noisy` needs."""
    return 8 * length(classes, layout)


def normal(content: bytes) -> Array:
    """Standard normal numbers, one from each 8 random bytes: a bit for the sign, the others for the size."""
    whole = np.frombuffer(content, dtype="<u8")
    size = ndtri(((whole >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64)  # of 0 to 1/2, so never positive
    return cast(Array, np.where(whole & np.uint64(1), size, -size))


def from_noisy(
    vector: Array, classes: Sequence[str], layout: Layout, shift: Array, noise: Noise, makers: int
) -> JointStatistics:
    """Statistics from sums with the noise of so many makers.

    Counts are at least one. A noisy scatter may have negative eigenvalues: those below the noise are all raised to the
    same size, and the whole is rescaled to keep its trace.
    """
    k, parts = len(classes), []
    each = noise.sigma * sensitivity(layout) * math.sqrt(makers / noise.makers)
    counts = np.maximum(vector[:k], 1.0)
    for columns, sums, second in split_vector(vector, k, layout):
        steps = sums / counts[:, None]
        lost = float(((each * noise.clip) ** 2 / counts).sum())  # noise on the sums lowers the diagonal by so much
        scatter = _above(second - sums.T @ steps + lost * np.eye(len(second)), each * noise.clip**2)
        arrays: dict[str, NDArray[np.generic]] = {"counts": counts, "means": steps + shift[columns], "scatter": scatter}
        parts.append(ResponseStatistics.from_arrays(arrays, classes))
    return JointStatistics(layout, parts)


def with_noise(shard: Shard, noise: Noise) -> Shard:
    """A shard of noisy sums of clipped responses; nothing exact of them is left, not even their number."""
    statistics = shard.gathered.statistics
    classes, layout, about = statistics.classes, statistics.layout, np.zeros(statistics.width)
    drawn = secrets.token_bytes(bytes_needed(len(classes), layout))
    vector = noisy(to_vector(statistics, classes, about), len(classes), layout, noise, drawn)
    told = from_noisy(vector, classes, layout, about, noise, noise.makers)
    gathered = Gathered(told, noting=False)
    return replace(shard, gathered=gathered, facts={NOISE: {part: noise.to_json() for part in shard.parts}})


def clip_of(layout: Layout, given: float | None) -> float:
    """The length to clip to: the one given, or 1 where all readings are of unit length."""
    if given is not None:
        return given
    if all(reading.transform != "plain" for reading in layout.readings):
        return 1.0
    plain = next(reading.name for reading in layout.readings if reading.transform == "plain")
    raise InputError(
        f"Responses read at {plain!r} have no fixed length; set the length to clip them to with --clip C. "
        "Do not choose it by looking at the data."
    )


def _above(scatter: Array, deviation: float) -> Array:
    """The scatter with eigenvalues raised to the noise level, whose largest is about 2 sqrt(width) deviations."""
    w = len(scatter)
    values, vectors = np.linalg.eigh(scatter)
    raised = np.maximum(values, 2 * math.sqrt(w) * deviation)
    trace = max(float(values.sum()), math.sqrt(w) * deviation)
    result = (vectors * (raised * trace / raised.sum())) @ vectors.T
    return cast(Array, (result + result.T) / 2)
