"""The peer methods by name."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

from yoro.errors import InputError, did_you_mean
from yoro.research.peers.ape import APE
from yoro.research.peers.deep_slda import DEEP_SLDA
from yoro.research.peers.discriminants import BDM, LABEL_MAPPINGS
from yoro.research.peers.gda import GDA, TIMO, TIMO_S
from yoro.research.peers.lpplusplus import LP_PLUS_PLUS
from yoro.research.peers.method import Method
from yoro.research.peers.nearest_mean import NEAREST_MEAN, NEAREST_NEIGHBOURS
from yoro.research.peers.prompt_ensembles import PROMPT_ENSEMBLES
from yoro.research.peers.ridge import PROKER, RANPAC, RIDGE
from yoro.research.peers.scikit_learn import LOGISTIC, SKLEARN_LDA
from yoro.research.peers.tip_adapter import TIP_ADAPTER, TIP_ADAPTER_F
from yoro.user_code import import_attribute

PUBLISHED = tomllib.loads((files(__package__) / "published.toml").read_text("utf-8"))


def _as_published(method: Method) -> Method:
    """The method with what its authors set for single datasets."""
    rows = PUBLISHED.get(method.name, {})
    make: type[Any] | None = method.settings
    return replace(method, published={name: make(**row) for name, row in rows.items()}) if make else method


METHODS: dict[str, Method] = {
    method.name: _as_published(method)
    for method in (
        *BDM, *LABEL_MAPPINGS, NEAREST_MEAN, NEAREST_NEIGHBOURS, RIDGE, LOGISTIC, SKLEARN_LDA, DEEP_SLDA, RANPAC, GDA,
        TIP_ADAPTER, TIP_ADAPTER_F, APE, TIMO, TIMO_S, LP_PLUS_PLUS, PROKER, *PROMPT_ENSEMBLES,
    )
}  # fmt: skip


def find_methods(names: Sequence[str] | None = None) -> list[Method]:
    """The methods of these names in the order of the registry, then users' own; all of them without names."""
    if names is None:
        return list(METHODS.values())
    if not names:
        raise InputError(f"No method was given; choose from {', '.join(METHODS)}.")
    own = [import_method(name) for name in dict.fromkeys(names) if name not in METHODS]
    return [*(method for method in METHODS.values() if method.name in set(names)), *own]


def import_method(name: str) -> Method:
    """A user's own method, `module:ATTRIBUTE`, under that name."""
    if ":" not in name:
        raise InputError(f"Unknown method {name!r}. {did_you_mean(name, METHODS)}")
    return replace(import_attribute(name, Method), name=name)
