"""Every method of the bench by its name, with its options and what it costs.

A method is run on a `Context`: images, responses and texts of one dataset, setting and seed. Methods that fit
responses are those of `yoro.peers`. What trains a prompt needs torch, which is imported when such a method runs. A
user's own is named `module:ATTRIBUTE`, a `Method` as those of `yoro.peers`. The label mappings that both train and
fit in one pass are trained here under their own name, and fitted under `one-pass-NAME`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Generic, TypeVar

from yoro.bench.context import Answer, Context
from yoro.bench.methods.one_pass import fit_responses, run_one_pass
from yoro.bench.methods.options import ClipOptions, FewPassOptions, NoOptions, TrainingOptions
from yoro.errors import InputError, did_you_mean
from yoro.peers.contract import Method
from yoro.peers.methods import METHODS as PEERS
from yoro.peers.methods import import_method
from yoro.refining.baselines.published import CLIP_METHODS, LABEL_MAPPINGS

OptionsType = TypeVar("OptionsType", NoOptions, FewPassOptions, TrainingOptions, ClipOptions)
BANK = ("des",)
TEMPLATES = ("templates imagenet",)
CLIP_BANKS = {  # what the methods for image-text models read; the others nothing
    "attrvr": ("des", "dist"),
    "dvp-cls": BANK,
    "dvp-cse": ("cse_1", "cse_2", "cse_3"),
    "autovp": TEMPLATES,
    "dga": ("des", "dist"),
    "blm": TEMPLATES,
    "blm+": TEMPLATES,
}
PEER_BANKS = dict.fromkeys(("carprt", "mpe", "wpe"), ("templates carprt",))  # they weigh templates


@dataclass(frozen=True)
class BenchMethod(Generic[OptionsType]):
    """A method: how it is run with its options, and whether it trains a prompt (then `options` has epochs)."""

    name: str
    run: Callable[[Context, OptionsType], Answer]
    options: type[OptionsType]
    trains: bool = False
    banks: tuple[str, ...] = BANK  # what it reads on an image-text source: kinds of banks, "templates NAME"
    about: str = ""

    def make_options(self, given: Mapping[str, Any]) -> OptionsType:
        """The options as the method takes them; an error names the nearest of a name that is none."""
        known = {field.name: field for field in fields(self.options)}
        for name in given:
            if name not in known:
                raise InputError(f"The method {self.name!r} has no option {name!r}. {did_you_mean(name, known)}")
        return self.options(**given)


def from_peer(name: str, method: Method) -> BenchMethod[NoOptions]:
    """A method of the peers on the bench."""
    run = partial(fit_responses, method)
    return BenchMethod(name, run, NoOptions, banks=PEER_BANKS.get(name, BANK), about=method.about)


def _few_pass(context: Context, options: FewPassOptions) -> Answer:
    from yoro.bench.methods.training import run_few_pass

    return run_few_pass(context, options)


def _label_mapping(method: str) -> BenchMethod[TrainingOptions]:
    def run(context: Context, options: TrainingOptions) -> Answer:
        from yoro.bench.methods.training import run_label_mapping

        return run_label_mapping(method, context, options)

    return BenchMethod(method, run, TrainingOptions, trains=True, about=f"{method.upper()}, trained with its prompt")


def _clip(method: str) -> BenchMethod[ClipOptions]:
    def run(context: Context, options: ClipOptions) -> Answer:
        from yoro.bench.methods.training import run_clip

        return run_clip(method, context, options)

    name = f"clip-{method}" if method in LABEL_MAPPINGS else method
    about = f"{method} for image-text models, trained"
    return BenchMethod(name, run, ClipOptions, trains=True, banks=CLIP_BANKS.get(method, ()), about=about)


YORO = BenchMethod("yoro", run_one_pass, NoOptions, about="the paper's one pass")
YORO_FP = BenchMethod("yoro-fp", _few_pass, FewPassOptions, trains=True, about="the pass, refined")


def _all_methods() -> dict[str, BenchMethod[Any]]:
    listed: list[BenchMethod[Any]] = [
        YORO, YORO_FP, *map(_label_mapping, LABEL_MAPPINGS), *map(_clip, CLIP_METHODS)
    ]  # fmt: skip
    methods = {method.name: method for method in listed}
    peers = {f"one-pass-{name}" if name in methods else name: method for name, method in PEERS.items()}
    return methods | {name: from_peer(name, method) for name, method in peers.items()}


METHODS = _all_methods()


def find_method(name: str) -> BenchMethod[Any]:
    """The method of a name, or the one that `module:ATTRIBUTE` names."""
    if name in METHODS:
        return METHODS[name]
    if ":" not in name:
        raise InputError(f"{name!r} names no method. {did_you_mean(name, METHODS)}")
    return from_peer(name, import_method(name))
