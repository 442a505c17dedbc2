"""What may be asked about each image, by whichever door: command line, Python, Ray, service or studio."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from yoro.errors import InputError, did_you_mean
from yoro.option import option

BY_CLASS, JACKKNIFE, FULL = "leave-one-out", "jackknife+", "full"
SETS_BY: Final = (BY_CLASS, JACKKNIFE, FULL)


@dataclass(frozen=True)
class Question:
    """What is asked about each image."""

    top: int = option(1, "Output the K best classes.", metavar="K")
    threshold: float = option(0.0, "Give no label below this probability.", metavar="P")
    unknown: float | None = option(
        None,
        "Reject out-of-distribution images; S is the fraction of training images rejected.",
        "None does not measure it; 0 measures it and rejects nothing.",
        metavar="S",
    )
    coverage: float | None = option(None, "Also output a conformal prediction set with coverage C.", metavar="C")
    calibrate: str | object | None = option(
        None, "With --coverage: labelled data for calibration, not used in the fit.", metavar="DATA", expert=True
    )
    sets_by: str = option(
        BY_CLASS,
        "With --coverage: how the sets are computed; full is exact but slow.",
        metavar="|".join(SETS_BY),
        expert=True,
    )
    allow_empty: bool = option(False, "With --coverage: allow empty sets.", expert=True)
    prior: str | Mapping[str, float] | None = option(
        None,
        "Class priors to use instead of the fit's: empirical, uniform, or cat=0.2,dog=0.8.",
        metavar="P",
        expert=True,
    )

    together: bool = option(
        False,
        "Answer for all images together: each helps the others.",
        "They are used like unlabelled images in `fit`, and are not kept.",
    )

    def __post_init__(self) -> None:
        if self.top < 1:
            raise InputError(f"The number of best classes is {self.top}; expected 1 or more.")
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
