"""The options of a fit, in groups; `yoro.fit`, the command line and the documentation take them from here."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from yoro import limits
from yoro.discriminant.rules import check_prior, check_rule
from yoro.environment import has_dot_products
from yoro.errors import InputError, did_you_mean
from yoro.option import check_choice, check_range, declared, option
from yoro.text.settings import SentenceSettings

Tell = Callable[[str], None]  # called with each sentence for the user as soon as it is known

PROTOCOLS = ("default", "paper")
PRESETS = ("default", "fast", "best")
# For "best": those whose weights are installed; and the default's network on a larger input in place of Lite2.
DEFAULT_SOURCE = "embedded:lite0?grids=yes"
BEST = (
    DEFAULT_SOURCE,
    "embedded:lite2?grids=yes",
    "embedded:pplcnet-v2",
    "embedded:mobilenet-v2?grids=yes",
)
LARGER = "embedded:lite0?side=288&grids=yes"
FAST_WITH_GRADIENTS = "embedded:lite0?side=160&grids=only"  # where a prompt is to be trained afterwards


@dataclass(frozen=True)
class Loading:
    """How image files are read: settings that affect speed, never results."""

    batch_size: int = option(32, "Images per batch.", expert=True)
    workers: int | None = option(
        None,
        "Decoding processes (default: one per core).",
        "0 decodes in this process, without the kernel's limits: for images that you trust.",
        expert=True,
    )
    strict: bool = option(False, "Stop at the first image that cannot be read.", expert=True)

    def __post_init__(self) -> None:
        check_range("batch_size", self.batch_size, 1, limits.BATCH)
        check_range("workers", self.workers, 0, limits.PROCESSES)


USUAL = Loading()
STRICT = Loading(strict=True)


@dataclass(frozen=True)
class PipelineSettings:
    """How an image becomes a response."""

    source: str = option(
        DEFAULT_SOURCE,
        "Backbone that reads the images; `yoro models` lists them.",
        "Several are joined by '+', in Python also a list; leave-one-out weighs them.",
        metavar="S",
    )
    read: str = option(
        "all",
        "Layers to read; 'all' combines several.",
        "All of them come from one forward pass; their ensemble weights are chosen by leave-one-out.",
        metavar="all|logits|features",
        expert=True,
    )
    prompt: str = option("watermark", "Visual prompt: watermark, padding or legacy-padding.", metavar="P", expert=True)
    frame: str | float = option(
        "grey", "Initial frame of a padding prompt: grey, black, mean or a number.", metavar="START", expert=True
    )
    image_side: int | None = option(None, "Side of the image inside a padding prompt, in pixels.", expert=True)
    device: str = option("auto", "auto, cpu, cuda or mps.", metavar="D", expert=True)
    views: int = option(
        1, "2 also reads the mirror image, if that helps.", "Leave-one-out decides.", metavar="1|2", expert=True
    )
    budget: int | None = option(
        None, "Maximum number of API calls, failures included.", "None is no limit.", metavar="N", expert=True
    )
    published: bool = False  # pixels as torchvision's transforms see them (see Geometry); the paper's protocol sets it


@dataclass(frozen=True)
class SolveSettings:
    """What decides the mapping once the responses are known."""

    shrinkage: str | float = option(
        "loo",
        "How to choose the shrinkage: loo, validation, k-fold, oas, rblw, ledoit-wolf, or a number from 0 to 1.",
        metavar="RULE",
        expert=True,
    )
    prior: str | Mapping[str, float] = option(
        "empirical",
        "Class priors.",
        "In Python also a weight for every class.",
        metavar="empirical|uniform",
        expert=True,
    )
    protocol: str = option(
        "default",
        "'paper' follows the paper exactly.",
        "That is: shrinkage by validation on its grid, logits, empirical priors, plain softmax; images decoded as "
        "torchvision does, at full scale and without EXIF rotation.",
        metavar="default|paper",
        expert=True,
    )
    reservoir: int = option(
        8192,
        "Individual responses to keep, so that the shrinkage can be chosen again after a change.",
        "On the command line: --no-reservoir.",
        expert=True,
        python_only=True,
    )  # 33 MB of float32 at width 1000
    seed: int = option(0, "Random seed.", expert=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shrinkage", check_rule(self.shrinkage))
        check_prior(self.prior)
        if isinstance(self.prior, Mapping):  # of classes that may be whole numbers
            object.__setattr__(self, "prior", {str(name): weight for name, weight in self.prior.items()})
        check_range("seed", self.seed, -limits.SEED, limits.SEED)
        check_range("reservoir", self.reservoir, 0, limits.RESERVOIR_CAPACITY)
        check_choice("protocol", self.protocol, PROTOCOLS)
        if not self.paper:
            return
        if self.shrinkage not in ("loo", "validation") or self.prior != "empirical":
            raise InputError(
                "The paper's protocol chooses the shrinkage by validation and uses empirical priors; "
                "remove the options shrinkage and prior."
            )
        object.__setattr__(self, "shrinkage", "validation")

    @property
    def paper(self) -> bool:
        """Whether the paper is followed exactly."""
        return self.protocol == "paper"


@dataclass(frozen=True)
class ClusterSettings:
    """Where the pass runs: settings that affect speed, never results."""

    ray: str | None = option(
        None,
        "Run on Ray: 'local' (the default) starts one here; or 'auto', or an address.",
        "None runs in this process; 'auto' finds a Ray cluster that is running.",
        metavar="[ADDRESS]",
        expert=True,
    )
    ray_actors: int | None = option(
        None, "Copies of the backbone.", "By default one for every `ray_threads` cores.", expert=True
    )
    ray_threads: int = option(1, "Threads of each copy.", expert=True)
    ray_block: int = option(
        512,
        "Images per block.",
        "A block is what an interrupted run loses, and what is held in memory at once.",
        metavar="N",
        expert=True,
    )  # 77 MB of pixels at a side of 224
    ray_storage: str | None = option(
        None,
        "Folder or URL for intermediate results that every machine can write to.",
        "By default the checkpoint, which is right where all machines share a disk.",
        metavar="URL",
        expert=True,
    )

    def __post_init__(self) -> None:
        check_range("ray_actors", self.ray_actors, 1, limits.CLUSTER_ACTORS)
        check_range("ray_threads", self.ray_threads, 1, limits.PROCESSES)
        check_range("ray_block", self.ray_block, 1, limits.CLUSTER_BLOCK)


def silence(_: str) -> None:
    """Ignore a message."""


@dataclass(frozen=True)
class FitSettings:
    """All options of a fit."""

    preset: str = option(
        "default",
        '"fast" or "best", or "default" between them.',
        '"fast" reads fewer layers in 8-bit arithmetic, on a canvas that leave-one-out chooses (of another source: its '
        'features); "best" combines several networks, those that are installed, and a larger input. Options given '
        "explicitly win. As options: --fast, --best.",
        python_only=True,
    )
    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    shots: int | None = option(
        None,
        "Use K random images per class (0 = zero-shot).",
        'The rule "validation" draws up to four more per class. Zero-shot needs an image-text backbone.',
        metavar="K",
    )
    refine: int = option(
        0,
        "Then train a visual prompt for this many epochs; kept only if validation improves.",
        "This is YORO-FP; it needs the extra torch. It is judged on the validation images, or on a tenth of each "
        "class; without a gain, the result is the classifier that fit gives otherwise.",
        metavar="EPOCHS",
    )
    loading: Loading = USUAL
    resume: bool = option(False, "Resume an interrupted run.")
    checkpoint: Path | None = option(
        None, "Folder for checkpoints to resume from; remove it once the classifier is saved.", python_only=True
    )
    progress: bool = option(False, "Show progress bars on stderr.", python_only=True)
    tell: Tell = option(
        silence,
        "Function called with each message as soon as it is known; by default the logger `yoro`.",
        python_only=True,
    )
    ledger: bool = option(
        True,
        "Store an image hash, so that it can be forgotten or recognised later.",
        "Without, a model of very many images stays small.",
        expert=True,
    )
    solve: SolveSettings = field(default_factory=SolveSettings)
    sentences: SentenceSettings = field(default_factory=SentenceSettings)
    cluster: ClusterSettings = field(default_factory=ClusterSettings)

    def __post_init__(self) -> None:
        check_choice("preset", self.preset, PRESETS)
        if self.preset != "default":
            if self.solve.paper:
                raise InputError(f"The paper's protocol has no presets; remove {self.preset!r}.")
            object.__setattr__(self, "pipeline", _preset(self))
        if self.solve.paper and (self.pipeline.read not in ("all", "logits") or self.pipeline.views != 1):
            raise InputError("The paper's protocol reads the logits of one view; remove the options read and views.")
        if self.solve.paper:
            plain = self.pipeline.source.removesuffix("?grids=yes")  # logits have no grids
            object.__setattr__(self, "pipeline", replace(self.pipeline, source=plain, read="logits", published=True))
        check_range("shots", self.shots, 0)
        check_range("refine", self.refine, 0, limits.EPOCHS)

    @classmethod
    def of(cls, **options: object) -> Self:
        """The settings of options by their names, whichever group they belong to."""
        known, chosen = {one.name: one for one in declared(cls)}, dict[str, dict[str, object]]()
        for name, value in options.items():
            if name not in known:
                raise InputError(elsewhere(name) or f"Unknown option {name!r}. {did_you_mean(name, known)}")
            known[name].check(value)
            joined = "+".join(map(str, value)) if name == "source" and isinstance(value, list | tuple) else value
            chosen.setdefault(known[name].group, {})[name] = joined
        usual, own = cls(), chosen.pop("", {})
        groups = {group: replace(getattr(usual, group), **values) for group, values in chosen.items()}
        return cls(**groups, **own)  # type: ignore[arg-type]


def elsewhere(name: str) -> str:
    """An answer to options that people expect of `fit` and that are elsewhere, with or without dashes; else empty.

    >>> elsewhere("epochs")
    'A fit is one pass and has no epochs; refine=N trains a visual prompt for N epochs after it.'
    """
    words = name.startswith("--")
    bare = name.removeprefix("--").replace("-", "_")
    if bare in ("epochs", "lr", "learning_rate"):
        refine = "--refine N" if words else "refine=N"
        return f"A fit is one pass and has no {name}; {refine} trains a visual prompt for N epochs after it."
    if bare in ("model", "backbone"):
        source = "--source" if words else "source=NAME"
        return f"The backbone is chosen with {source}; `yoro models` lists them."
    return ""


def preset_note(settings: FitSettings) -> str:
    """Which networks "best" combines and what would add to them; empty for other sources."""
    if settings.preset != "best" or settings.pipeline.source != best_source():
        return ""
    from yoro.sources.embedded import NETWORKS
    from yoro.sources.names import network_name

    here = settings.pipeline.source.split("+")
    lacking = [network_name(name) for name in BEST if name not in here]
    told = f"Best: combining {', '.join(here)}."
    if not lacking:
        return told
    commands = "; ".join(NETWORKS[name].install for name in lacking)
    return f"{told} More accurate with {', '.join(lacking)} ({commands})."


def fast_sources() -> tuple[str, ...]:
    """What "fast" may read on this processor, the cheapest first; the last needs no evidence.

    Without instructions for sums of products of bytes, 8-bit arithmetic saves little; a smaller canvas does.
    """
    if has_dot_products():
        return tuple(f"embedded:lite0?side={side}&grids=only&int8=yes" for side in (160, 176, 208))
    return (*(f"embedded:lite0?side={side}&grids=only" for side in (128, 144)), FAST_WITH_GRADIENTS)


def best_source() -> str:
    """The networks of "best" whose weights are installed."""
    from yoro.sources.embedded import weight_file
    from yoro.sources.names import network_name

    here = [name for name in BEST if name == BEST[0] or weight_file(network_name(name)) is not None]
    return "+".join(here if BEST[1] in here else [*here, LARGER])


def _preset(settings: FitSettings) -> PipelineSettings:
    """The settings with those of a preset in place of what is still at its default."""
    usual, chosen, fast = PipelineSettings(), settings.pipeline, settings.preset == "fast"
    quick = FAST_WITH_GRADIENTS if settings.refine else fast_sources()[-1]
    wanted: dict[str, object] = {"source": quick if fast else best_source()}
    if fast and chosen.source not in (usual.source, FAST_WITH_GRADIENTS, *fast_sources()):
        wanted = {"read": "features"}
    free = {key: value for key, value in wanted.items() if getattr(chosen, key) == getattr(usual, key)}
    return replace(chosen, **free)  # type: ignore[arg-type]
