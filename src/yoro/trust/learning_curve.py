"""What accuracy to expect with more images a class, from leave-one-out answers with those that are there.

With few images the share of right answers is a rough measure. How clearly an answer is right or wrong, its margin, says
more: the mean of the margins through a logistic curve varies less from draw to draw. On the scale of the normal
quantile, accuracy is nearly linear in it, and grows by about the same from n to m images a class whatever the data
are: by a multiple of 1/sqrt(n) - 1/sqrt(m). With many classes it is a little lower. The slope that refits on fewer of
the same images show was tried beside it, and told nothing more.

The constants were fitted once, to draws of 4, 8 and 16 images a class of six datasets; the deviations were set by hand,
so that about nine intervals in ten held on these. `benchmarks/advice.py` says how far off both are on any data, and
what constants its own draws would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri
from scipy.stats import norm

from yoro.discriminant.calibration import margins
from yoro.model.metrics import wilson_interval

Array = NDArray[np.float64]

TIMES = (1, 2, 4)  # as many images
QUANTILE = 1.645  # of a 90 % interval
START, FEW, GROWTH, SLOPE, MANY = 0.269, 0.313, 1.83, 0.93, -0.11
CLASSES = (5, 50)  # that the constants are of; with fewer or more the nearest of these is taken
# Deviations: times that of the mean, of the formula, for every doubling, and more where nearly all is right.
NOISE, MODEL, AHEAD, SURE = 1.2, 0.1, 0.08, 0.3


@dataclass(frozen=True)
class Share:
    """A share with its 90 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Judged:
    """Answers beside the truth: margins (n,) between the log-probability of the right class and the best other."""

    margins: Array

    @classmethod
    def of(cls, logs: Array, truth: NDArray[np.intp]) -> Self:
        """Of log-probabilities (n, classes) and the classes that are right, (n,)."""
        return cls(-margins(logs, truth)[0])

    def __len__(self) -> int:
        return len(self.margins)

    @property
    def accuracy(self) -> float:
        """The share of right answers."""
        return float((self.margins > 0).mean())


def measured(accuracy: float, n: int) -> Share:
    """A share of n answers with Wilson's interval."""
    return Share(accuracy, *wilson_interval(accuracy, n, QUANTILE))


def terms(judged: Judged, classes: int, images: float, factor: float) -> Array:
    """What START, FEW, GROWTH, SLOPE and MANY are multiplied with, (5,)."""
    level = ndtri(np.clip(expit(judged.margins).mean(), 1e-3, 1 - 1e-3))
    growth = images**-0.5 - (images * factor) ** -0.5
    return np.array([1.0, 1 / images, growth, level, np.log(np.clip(classes, *CLASSES) / 10)])


def forecast(images: float, judged: Judged, classes: int, times: Sequence[float] = TIMES) -> list[tuple[float, Share]]:
    """Images a class, and the accuracy to expect with them on new images, for so many times those that are there.

    >>> rng = np.random.default_rng(0)
    >>> [(n, round(share.value, 2)) for n, share in forecast(8, Judged(rng.normal(2.0, 2.0, 300)), 10)]
    [(8, 0.84), (16, 0.88), (32, 0.9)]
    """
    clear = expit(judged.margins)
    noise = NOISE * float(clear.std()) / np.sqrt(len(clear)) / float(norm.pdf(terms(judged, classes, images, 1)[3]))
    found = []
    for factor in times:
        middle = float(np.array([START, FEW, GROWTH, SLOPE, MANY]) @ terms(judged, classes, images, factor))
        model = MODEL + SURE * max(0.0, middle - 1.0)
        spread = QUANTILE * np.sqrt(noise**2 + model**2 + (AHEAD * np.log2(factor)) ** 2)
        low, value, high = (float(ndtr(middle + side * spread)) for side in (-1, 0, 1))
        found.append((images * factor, Share(value, low, high)))
    return found
