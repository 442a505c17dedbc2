"""Every method by its name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from yoro.errors import InputError
from yoro.peers.ape import APE
from yoro.peers.carprt import CARPRT
from yoro.peers.contract import Method
from yoro.peers.deep_slda import DEEP_SLDA
from yoro.peers.discriminants import BDM
from yoro.peers.gda import GDA
from yoro.peers.label_mappings import LABEL_MAPPINGS
from yoro.peers.lda import SKLEARN_LDA
from yoro.peers.logistic import LOGISTIC
from yoro.peers.lpplusplus import LP_PLUS_PLUS
from yoro.peers.mpe import MPE
from yoro.peers.nearest_mean import NEAREST_MEAN
from yoro.peers.nearest_neighbours import NEAREST_NEIGHBOURS
from yoro.peers.proker import PROKER
from yoro.peers.ranpac import RANPAC
from yoro.peers.ridge import RIDGE
from yoro.peers.timo import TIMO, TIMO_S
from yoro.peers.tip_adapter import TIP_ADAPTER
from yoro.peers.tip_adapter_f import TIP_ADAPTER_F
from yoro.peers.wpe import WPE

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        *BDM, *LABEL_MAPPINGS, NEAREST_MEAN, NEAREST_NEIGHBOURS, RIDGE, LOGISTIC, SKLEARN_LDA, DEEP_SLDA, RANPAC, GDA,
        TIP_ADAPTER, TIP_ADAPTER_F, APE, TIMO, TIMO_S, LP_PLUS_PLUS, PROKER, MPE, WPE, CARPRT,
    )
}  # fmt: skip


def find_methods(names: Sequence[str] | None = None) -> list[Method]:
    """The methods of these names, in the order of the registry; all of them without names."""
    if names is None:
        return list(METHODS.values())
    if not names:
        raise InputError(f"No method was named. There are {', '.join(METHODS)}.")
    for name in names:
        if name not in METHODS:
            near = difflib.get_close_matches(name, METHODS, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(METHODS)}."
            raise InputError(f"{name!r} names no method. {hint}")
    return [method for method in METHODS.values() if method.name in set(names)]
