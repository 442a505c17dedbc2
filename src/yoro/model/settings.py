"""What a user may choose, in small groups; each default stands here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from numbers import Integral
from pathlib import Path
from typing import Self

from yoro import limits
from yoro.discriminant.rules import check_prior, check_rule
from yoro.errors import InputError, did_you_mean
from yoro.text.settings import SentenceSettings

Tell = Callable[[str], None]  # called with each sentence for the user as soon as it is known

PROTOCOLS = ("default", "paper")
PRESETS = ("default", "fast", "best")
LARGER = ("embedded:lite2?side=320", "embedded:lite0?side=288")  # for "best": the first whose weights are installed


@dataclass(frozen=True)
class Loading:
    """How image files are read: settings that change the time it takes and never the numbers.

    batch_size : images read together.
    workers : processes that decode them; None is one for each core.
    strict : whether an image that cannot be read is an error.
    """

    batch_size: int = 32
    workers: int | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise InputError(f"The batch size is {self.batch_size}; expected at least 1.")
        if self.workers is not None and self.workers < 0:
            raise InputError(f"{self.workers} workers were asked for; expected 0 or more.")


HERE = Loading(workers=0)  # a library starts no process by itself
STRICT = Loading(workers=0, strict=True)


@dataclass(frozen=True)
class PipelineSettings:
    """How an image becomes a response.

    source : the frozen model that reads images, `prefix:rest`.
    read : at its "logits", its "features", or at "all" that one pass gives: these and pooled activations on the way.
    prompt, frame, image_side : "watermark", "padding" or "legacy-padding"; how a padding's frame starts ("grey",
        "black", "mean" or a number), and the side of the image within it.
    device : "auto", "cpu", "cuda" or "mps".
    views : 2 reads an image together with its mirror image, where that helps by leave-one-out.
    budget : calls that a source on the network may be sent, failed ones among them; None for as many as it takes.
    """

    source: str = "embedded:lite0"
    read: str = "all"
    prompt: str = "watermark"
    frame: str | float = "grey"
    image_side: int | None = None
    device: str = "auto"
    views: int = 1
    budget: int | None = None


def check_seed(seed: int) -> None:
    """Raise if a seed is larger than the generators take."""
    if abs(seed) > limits.SEED:
        raise InputError(f"The seed is {seed}; expected a whole number of at most {limits.SEED} in size.")


@dataclass(frozen=True)
class SolveSettings:
    """What decides the mapping once the responses are known.

    shrinkage : a rule's name ("loo", "validation", "k-fold", "oas", "rblw", "ledoit-wolf") or a number from 0 to 1.
    prior : class priors: "empirical", "uniform", or a weight for every class.
    protocol : "paper" is the paper and nothing else: the validation rule on its grid, logits, empirical priors,
        plain softmax.
    reservoir : how many individual responses are kept, to choose anew after a change.
    seed : of every draw.
    """

    shrinkage: str | float = "loo"
    prior: str | Mapping[str, float] = "empirical"
    protocol: str = "default"
    reservoir: int = 8192  # 33 MB of float32 at width 1000
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "shrinkage", check_rule(self.shrinkage))
        check_prior(self.prior)
        if isinstance(self.prior, Mapping):  # of classes that may be whole numbers
            object.__setattr__(self, "prior", {str(name): weight for name, weight in self.prior.items()})
        check_seed(self.seed)
        if not 0 <= self.reservoir <= limits.RESERVOIR_CAPACITY:
            most = f"{limits.RESERVOIR_CAPACITY:,}"
            raise InputError(f"A reservoir of {self.reservoir} was asked for; expected 0 to {most}.")
        if self.protocol not in PROTOCOLS:
            raise InputError(f"{self.protocol!r} is no protocol; expected 'default' or 'paper'.")
        if not self.paper:
            return
        if self.shrinkage not in ("loo", "validation") or self.prior != "empirical":
            raise InputError(
                "The paper's protocol chooses the shrinkage by validation and uses empirical priors; "
                "leave these options out."
            )
        object.__setattr__(self, "shrinkage", "validation")

    @property
    def paper(self) -> bool:
        """Whether this is the paper and nothing else."""
        return self.protocol == "paper"


@dataclass(frozen=True)
class ClusterSettings:
    """Where the pass runs; settings that change the time it takes and never the numbers.

    ray : None is this process; "local" a Ray of this machine, started for the run; "auto" or an address one that runs.
    ray_actors : copies of the source that read images beside each other; None is one for every `ray_threads` cores.
    ray_threads : threads of each.
    ray_block : images of a block, which is what a run that was ended loses and what is kept in memory at once.
    ray_storage : a folder or URL that every machine can write to, for what was gathered of each block; by default it
        is the checkpoint, which is right where all machines see the same disk.
    """

    ray: str | None = None
    ray_actors: int | None = None
    ray_threads: int = 1
    ray_block: int = 512  # 77 MB of pixels at a side of 224
    ray_storage: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("actors", self.ray_actors), ("threads", self.ray_threads), ("block", self.ray_block)):
            if value is not None and value < 1:
                raise InputError(f"The option ray_{name} is {value}; expected at least 1.")
        if self.ray_block > limits.CLUSTER_BLOCK:
            raise InputError(f"Blocks of {self.ray_block:,} images were asked for; at most {limits.CLUSTER_BLOCK:,}.")


def silence(_: str) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class FitSettings:
    """Everything a user may choose of a fit, in groups.

    preset : "fast" reads the features alone on a smaller canvas; "best" reads all of two views, with a larger network
        where its weights are installed, or on a larger canvas. What is chosen by name keeps its choice.
    shots : fit only this many images a class, drawn by the seed; beside them the rule "validation" draws at most four
        a class. 0 fits no image: an image-text source then answers by its sentences.
    refine : epochs of prompt training after the pass (YORO-FP; needs the extra torch). Validation images are then
        held out under every rule: they decide whether the refined model is returned, or the one-pass model unchanged.
    checkpoint, resume : a folder that keeps what was gathered so far, and whether to go on from it. It is the
        caller's to remove once the classifier is saved.
    progress : whether bars are shown on stderr.
    tell : called with each sentence for the user as soon as it is known.
    ledger : whether a digest of each image is kept. Without, a model of very many images stays small, and can neither
        forget nor tell which images it was fitted on.
    """

    pipeline: PipelineSettings = field(default_factory=PipelineSettings)
    solve: SolveSettings = field(default_factory=SolveSettings)
    sentences: SentenceSettings = field(default_factory=SentenceSettings)
    loading: Loading = HERE
    shots: int | None = None
    refine: int = 0
    checkpoint: Path | None = None
    resume: bool = False
    progress: bool = False
    tell: Tell = silence
    preset: str = "default"
    ledger: bool = True
    cluster: ClusterSettings = field(default_factory=ClusterSettings)

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise InputError(f"{self.preset!r} is no preset; expected one of {', '.join(PRESETS)}.")
        if self.preset != "default":
            if self.solve.paper:
                raise InputError(f"The paper's protocol is the paper and nothing else; leave {self.preset!r} out.")
            object.__setattr__(self, "pipeline", _preset(self.preset, self.pipeline))
        if self.solve.paper and (self.pipeline.read not in ("all", "logits") or self.pipeline.views != 1):
            raise InputError("The paper's protocol reads the logits of one view; leave the reading and the views out.")
        if self.pipeline.read == "all" and (self.solve.paper or self.refine):  # a prompt is trained for one reading
            object.__setattr__(self, "pipeline", replace(self.pipeline, read="logits"))
        if self.shots is not None and self.shots < 0:
            raise InputError(f"{self.shots} images a class were asked for; expected 0 or more.")
        if self.refine < 0:
            raise InputError(f"{self.refine} epochs of refinement were asked for; expected 0 or more.")

    @classmethod
    def of(cls, **options: object) -> Self:
        """The settings of options by their names, whichever group they belong to."""
        groups = {"pipeline": PipelineSettings, "solve": SolveSettings, "sentences": SentenceSettings}
        groups |= {"cluster": ClusterSettings}
        known = {f.name: (name, kind) for name, kind in groups.items() for f in fields(kind)}
        known |= {f.name: ("loading", Loading) for f in fields(Loading)}
        known |= {f.name: ("", cls) for f in fields(cls) if f.name not in (*groups, "loading")}
        chosen: dict[str, dict[str, object]] = {"": {}, "loading": {"workers": HERE.workers}}
        kinds = {f.name: str(f.type) for kind in (*groups.values(), Loading, cls) for f in fields(kind)}
        for name, value in options.items():
            if name not in known:
                raise InputError(f"There is no option {name!r}. {did_you_mean(name, known)}")
            _check_kind(name, value, kinds[name])
            chosen.setdefault(known[name][0], {})[name] = value
        made = {name: kind(**chosen.get(name, {})) for name, kind in {**groups, "loading": Loading}.items()}
        return cls(**made, **chosen[""])  # type: ignore[arg-type]


def _preset(name: str, chosen: PipelineSettings) -> PipelineSettings:
    """The settings with those of a preset in place of what is still at its default."""
    usual = PipelineSettings()
    if name == "fast":
        wanted: dict[str, object] = {"source": "embedded:lite0?side=192", "read": "features"}
    else:
        from yoro.sources.embedded import weight_file

        there = weight_file("lite2") is not None
        wanted = {"source": LARGER[0 if there else 1], "views": 2}
    free = {key: value for key, value in wanted.items() if getattr(chosen, key) == getattr(usual, key)}
    return replace(chosen, **free)  # type: ignore[arg-type]


def _check_kind(name: str, value: object, kind: str) -> None:
    """Raise if an option that is a whole number, or yes or no, is given as something else."""
    wanted = {"int": "a whole number", "int | None": "a whole number or None", "bool": "True or False"}
    if kind not in wanted or (value is None and "None" in kind):
        return
    if not isinstance(value, bool if kind == "bool" else Integral) or (kind != "bool" and isinstance(value, bool)):
        raise InputError(f"The option {name} is {value!r}; expected {wanted[kind]}.")
