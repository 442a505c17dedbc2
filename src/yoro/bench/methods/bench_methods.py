"""Every method of the bench by its name, with its options and what it costs.

A method is run on a `Ground`: images, responses and texts of one dataset, setting and seed. Methods that fit
responses are those of `yoro.peers`; methods that train a prompt are in the files named by `run`. A user's own is
named `module:ATTRIBUTE`, a `Method` as those of `yoro.peers`. The label mappings that both train and fit in one pass
are trained here under their own name, and fitted under `one-pass-NAME`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any

from yoro.bench.cells import Scalar
from yoro.bench.methods.options import ClipOptions, FewPassOptions, NoOptions, TrainingOptions
from yoro.errors import InputError, did_you_mean
from yoro.peers.contract import Method
from yoro.peers.methods import METHODS as PEERS
from yoro.peers.methods import import_method

if TYPE_CHECKING:
    from yoro.bench.context import Answer, Ground

CLASSIFIER_BASELINES = ("rlm", "flm", "ilm", "blm", "blm+", "deep")
CLIP_BASELINES: dict[str, tuple[str, ...]] = {  # with the banks that each reads
    "vp": (),
    "ar": (),
    "attrvr": ("des", "dist"),
    "dvp-cls": ("des",),
    "dvp-cse": ("cse_1", "cse_2", "cse_3"),
    "autovp": ("templates imagenet",),
    "dga": ("des", "dist"),
    "clip-blm": ("templates imagenet",),
    "clip-blm+": ("templates imagenet",),
}
PEER_BANKS = dict.fromkeys(("carprt", "mpe", "wpe"), ("templates carprt",))  # they weigh templates


@dataclass(frozen=True)
class BenchMethod:
    """A method: how it is run with its options, and whether it trains a prompt (then `options` has epochs)."""

    name: str
    run: Callable[[Ground, Any], Answer]
    options: type = NoOptions
    trains: bool = False
    banks: tuple[str, ...] = ("des",)  # what it reads on an image-text source: kinds of banks, "templates NAME"
    about: str = ""

    def make_options(self, given: Mapping[str, Scalar]) -> Any:
        """The options as the method takes them; an error names the nearest of a name that is none."""
        known = {field.name: field for field in fields(self.options)}
        for name in given:
            if name not in known:
                raise InputError(f"The method {self.name!r} has no option {name!r}. {did_you_mean(name, known)}")
        return self.options(**given)


def _later(module: str, function: str) -> Callable[..., Any]:
    """A function of a module that needs torch, imported when it is first called."""

    def call(*arguments: Any, **named: Any) -> Any:
        return getattr(importlib.import_module(module), function)(*arguments, **named)

    return call


def from_peer(name: str, method: Method) -> BenchMethod:
    """A method of the peers on the bench."""
    run = partial(_later("yoro.bench.context", "fit_responses"), method)
    return BenchMethod(name, run, banks=PEER_BANKS.get(name, ("des",)), about=method.about)


def _label_mapping(name: str) -> BenchMethod:
    run = partial(_later("yoro.bench.methods.label_mappings", "run"), name)
    return BenchMethod(name, run, TrainingOptions, trains=True, about=f"{name.upper()}, trained with its prompt")


def _clip(name: str) -> BenchMethod:
    run = partial(_later("yoro.bench.methods.clip", "run"), name)
    about = f"{name.removeprefix('clip-')} for image-text models, trained"
    return BenchMethod(name, run, ClipOptions, trains=True, banks=CLIP_BASELINES[name], about=about)


METHODS: dict[str, BenchMethod] = {
    "yoro": BenchMethod("yoro", _later("yoro.bench.context", "run_one_pass"), about="the paper's one pass"),
    "yoro-fp": BenchMethod(
        "yoro-fp", _later("yoro.bench.methods.few_pass", "run"), FewPassOptions, trains=True, about="the pass, refined"
    ),
    **{name: _label_mapping(name) for name in CLASSIFIER_BASELINES},
    **{name: _clip(name) for name in CLIP_BASELINES},
}
for _name, _method in PEERS.items():
    _known = f"one-pass-{_name}" if _name in METHODS else _name
    METHODS[_known] = from_peer(_known, _method)


def find_method(name: str) -> BenchMethod:
    """The method of a name, or the one that `module:ATTRIBUTE` names."""
    if name in METHODS:
        return METHODS[name]
    if ":" not in name:
        raise InputError(f"{name!r} names no method. {did_you_mean(name, METHODS)}")
    return from_peer(name, import_method(name))
