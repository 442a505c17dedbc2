"""What may be asked about each image, by whichever door: command line, Python, Ray, service or studio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from yoro.errors import InputError, did_you_mean

BY_CLASS, JACKKNIFE, FULL = "leave-one-out", "jackknife+", "full"
SETS_BY: Final = (BY_CLASS, JACKKNIFE, FULL)


@dataclass(frozen=True)
class Question:
    """What is asked about each image.

    top : how many of the most probable classes.
    threshold : give no label where the best probability is less.
    unknown : reject out-of-distribution images: give no label to what is no more typical than this share of the
        fitted images. None does not measure it; 0 measures it and rejects nothing.
    coverage : also give a conformal prediction set, which holds the right label this often.
    calibrate : labelled data that were not fitted, to find the sets by.
    sets_by : else how they are found: "leave-one-out", "jackknife+" or "full".
    allow_empty : whether a set may be empty.
    prior : class priors instead of those of the fit: "empirical", "uniform", or a share for each class.
    """

    top: int = 1
    threshold: float = 0.0
    unknown: float | None = None
    coverage: float | None = None
    calibrate: object = None
    sets_by: str = BY_CLASS
    allow_empty: bool = False
    prior: str | Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        if self.top < 1:
            raise InputError(f"The {self.top} best classes were asked for; expected 1 or more.")
        if not 0.0 <= self.threshold <= 1.0:
            raise InputError(f"The threshold is {self.threshold:g}; expected a probability from 0 to 1.")
        if self.unknown is not None and not 0.0 <= self.unknown < 1.0:
            raise InputError(
                f"The share to reject as unknown is {self.unknown:g}; expected a number from 0 to 1, such as 0.05."
            )
        if self.coverage is not None and not 0.0 < self.coverage < 1.0:
            raise InputError(f"The coverage is {self.coverage:g}; expected a share between 0 and 1, such as 0.9.")
        if self.sets_by not in SETS_BY:
            raise InputError(f"Unknown way to find sets: {self.sets_by!r}; {did_you_mean(self.sets_by, SETS_BY)}")
        if self.calibrate is not None and self.coverage is None:
            raise InputError("Calibration data need a coverage; give one, such as 0.9, or leave calibrate out.")
        if self.prior is not None and self.coverage is not None:
            raise InputError("A coverage holds for the prior of the fit; leave out prior or coverage.")
