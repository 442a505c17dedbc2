"""The methods of the bench by name, with their options.

A method runs on a `Context`: the images, responses and texts of one dataset, setting and seed. Methods that fit
responses are those of `research/peers`; methods that train a prompt are in `training`, which imports torch and is
loaded when one of them runs. A user's own method, `module:ATTRIBUTE`, is a `Method` as those of `research/peers`. Label
mappings that can be trained or fitted in one pass are trained under their own name and fitted under `one-pass-NAME`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from yoro.errors import InputError, did_you_mean
from yoro.mappings.batches import class_codes
from yoro.model.gathered import Gathered
from yoro.model.model import Model
from yoro.model.one_pass import gather
from yoro.model.settings import SolveSettings
from yoro.model.solve import solve
from yoro.refining.recipe import weight_of_old
from yoro.refining.settings import RefineSettings
from yoro.research.baselines import published
from yoro.research.baselines.published import CLIP_METHODS, LABEL_MAPPINGS, ClipOptions, check_training
from yoro.research.bench.context import Context, labels
from yoro.research.bench.results import CellFigures
from yoro.research.peers.discriminants import RetainedScores
from yoro.research.peers.method import Method, check_scores, correct, make_ready
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
    """A method without options."""


@dataclass(frozen=True)
class FewPassOptions:
    """YORO-FP; None takes the protocol's number."""

    epochs: int = RefineSettings.epochs
    mapping: str = RefineSettings.mapping
    beta: float = RefineSettings.beta
    protocol: str = "paper"  # where a refinement of the product has "default"
    learning_rate: float | None = RefineSettings.learning_rate
    batch_size: int | None = RefineSettings.batch_size
    augment: bool = RefineSettings.augment
    # Whether the predictor before training is a candidate, as the paper says; if not, the best trained epoch is
    # always kept, which is probably how the paper's legacy column was made.
    epoch_zero: bool = RefineSettings.epoch_zero
    flip: bool | None = None  # random mirroring; None: as is right for the dataset, always for a user's own
    mixed_precision: bool = False  # half precision where torch deems it safe, with a scaled loss

    def __post_init__(self) -> None:
        check_training(self.epochs, self.batch_size)
        weight_of_old(self.mapping)


@dataclass(frozen=True)
class LabelMappingOptions:
    """A label mapping that is trained with a prompt, on a classifier."""

    epochs: int = published.EPOCHS
    batch_size: int | None = None  # None: 256, and 64 for DTD and Oxford Pets, as published
    select: str = "validation"  # the images that choose the epoch; "test" as in the published numbers
    mapping_pass: bool = True  # gather an iterative mapping in a pass of its own, as published, or during training
    mixed_precision: bool = False

    def __post_init__(self) -> None:
        check_training(self.epochs, self.batch_size, self.select)


@dataclass(frozen=True)
class BenchMethod:
    """A method, its options, and whether it trains a prompt (then `options` has epochs)."""

    name: str
    run: Callable[[Context, Any], CellFigures]  # given its `options`
    options: type[Any]  # a frozen dataclass
    trains: bool = False
    banks: tuple[str, ...] = BANK  # what it reads on an image-text source: kinds of banks, "sentence", "templates NAME"
    about: str = ""
    published: Mapping[str, object] = field(default_factory=dict, hash=False)  # options on single datasets
    edition: int = 1  # of what it computes

    def make_options(self, given: Mapping[str, Any], dataset: str = "") -> Any:
        """The options on a dataset: those given, else those published for the dataset, else the defaults."""
        known = {field.name: field for field in fields(self.options)}
        for name in given:
            if name not in known:
                raise InputError(f"The method {self.name!r} has no option {name!r}. {did_you_mean(name, known)}")
        usual: Any = self.published.get(dataset.lower()) or self.options()
        return replace(usual, **given)


def from_peer(name: str, method: Method) -> BenchMethod:
    """A peer method on the bench."""
    return BenchMethod(
        name, partial(fit_responses, method), method.settings or NoOptions, banks=PEER_BANKS.get(name, BANK),
        about=method.about, published=method.published, edition=method.edition,
    )  # fmt: skip


def fit_one_pass(context: Context) -> tuple[Model, float]:
    """The paper's one-pass predictor by the product's own path, and the seconds that it took after the pass."""
    validation, words = context.validation, context.words  # texts are encoded before the clock starts
    if validation is None:
        raise InputError("There are no validation images to choose the shrinkage with.")
    started = time.perf_counter()
    gathered, settings = Gathered(), SolveSettings(protocol="paper")
    with threadpool_limits(1, user_api="blas"):
        gather(gathered, context.cache.stream(context.drawn.train))
        model = solve(gathered, settings, context.pipeline.origin(), evidence=validation, words=words)
    return model, time.perf_counter() - started


def run_one_pass(context: Context, _: object) -> CellFigures:
    """YORO: one pass, the shrinkage by validation."""
    model, seconds = fit_one_pass(context)
    train, held, test = context.drawn.train, context.drawn.val, context.drawn.test
    return CellFigures(
        context.right(model, test), len(train), context.pass_seconds + seconds, 1,
        (context.right(model, held), len(held)), shrinkage=model.choice.shrinkage,
        widths=(model.statistics.width, model.statistics.width if model.words is None else len(model.words.vectors)),
    )  # fmt: skip


def run_with_pile(context: Context, _: object) -> CellFigures:
    """The product's own fit, leave-one-out and all, of the labelled images and the pile; nothing is validated on."""
    drawn, words, seed = context.drawn, context.words, context.cell.seed
    if not drawn.pile:
        raise InputError("There is no pile. Give the plan or setting one: pile = 50 (images a class).")
    settings = SolveSettings()
    started = time.perf_counter()
    with threadpool_limits(1, user_api="blas"):
        gathered = Gathered.empty(settings.reservoir, seed)
        gather(gathered, context.cache.stream(drawn.train))
        gathered.add_unlabelled(context.cache.stream(drawn.pile), SolveSettings.reservoir, seed)
        model = solve(gathered, settings, context.pipeline.origin(), words=words)
    seconds = context.pass_seconds + context.cache.seconds_of(drawn.pile) + time.perf_counter() - started
    return CellFigures(context.right(model, drawn.test), len(drawn.train), seconds, 1, shrinkage=model.choice.shrinkage)


def fit_responses(method: Method, context: Context, settings: object) -> CellFigures:
    """A method of `yoro.research.peers` on the shared responses; one that trains goes over them once an epoch."""
    task, test = context.task(), context.drawn.test
    if getattr(settings, "images", "train") == "test":  # as published; the labels of the test images stay unread
        task = replace(task, tested=context.cache.responses(test).astype(np.float64))
    make_ready(method, task)
    views = getattr(settings, "views", 1)
    with threadpool_limits(1, user_api="blas"):
        started = time.perf_counter()
        if views > 1:
            task = replace(task, responses=context.viewed(views).astype(np.float64))
        scorer = method.fit(task) if method.settings is None else method.fit(task, settings)
        seconds = time.perf_counter() - started
        scores = scorer(context.cache.responses(test).astype(np.float64))
    check_scores(scores, len(test), len(task.classes))
    right = correct(scores, class_codes(labels(test).tolist(), task.classes))
    passes = getattr(settings, "epochs", method.passes)
    figures = CellFigures(right, len(task.truth), context.pass_seconds + seconds, passes)
    if isinstance(scorer, RetainedScores):
        return replace(figures, shrinkage=scorer.shrinkage, retained=scorer.share)
    return figures


def _run_trained(runner: str, *given: object) -> CellFigures:
    """Run a function of `training`, which imports torch."""
    run: Callable[..., CellFigures] = getattr(import_module("yoro.research.bench.methods.training"), runner)
    return run(*given)


def _all_methods() -> dict[str, BenchMethod]:
    listed: list[BenchMethod] = [
        BenchMethod("yoro", run_one_pass, NoOptions, about="the paper's one pass"),
        BenchMethod("yoro-pile", run_with_pile, NoOptions, about="the product's fit, with unlabelled images too"),
        BenchMethod(
            "yoro-fp", partial(_run_trained, "run_few_pass"), FewPassOptions, trains=True, about="the pass, refined"
        ),
    ]
    for method in LABEL_MAPPINGS:
        run, about = partial(_run_trained, "run_label_mapping", method), f"{method.upper()}, trained with its prompt"
        listed.append(BenchMethod(method, run, LabelMappingOptions, trains=True, about=about))
    for method in CLIP_METHODS:
        name = f"clip-{method}" if method in LABEL_MAPPINGS else method
        train, about = partial(_run_trained, "run_clip", method), f"{method} for image-text models, trained"
        banks = CLIP_BANKS.get(method, ())
        listed.append(BenchMethod(name, train, ClipOptions, trains=True, banks=banks, about=about))
    methods = {method.name: method for method in listed}
    peers = {f"one-pass-{name}" if name in methods else name: peer for name, peer in PEERS.items()}
    return methods | {name: from_peer(name, peer) for name, peer in peers.items()}


METHODS = _all_methods()


def find_method(name: str) -> BenchMethod:
    """The method of a name, or the one that `module:ATTRIBUTE` names."""
    if name not in METHODS and ":" not in name:
        raise InputError(f"Unknown method {name!r}. {did_you_mean(name, METHODS)}")
    return METHODS.get(name) or from_peer(name, import_method(name))
