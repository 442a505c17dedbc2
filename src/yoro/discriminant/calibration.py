"""Calibration, from scores to probabilities: priors, temperature scaling, and the weight of a zero-shot head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import numpy as np
from numpy.typing import NDArray

from yoro.discriminant.rules import check_prior
from yoro.environment import cores
from yoro.errors import InputError
from yoro.mappings.batches import Array

Prior = str | Mapping[str, float]

TOLERANCE = 0.1  # share of the probability that is spread over all classes when candidates are compared
BLOCK = 2**16  # scores of a block, at least
WORTH_THREADS = 16  # blocks
MIN_ROWS = 8
NEAR = 1e-7  # relative step of Newton's method after which the next would be lost in rounding
COLDEST, HOTTEST = 1e-6, 1e9  # bounds of a fitted temperature; with few images scores run into the millions


def log_prior(counts: Array, classes: tuple[str, ...], prior: Prior = "empirical") -> Array:
    """Log prior of each class, (classes,): `empirical`, `uniform`, or a table of names to weights.

    A class without data gets minus infinity whatever the table says: nothing is known of it.
    """
    if prior == "empirical":
        weights = counts
    elif prior == "uniform":
        weights = np.ones_like(counts)
    else:
        check_prior(prior)
        weights = _table(cast("Mapping[str, float]", prior), classes)
    weights = np.where(counts > 0, weights, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(weights) - np.log(weights.sum())  # type: ignore[no-any-return]


def _table(prior: Mapping[str, float], classes: tuple[str, ...]) -> Array:
    odd = sorted(set(classes) ^ set(prior))
    if odd:
        raise InputError(f"The prior and the classes differ at {odd[0]!r}; a prior needs a weight for every class.")
    weights = np.array([float(prior[name]) for name in classes])
    if not np.isfinite(weights).all() or (weights < 0).any() or weights.sum() == 0:
        raise InputError("Prior weights must be finite, not negative, and not all zero.")
    return weights


def log_probabilities(scores: Array, temperature: float = 1.0) -> Array:
    """Log of softmax(scores / temperature), row by row; a score of minus infinity stays so."""
    scaled = scores / temperature
    scaled -= log_sums(scaled)
    return scaled


def log_sums(scores: Array) -> Array:
    """Log of the sum of exp(scores) of each row, (n, 1), in blocks of rows that stay in the cache, on all cores."""
    step = max(MIN_ROWS, BLOCK // max(scores.shape[1], 1))
    blocks = [scores[i : i + step] for i in range(0, len(scores), step)]
    if len(blocks) < WORTH_THREADS:
        return np.concatenate([_log_sums(block) for block in blocks]) if blocks else _log_sums(scores)
    with ThreadPoolExecutor(min(cores(), len(blocks))) as pool:
        return np.concatenate(list(pool.map(_log_sums, blocks)))


def _log_sums(scores: Array) -> Array:
    """The same of one block; scipy's logsumexp takes twice as long, and a third of a second to import."""
    top = scores.max(axis=1, keepdims=True)
    top[~np.isfinite(top)] = 0.0
    with np.errstate(divide="ignore", over="ignore"):
        return top + np.log(np.exp(scores - top).sum(axis=1, keepdims=True))  # type: ignore[no-any-return]


def doubtful_loss(
    scores: Array, truth: NDArray[np.intp], weights: Array, temperature: float, *, tolerance: float = 0.0
) -> float:
    """Negative log-likelihood with one more image, whose class is unknown (uniform).

    Without that image, answers that are all right would call for certainty, and the likelihood could not tell them
    apart. `tolerance` is the part of the probability that is spread over all classes first.
    """
    doubt = 1.0 / (1.0 + weights.sum())
    logs = log_probabilities(scores, temperature)
    known = np.isfinite(scores).all(axis=0)  # a class without data scores minus infinity everywhere
    if tolerance:
        np.exp(logs, out=logs)
        logs *= 1 - tolerance
        logs += tolerance / known.sum()
        np.log(logs, out=logs)
    own, guess = logs[np.arange(len(truth)), truth], logs[:, known].mean(axis=1)
    return float(-(weights @ ((1 - doubt) * own + doubt * guess)) / weights.sum())


def tolerant_loss(scores: Array, truth: NDArray[np.intp], weights: Array, temperature: float) -> float:
    """`doubtful_loss` that assumes one image in ten to have any label, so that no single image costs very much.

    Where responses have long tails, a few images lie far from all classes. Under the plain likelihood these alone
    decide, and call for a large shrinkage that blurs the others.
    """
    return doubtful_loss(scores, truth, weights, temperature, tolerance=TOLERANCE)


def fit_temperature(scores: Array, truth: NDArray[np.intp], weights: Array, start: float = 1.0) -> float:
    """The temperature of least `doubtful_loss`, by Newton's method on its inverse.

    In the inverse temperature b the loss is convex: its slope is the mean of `E[s] - s_wanted`
    and its curvature the mean variance of the scores under softmax(b s).
    """
    doubt = 1.0 / (1.0 + weights.sum())
    share = weights / weights.sum()
    shifted = scores - scores.max(axis=1, keepdims=True)
    known = np.isfinite(shifted).all(axis=0)
    guess = shifted[:, known].mean(axis=1)
    own = shifted[np.arange(len(truth)), truth]
    wanted = float(share @ ((1 - doubt) * own + doubt * guess))
    shifted = shifted[:, known]
    low, high = 1 / HOTTEST, 1 / COLDEST
    inverse = float(np.clip(1 / start, low, high))
    for _ in range(100):
        expected, spreads = _expected(shifted, inverse)
        slope = float(share @ expected) - wanted
        low, high = (low, inverse) if slope > 0 else (inverse, high)
        curvature = float(share @ spreads)
        newton = inverse - slope / curvature if curvature > 0 else np.inf
        if abs(newton - inverse) <= NEAR * inverse:
            return float(1 / newton)
        proposal = newton if low < newton < high else (low * high) ** 0.5
        if abs(proposal - inverse) <= 1e-12 * inverse:
            break
        inverse = proposal
    return 1 / inverse


def _expected(scores: Array, inverse: float) -> tuple[Array, Array]:
    """Means and variances (n,) of the scores of a row under their softmax, in blocks of rows that stay in the cache."""
    step, ones = max(MIN_ROWS, BLOCK // max(scores.shape[1], 1)), np.ones(scores.shape[1])
    means, variances, room = np.empty(len(scores)), np.empty(len(scores)), np.empty((step, scores.shape[1]))
    for start in range(0, len(scores), step):
        part = scores[start : start + step]
        rows, odds = slice(start, start + len(part)), room[: len(part)]
        np.exp(np.multiply(part, inverse, out=odds), out=odds)
        sums = odds @ ones
        odds *= part
        means[rows] = odds @ ones / sums
        variances[rows] = np.einsum("ik,ik->i", odds, part) / sums - means[rows] ** 2
    return means, variances


def fit_blend(
    scores: Array, opinion: Array, truth: NDArray[np.intp], weights: Array, start: float = 1.0
) -> tuple[float, float]:
    """Temperature T and weight alpha of least `doubtful_loss` of `(scores + alpha * opinion) / T`.

    `start` is a temperature to begin at.
    """
    first = np.array([np.clip(1 / start, 1 / HOTTEST, 1 / COLDEST), 0.0])
    b, a = fit_weights([scores, opinion], truth, weights, first, floor=np.array([1 / HOTTEST, 0.0]))
    return float(1 / b), float(a / b)


def fit_weights(
    scores: Sequence[Array],
    truth: NDArray[np.intp],
    weights: Array,
    start: Array,
    *,
    floor: Array | None = None,
    strength: float = 0.0,
) -> Array:
    """Weights of several heads' scores (n, classes) whose sum has the least `doubtful_loss`, none below the floor.

    `strength` holds them to the start: so many images that would be answered as well with them there. The loss is
    convex; Newton's method with the bounds held finds its minimum.
    """
    known = np.isfinite(scores[0]).all(axis=0)
    column = np.cumsum(known) - 1
    parts = np.stack([_levelled(part[:, known]) for part in scores])
    total = float(weights.sum())
    share, doubt, hold = weights / total, 1.0 / (1.0 + total), strength / total
    own = parts[:, np.arange(len(truth)), column[truth]]
    wanted = (1 - doubt) * own @ share  # the mean of a levelled row, the doubtful image's score, is zero
    lowest = np.zeros(len(parts)) if floor is None else floor

    def loss(x: Array) -> float:
        held = 0.5 * hold * float((x - start) @ (x - start))
        return float(share @ log_sums(np.tensordot(x, parts, 1))[:, 0] - x @ wanted) + held

    x, before = start.copy(), loss(start)
    for _ in range(100):
        slope, curvature = _derivatives(x, parts, share, wanted)
        slope = slope + hold * (x - start)
        curvature[np.diag_indices_from(curvature)] += hold
        free = (x > lowest) | (slope < 0)
        step = np.zeros(len(x))
        step[free] = -np.linalg.lstsq(curvature[np.ix_(free, free)], slope[free], rcond=None)[0]
        length, after = 1.0, before
        while length > 1e-6:
            proposal = np.clip(x + length * step, lowest, 1 / COLDEST)
            after = loss(proposal)
            if after <= before + 1e-4 * float(slope @ (proposal - x)):
                break
            length /= 2
        if not after < before - 1e-12 * abs(before):
            break
        x, before = proposal, after
    return x


def _levelled(scores: Array) -> Array:
    return scores - scores.mean(axis=1, keepdims=True)  # type: ignore[no-any-return]


def _derivatives(x: Array, parts: Array, share: Array, wanted: Array) -> tuple[Array, Array]:
    """Slope (heads,) and curvature (heads, heads) of the loss of `fit_weights`."""
    heads = len(parts)
    logits = np.tensordot(x, parts, 1)
    probability = np.exp(logits - log_sums(logits))
    weighted = probability * parts  # (heads, n, classes)
    expected = weighted.sum(axis=2)
    second = (weighted * share[:, None]).reshape(heads, -1) @ parts.reshape(heads, -1).T
    curvature = second - (expected * share) @ expected.T
    return expected @ share - wanted, curvature


def spread(scores: Array) -> float:
    """Root mean square of scores about their mean over the classes; 1 where they say nothing at all."""
    known = scores[:, np.isfinite(scores).all(axis=0)]
    return float(np.sqrt(np.mean((known - known.mean(axis=1, keepdims=True)) ** 2))) or 1.0


def margins(logs: Array, truth: NDArray[np.intp]) -> tuple[Array, NDArray[np.intp]]:
    """By how much the best other class is more probable than the label (n,), as a logarithm; and which it is."""
    rows, others = np.arange(len(truth)), logs.copy()
    others[rows, truth] = -np.inf
    best = others.argmax(axis=1)
    return others[rows, best] - logs[rows, truth], best
