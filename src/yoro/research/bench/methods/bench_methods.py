"""Every method of the bench by its name, with its options and what it costs.

A method is run on a `Context`: images, responses and texts of one dataset, setting and seed. Methods that fit
responses are those of `research/peers`. What trains a prompt needs torch, which is imported when such a method runs. A
user's own is named `module:ATTRIBUTE`, a `Method` as those of `research/peers`. The label mappings that both train and
fit in one pass are trained here under their own name, and fitted under `one-pass-NAME`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from yoro.errors import InputError, did_you_mean
from yoro.refining.mapping_updates import make_policy
from yoro.refining.settings import RefineSettings
from yoro.research.baselines import published
from yoro.research.baselines.published import CLIP_METHODS, LABEL_MAPPINGS
from yoro.research.bench.context import Answer, Context
from yoro.research.bench.methods.one_pass_methods import fit_responses, run_one_pass
from yoro.research.peers.method import Method
from yoro.research.peers.methods import METHODS as PEERS
from yoro.research.peers.methods import import_method

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
PEER_BANKS = {  # what the peers were published with; the others read the paper's bank
    **dict.fromkeys(("carprt", "mpe", "wpe"), ("templates carprt",)),  # they weigh templates
    **dict.fromkeys(("tip-adapter", "tip-adapter-f", "gda", "lp++"), ("sentence",)),
    **dict.fromkeys(("ape", "timo", "timo-s"), ("sentence", "cupl")),
}


@dataclass(frozen=True)
class NoOptions:
    """A method that has nothing to choose."""


@dataclass(frozen=True)
class FewPassOptions:
    """YORO-FP. None leaves a number to the protocol.

    epoch_zero : whether the predictor before training is a candidate, as the paper says; without, the best trained
        epoch is kept whatever it is worth, which is how the paper's legacy column was probably made.
    """

    epochs: int = RefineSettings.epochs
    mapping: str = RefineSettings.mapping
    beta: float = RefineSettings.beta
    protocol: str = "paper"  # where a refinement of the product has "default"
    learning_rate: float | None = RefineSettings.learning_rate
    batch_size: int | None = RefineSettings.batch_size
    augment: bool = RefineSettings.augment
    epoch_zero: bool = RefineSettings.epoch_zero

    def __post_init__(self) -> None:
        check(self.epochs, self.batch_size)
        make_policy(self.mapping)


@dataclass(frozen=True)
class TrainingOptions:
    """A label mapping that is trained with a prompt, on a classifier.

    select : what chooses the epoch: "validation" images, or the "test" images as in the published numbers.
    mapping_pass : whether an iterative mapping is gathered in a pass of its own, as published, or from the training.
    """

    epochs: int = published.EPOCHS
    batch_size: int | None = None  # None: 256, and 64 for DTD and Oxford Pets, as published
    select: str = "validation"
    mapping_pass: bool = True

    def __post_init__(self) -> None:
        check(self.epochs, self.batch_size, self.select)


@dataclass(frozen=True)
class ClipOptions:
    """A published reprogramming method for image-text models; the defaults are the published ones.

    prompts : of the clustered DVP. levels, scales, crops, projection_rate : of DGA.
    """

    epochs: int = published.EPOCHS
    select: str = "validation"
    nearest: int = published.NEAREST
    alpha: float = published.ALPHA
    prompts: int = published.PROMPTS
    levels: int = published.Granularity.levels
    scales: int = published.Granularity.scales
    crops: int = published.Granularity.crops
    projection_rate: float = published.PROJECTION_RATE
    learning_rate: float = published.CLIP_RATE

    def __post_init__(self) -> None:
        check(self.epochs, None, self.select)


def check(epochs: int, batch_size: int | None, select: str = "validation") -> None:
    """Raise if a number or word cannot be."""
    if not isinstance(epochs, int) or epochs < 0:
        raise InputError(f"epochs is {epochs!r}; expected a whole number of at least 0.")
    if batch_size is not None and (not isinstance(batch_size, int) or batch_size < 1):
        raise InputError(f"batch_size is {batch_size!r}; expected a whole number of at least 1.")
    if select not in ("validation", "test"):
        raise InputError(f"select is {select!r}; expected 'validation', or 'test' as in the published numbers.")


@dataclass(frozen=True)
class BenchMethod:
    """A method: how it is run with its options, and whether it trains a prompt (then `options` has epochs)."""

    name: str
    run: Callable[[Context, Any], Answer]  # given its `options`
    options: type[Any]  # a frozen dataclass
    trains: bool = False
    banks: tuple[str, ...] = BANK  # what it reads on an image-text source: kinds of banks, "sentence", "templates NAME"
    about: str = ""
    published: Mapping[str, object] = field(default_factory=dict, hash=False)  # options on single datasets
    edition: int = 1  # of what it computes

    def make_options(self, given: Mapping[str, Any], dataset: str = "") -> Any:
        """The options as the method takes them on a dataset; an error names the nearest of a name that is none.

        What is not given is as published for the dataset, or else at its default.
        """
        known = {field.name: field for field in fields(self.options)}
        for name in given:
            if name not in known:
                raise InputError(f"The method {self.name!r} has no option {name!r}. {did_you_mean(name, known)}")
        usual: Any = self.published.get(dataset.lower()) or self.options()
        return replace(usual, **given)


def from_peer(name: str, method: Method) -> BenchMethod:
    """A method of the peers on the bench."""
    return BenchMethod(
        name, partial(fit_responses, method), method.settings or NoOptions, banks=PEER_BANKS.get(name, BANK),
        about=method.about, published=method.published, edition=method.edition,
    )  # fmt: skip


def _run_few_pass(context: Context, options: FewPassOptions) -> Answer:
    from yoro.research.bench.methods.training import run_few_pass

    return run_few_pass(context, options)


def _run_label_mapping(method: str, context: Context, options: TrainingOptions) -> Answer:
    from yoro.research.bench.methods.training import run_label_mapping

    return run_label_mapping(method, context, options)


def _run_clip(method: str, context: Context, options: ClipOptions) -> Answer:
    from yoro.research.bench.methods.training import run_clip

    return run_clip(method, context, options)


def _all_methods() -> dict[str, BenchMethod]:
    listed: list[BenchMethod] = [
        BenchMethod("yoro", run_one_pass, NoOptions, about="the paper's one pass"),
        BenchMethod("yoro-fp", _run_few_pass, FewPassOptions, trains=True, about="the pass, refined"),
    ]
    for method in LABEL_MAPPINGS:
        run, about = partial(_run_label_mapping, method), f"{method.upper()}, trained with its prompt"
        listed.append(BenchMethod(method, run, TrainingOptions, trains=True, about=about))
    for method in CLIP_METHODS:
        name = f"clip-{method}" if method in LABEL_MAPPINGS else method
        train, about = partial(_run_clip, method), f"{method} for image-text models, trained"
        banks = CLIP_BANKS.get(method, ())
        listed.append(BenchMethod(name, train, ClipOptions, trains=True, banks=banks, about=about))
    methods = {method.name: method for method in listed}
    peers = {f"one-pass-{name}" if name in methods else name: peer for name, peer in PEERS.items()}
    return methods | {name: from_peer(name, peer) for name, peer in peers.items()}


METHODS = _all_methods()


def find_method(name: str) -> BenchMethod:
    """The method of a name, or the one that `module:ATTRIBUTE` names."""
    if name in METHODS:
        return METHODS[name]
    if ":" not in name:
        raise InputError(f"{name!r} names no method. {did_you_mean(name, METHODS)}")
    return from_peer(name, import_method(name))
