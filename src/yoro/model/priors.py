"""Another prior at prediction, without a fit: each probability times the new prior of its class over the fitted one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import numpy as np

from yoro.discriminant.calibration import Prior, log_prior, log_sums
from yoro.discriminant.rules import check_prior
from yoro.errors import InputError, did_you_mean
from yoro.mappings.batches import Array
from yoro.model.model import Model

WHOLE = 1e-3  # by so much the sum of given probabilities may differ from one: people write 0.333


def fitted_log_prior(model: Model) -> Array:
    """The log prior that the model's answers hold, (classes,); minus infinity for a class that it never answers."""
    counts, known = _counts(model), np.isfinite(model.mapping.bias)
    prior = "uniform" if model.statistics.total == 0 else model.prior
    return np.where(known, log_prior(counts, model.mapping.classes, prior), -np.inf)


def prior_shift(model: Model, prior: Prior | None) -> Array | None:
    """What is added to the log probabilities (classes,) so that another prior holds; None for the fitted one.

    The prior may be text, as `parse_prior` takes it.
    """
    prior = parse_prior(prior) if isinstance(prior, str) else prior
    if prior is None:
        return None
    check_prior(prior)
    old, classes = fitted_log_prior(model), model.mapping.classes
    known = np.isfinite(old)
    if isinstance(prior, Mapping):
        prior = _checked({str(name): _share(share, str(name)) for name, share in prior.items()}, classes)
        if not any(prior[name] for name, there in zip(classes, known, strict=True) if there):
            raise InputError("The prior is zero for every class that the model can predict; give one of them a share.")
    new = log_prior(np.where(known, _counts(model), 0.0), classes, prior)
    shift = np.full(len(classes), -np.inf)
    shift[known] = new[known] - old[known]
    return shift if shift[known].any() else None


def shifted(log_probabilities: Array, shift: Array | None) -> Array:
    """Log probabilities (n, classes) under the new prior."""
    if shift is None:
        return log_probabilities
    moved = log_probabilities + shift
    return moved - log_sums(moved)


def parse_prior(text: str | None) -> Prior | None:
    """A prior as it is typed: empirical, uniform, or CLASS=SHARE with commas between.

    >>> parse_prior("cat=0.2,dog=0.8")
    {'cat': 0.2, 'dog': 0.8}
    """
    if text is None or text in ("empirical", "uniform"):
        return text
    found = list(re.finditer(r"(.+?)=([^=,]+)(?:,|$)", text))
    if not found or "".join(match[0] for match in found) != text:
        raise InputError(f"Unknown prior {text!r}; expected empirical, uniform, or shares such as cat=0.2,dog=0.8.")
    table: dict[str, float] = {}
    for match in found:
        name = match[1].strip()
        if name in table:
            raise InputError(f"The prior names the class {name!r} twice; give it one share.")
        table[name] = _share(match[2], name)
    return table


def _share(value: object, name: str) -> float:
    try:
        share = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        share = math.nan
    if not 0.0 <= share <= 1.0:
        raise InputError(f"The prior of {name!r} is {value!r}; expected a number from 0 to 1.")
    return share


def _counts(model: Model) -> Array:
    """Examples a class as the fit counted them; a class known by its sentences alone counts as one."""
    counts = model.statistics.counts
    return np.where(np.isfinite(model.mapping.bias), np.maximum(counts, 1.0), counts)


def _checked(table: Mapping[str, float], classes: tuple[str, ...]) -> dict[str, float]:
    """Shares of all classes that add up to one, or an error."""
    for name in table:
        if name not in classes:
            hint = did_you_mean(name, classes)
            raise InputError(f"The prior names {name!r}, which is not a class of the model. {hint}")
    lacking = [name for name in classes if name not in table]
    if lacking:
        raise InputError(f"The prior has no share for class {lacking[0]!r}; give every class one.")
    total = math.fsum(table.values())
    if abs(total - 1.0) > WHOLE:
        raise InputError(f"The shares of the prior add up to {total:g}; expected 1.")
    return dict(table)
