"""The learning curve: the accuracy to expect with more images per class, from the leave-one-out answers.

With few images the leave-one-out accuracy is noisy. The margin, how clearly an answer is right or wrong, says more: the
mean of the margins through a logistic curve varies less from draw to draw. On the scale of the normal quantile,
accuracy is nearly linear in it, and grows by about the same from n to m images per class whatever the data: by a
multiple of 1/sqrt(n) - 1/sqrt(m). With many classes it is a little lower. Adding the slope of refits on fewer of the
same images was tried, and did not improve the forecast.

The constants were fitted once, to draws of 4, 8 and 16 images a class of six datasets; the deviations were set by hand,
so that about nine intervals in ten held on these. `benchmarks/advice.py` says how far off both are on any data, and
what constants its own draws would give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, ndtr, ndtri
from scipy.stats import norm

from yoro.mappings.batches import Array
from yoro.model.metrics import wilson_interval

TIMES = (1, 2, 4)  # as many images
QUANTILE = 1.645  # of a 90 % interval
START, FEW, GROWTH, SLOPE, MANY = 0.269, 0.313, 1.83, 0.93, -0.11
CLASSES = (5, 50)  # that the constants are of; with fewer or more the nearest of these is taken
# Deviations: times that of the mean, of the formula, for every doubling, and more where nearly all is right.
NOISE, MODEL, AHEAD, SURE = 1.2, 0.1, 0.08, 0.3


@dataclass(frozen=True)
class CurvePoint:
    """A point of the learning curve: the accuracy with so many images per class, and its 90 % interval."""

    images: float
    accuracy: float
    low: float
    high: float


def measured(images: float, accuracy: float, n: int) -> CurvePoint:
    """An accuracy measured on n answers, with Wilson's interval."""
    return CurvePoint(images, accuracy, *wilson_interval(accuracy, n, QUANTILE))


def terms(margins: Array, classes: int, images: float, factor: float) -> Array:
    """The regressors (5,) of the coefficients START, FEW, GROWTH, SLOPE and MANY."""
    level = ndtri(np.clip(expit(margins).mean(), 1e-3, 1 - 1e-3))
    growth = images**-0.5 - (images * factor) ** -0.5
    return np.array([1.0, 1 / images, growth, level, np.log(np.clip(classes, *CLASSES) / 10)])


def forecast(images: float, margins: Array, classes: int, times: Sequence[float] = TIMES) -> list[CurvePoint]:
    """The accuracy to expect on new images with `times` as many images per class.

    `margins` (n,) are those of answers: the log-probability of the right class less that of the best other class.

    >>> rng = np.random.default_rng(0)
    >>> [(p.images, round(p.accuracy, 2)) for p in forecast(8, rng.normal(2.0, 2.0, 300), 10)]
    [(8, 0.84), (16, 0.88), (32, 0.9)]
    """
    clear = expit(margins)
    noise = NOISE * float(clear.std()) / np.sqrt(len(clear)) / float(norm.pdf(terms(margins, classes, images, 1)[3]))
    found = []
    for factor in times:
        middle = float(np.array([START, FEW, GROWTH, SLOPE, MANY]) @ terms(margins, classes, images, factor))
        model = MODEL + SURE * max(0.0, middle - 1.0)
        spread = QUANTILE * np.sqrt(noise**2 + model**2 + (AHEAD * np.log2(factor)) ** 2)
        low, accuracy, high = (float(ndtr(middle + side * spread)) for side in (-1, 0, 1))
        found.append(CurvePoint(images * factor, accuracy, low, high))
    return found
