"""Statistics of a results table: means over seeds and settings, intervals, wins and losses, depths."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from operator import index
from typing import TypeVar

import numpy as np

from yoro.errors import InputError

K = TypeVar("K", bound=Hashable)


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean; the order of the values makes no difference, not even in the last digit."""
    return statistics.fmean(_finite(values))


def sample_deviation(values: Sequence[float]) -> float | None:
    """The standard deviation with n - 1 in the denominator; None of a single value."""
    numbers = _finite(values)
    return statistics.stdev(numbers) if len(numbers) > 1 else None


def macro_average(by_setting: Mapping[str, Mapping[int, float]]) -> tuple[float, float | None]:
    """Mean and sample deviation over seeds of each seed's mean over the settings (or datasets), all of equal weight.

    The values come as {setting: {seed: value}}, and every setting must have the same seeds.

    >>> macro_average({"dtd": {0: 60.0, 1: 62.0}, "svhn": {0: 80.0, 1: 80.0}})
    (70.5, 0.7071067811865476)
    """
    if not by_setting:
        raise InputError("There is no setting to average.")
    seeds = sorted(set().union(*by_setting.values()))
    for setting, by_seed in by_setting.items():
        missing = [seed for seed in seeds if seed not in by_seed]
        if missing:
            raise InputError(
                f"'{setting}' has no value of seed {missing[0]}, but another setting has; "
                "run it, or average the seeds that all settings have."
            )
    per_seed = [mean([by_seed[seed] for by_seed in by_setting.values()]) for seed in seeds]
    return mean(per_seed), sample_deviation(per_seed)


def bootstrap_interval(
    differences: Sequence[float], *, draws: int = 10_000, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean difference, resampling the settings; their order does not matter."""
    numbers = np.sort(_finite(differences))
    chosen = np.random.default_rng(seed).integers(len(numbers), size=(draws, len(numbers)))  # (draws, settings)
    means = numbers[chosen].mean(axis=1)  # (draws,)
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return float(low), float(high)


def exact_mean(correct: Sequence[int], tested: Sequence[int]) -> Fraction:
    """The mean accuracy of some runs, one per seed, as an exact fraction of their integer counts.

    >>> exact_mean([1, 2], [3, 3])
    Fraction(1, 2)
    """
    shares = [Fraction(index(right), index(total)) for right, total in zip(correct, tested, strict=True)]
    return sum(shares, Fraction(0)) / len(shares)


def wins_ties_losses(ours: Mapping[str, Fraction], theirs: Mapping[str, Fraction]) -> tuple[int, int, int]:
    """In how many settings our exact mean is above theirs, equal to it, and below; nothing is rounded."""
    alone = sorted(ours.keys() ^ theirs.keys())
    if alone:
        raise InputError(f"'{alone[0]}' is on one side only; both sides need the same settings.")
    signs = [(ours[setting] > theirs[setting]) - (ours[setting] < theirs[setting]) for setting in ours]
    return signs.count(1), signs.count(0), signs.count(-1)


def depth(epochs: Sequence[int]) -> tuple[float, float | None, float]:
    """Mean, sample deviation and median over runs of the epoch that validation chose; 0 is the one-pass predictor."""
    return mean(epochs), sample_deviation(epochs), float(statistics.median(epochs))


def kept_share(epochs: Sequence[int]) -> float:
    """The share of runs, between 0 and 1, in which validation chose epoch 0."""
    return mean([epoch == 0 for epoch in epochs])


def best(values: Mapping[K, float]) -> set[K]:
    """The keys that share the largest value as a table prints it, with one decimal; none of no values.

    >>> sorted(best({"blm": 45.3, "yoro": 68.62, "yoro-fp": 68.58}))
    ['yoro', 'yoro-fp']
    """
    if not values:
        return set()
    printed = dict(zip(values, (round(number, 1) for number in _finite(values.values())), strict=True))
    largest = max(printed.values())
    return {key for key, number in printed.items() if number == largest}


def _finite(values: Iterable[float]) -> list[float]:
    numbers = [float(value) for value in values]
    if not numbers:
        raise InputError("There is no value to summarise.")
    bad = [number for number in numbers if not math.isfinite(number)]
    if bad:
        raise InputError(f"A value is {bad[0]}; tables need finite numbers. Leave out the run that gave it.")
    return numbers
