"""A frozen pretrained model and labelled images in, a classifier out, in one forward-only pass."""

from __future__ import annotations

import os
import sys

if sys.argv[:1] == ["-m"] and sys.path[:1] in ([""], [os.getcwd()]):  # noqa: PTH109  # pathlib may be a file here
    del sys.path[0]  # `python -m yoro` puts the working directory first, before the standard library

from importlib import import_module
from typing import TYPE_CHECKING

from yoro.environment import __version__
from yoro.fit import fit  # at once and cheap, because the function stands in the place of its module

if TYPE_CHECKING:
    from yoro.api.classifier import Classifier, load
    from yoro.discriminant.statistics import ResponseStatistics
    from yoro.mappings.affine import AffineMapping
    from yoro.model.estimator import DiscriminantMapping
    from yoro.model.response_transformer import Responses
    from yoro.research.comparing import CompareOptions as CompareOptions
    from yoro.research.comparing import Comparison as Comparison
    from yoro.research.comparing import compare
    from yoro.sources import ResponseSource

__all__ = [
    "AffineMapping",
    "Classifier",
    "DiscriminantMapping",
    "ResponseSource",
    "ResponseStatistics",
    "Responses",
    "__version__",
    "compare",
    "fit",
    "load",
]

_HOMES = {
    "AffineMapping": "yoro.mappings.affine",
    "Classifier": "yoro.api.classifier",
    "DiscriminantMapping": "yoro.model.estimator",
    "ResponseSource": "yoro.sources",
    "ResponseStatistics": "yoro.discriminant.statistics",
    "Responses": "yoro.model.response_transformer",
    "compare": "yoro.research.comparing",
    "load": "yoro.api.classifier",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `yoro --help` stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'yoro' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__
