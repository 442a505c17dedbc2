"""The options that verbs share, in groups: a group is declared once, and its defaults are those of what it sets.

A verb takes a group as one parameter; the command line shows its fields as options.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from yoro.model.settings import ClusterSettings, FitSettings, Loading, PipelineSettings, SolveSettings
from yoro.text.settings import SentenceSettings

if TYPE_CHECKING:
    from yoro.sources.protocol import Calls

ModelPath = Annotated[Path, Parameter(help="A saved model.", name="M.yoro")]
Out = Annotated[Path, Parameter(metavar="M.yoro", help="Where to write the model.")]
Elsewhere = Annotated[Path | None, Parameter(metavar="N.yoro", help="Write the changed model here, not in place.")]
Attributes = Annotated[
    str | None, Parameter(metavar="BANK", help="Sentences for an image-text source: a JSON file, templates or names.")
]
Budget = Annotated[
    int | None, Parameter(metavar="N", help="At most N calls to a source on the network, failed ones among them.")
]

READING = Group("How images are read", sort_key=20)
SOURCE = Group("The frozen model", sort_key=30)
SENTENCES = Group("Sentences of an image-text source, for experts", sort_key=41)
SOLVING = Group("The mapping, for experts", sort_key=40)
OUTPUT = Group("Output", sort_key=10)
CLUSTER = Group("On many cores or machines, by Ray", sort_key=35)


class UsageError(Exception):
    """What was typed cannot be meant; the exit code is 2."""


def flag(help: str, *names: str) -> Parameter:
    """A switch that is off unless it is named."""
    return Parameter(name=names or None, help=help, negative=(), show_default=False)


def switch(help: str, group: Group | None = None) -> Parameter:
    """A switch with a --no- form."""
    plain = Parameter(help=help, negative_bool="no-")
    return plain if group is None else Parameter.combine(plain, Parameter(group=group))  # one of None hides it


DryRun = Annotated[bool, flag("Say what a source on the network would cost, and ask nothing.")]


@dataclass(frozen=True)
class LoadingOptions(Loading):
    """See `Loading`."""

    batch_size: Annotated[int, Parameter(help="Images read together.")] = Loading.batch_size
    workers: Annotated[int | None, Parameter(help="Decoding processes; by default one for each core.")] = None
    strict: Annotated[bool, flag("Stop at the first image that cannot be read.")] = Loading.strict


@dataclass(frozen=True)
class ClusterOptions(ClusterSettings):
    """See `ClusterSettings`."""

    ray: Annotated[
        str | None,
        Parameter(metavar="[ADDRESS]", help="Run on Ray: one started here, or 'auto', or the address of one."),
    ] = None
    ray_actors: Annotated[int | None, Parameter(help="Copies of the source; by default as many as cores allow.")] = None
    ray_threads: Annotated[int, Parameter(help="Threads of each copy.")] = ClusterSettings.ray_threads
    ray_block: Annotated[int, Parameter(metavar="N", help="Images of a block.")] = ClusterSettings.ray_block
    ray_storage: Annotated[
        str | None, Parameter(metavar="URL", help="For what is gathered on the way: a place all machines can write to.")
    ] = None


@dataclass(frozen=True)
class SourceOptions(PipelineSettings):
    """The source without a prompt."""

    source: Annotated[str, Parameter(metavar="S", help="The frozen model; `yoro models` lists them.")] = (
        PipelineSettings.source
    )
    read: Annotated[str, Parameter(metavar="logits|features", help="Where it is read.")] = "logits"
    prompt: Annotated[str, Parameter(parse=False)] = PipelineSettings.prompt
    frame: Annotated[str, Parameter(parse=False)] = str(PipelineSettings.frame)
    image_side: Annotated[int | None, Parameter(parse=False)] = PipelineSettings.image_side
    device: Annotated[str, Parameter(metavar="D", help="auto, cpu, cuda or mps.")] = PipelineSettings.device
    views: Annotated[int, Parameter(parse=False)] = PipelineSettings.views
    budget: Budget = PipelineSettings.budget


@dataclass(frozen=True)
class PipelineOptions(SourceOptions):
    """The source behind a prompt."""

    read: Annotated[
        str, Parameter(metavar="all|logits|features", help="Where it is read; 'all' weighs several layers.")
    ] = PipelineSettings.read
    views: Annotated[int, Parameter(metavar="1|2", help="2: also the mirror image, where that helps.")] = (
        PipelineSettings.views
    )
    prompt: Annotated[str, Parameter(metavar="P", help="watermark, padding or legacy-padding.")] = (
        PipelineSettings.prompt
    )
    frame: Annotated[
        str, Parameter(metavar="START", help="How a padding's frame starts: grey, black, mean, or a number.")
    ] = str(PipelineSettings.frame)
    image_side: Annotated[int | None, Parameter(help="Side of the image within a padding.")] = (
        PipelineSettings.image_side
    )


@dataclass(frozen=True)
class SolveOptions(SolveSettings):
    """See `SolveSettings`."""

    shrinkage: Annotated[
        str, Parameter(metavar="RULE", help="loo, validation, k-fold, oas, rblw, ledoit-wolf, or a number.")
    ] = str(SolveSettings.shrinkage)
    prior: Annotated[str, Parameter(metavar="empirical|uniform", help="Class priors.")] = str(SolveSettings.prior)
    protocol: Annotated[
        str, Parameter(metavar="default|paper", help="'paper': the paper's rules and nothing else.")
    ] = SolveSettings.protocol
    reservoir: Annotated[int, Parameter(parse=False)] = SolveSettings.reservoir
    seed: Annotated[int, Parameter(help="Seed of every random draw.")] = SolveSettings.seed


@dataclass(frozen=True)
class SentenceOptions(SentenceSettings):
    """Which sentences describe the classes."""

    attributes: Attributes = None
    sentences: Annotated[int, Parameter(help="Sentences drawn a class.")] = SentenceSettings.sentences
    classes: Annotated[tuple[str, ...], Parameter(parse=False)] = ()
    zero_shot: Annotated[bool, Parameter(parse=False)] = SentenceSettings.zero_shot


@dataclass(frozen=True)
class VotingOptions(SentenceOptions):
    """The same where the sentences may take part in the answer."""

    zero_shot: Annotated[bool, switch("Let the sentences vote beside the images.")] = SentenceSettings.zero_shot


@dataclass(frozen=True)
class MovedOptions:
    """Where a saved model's source is now."""

    source: Annotated[
        str | None, Parameter(metavar="S", help="Where the model's source is now, if it moved or is code.")
    ] = None
    device: Annotated[str, Parameter(metavar="D", help="auto, cpu, cuda or mps.")] = PipelineSettings.device
    budget: Budget = PipelineSettings.budget

    @property
    def calls(self) -> Calls:
        """What a source on the network may be asked."""
        from yoro.sources.protocol import Calls

        return Calls(self.budget)


@dataclass(frozen=True)
class QuietOption:
    """How much is said."""

    quiet: Annotated[bool, flag("Say nothing but errors.", "--quiet", "-q")] = False


@dataclass(frozen=True)
class WriteOptions(QuietOption):
    """For verbs that write a file."""

    force: Annotated[bool, flag("Replace the output if it exists.")] = False


@dataclass(frozen=True)
class JsonOptions(WriteOptions):
    """For verbs that a machine may read."""

    as_json: Annotated[bool, flag("Print one JSON object on stdout.", "--json")] = False


@dataclass(frozen=True)
class ReportOptions(JsonOptions):
    """For verbs that may also write a page."""

    html: Annotated[Path | None, Parameter(metavar="REPORT", help="Also write a report as a web page.")] = None


Reads = Annotated[LoadingOptions, Parameter(name="*", group=READING)]
Spreads = Annotated[ClusterOptions, Parameter(name="*", group=CLUSTER)]
Sources = Annotated[SourceOptions, Parameter(name="*", group=SOURCE)]
Pipelines = Annotated[PipelineOptions, Parameter(name="*", group=SOURCE)]
Solves = Annotated[SolveOptions, Parameter(name="*", group=SOLVING)]
Speaks = Annotated[SentenceOptions, Parameter(name="*", group=SENTENCES)]
Votes = Annotated[VotingOptions, Parameter(name="*", group=SENTENCES)]
Moved = Annotated[MovedOptions, Parameter(name="*", group=READING)]
Quiets = Annotated[QuietOption, Parameter(name="*", group=OUTPUT)]
Writes = Annotated[WriteOptions, Parameter(name="*", group=OUTPUT)]
Answers = Annotated[JsonOptions, Parameter(name="*", group=OUTPUT)]
Reports = Annotated[ReportOptions, Parameter(name="*", group=OUTPUT)]


ADDRESS = re.compile(r"auto|local|ray://\S+|[\w.-]+:\d+")  # of a Ray


def spelled_out(words: list[str]) -> list[str]:
    """The words of a command, with a --ray that no address follows as one of this machine.

    >>> spelled_out(["fit", "--ray", "photos"]), spelled_out(["fit", "photos", "--ray", "10.0.0.7:6379"])
    (['fit', '--ray=local', 'photos'], ['fit', 'photos', '--ray', '10.0.0.7:6379'])
    """
    bare = [
        at
        for at, word in enumerate(words)
        if word == "--ray" and not ADDRESS.fullmatch("".join(words[at + 1 : at + 2]))
    ]
    return ["--ray=local" if at in bare else word for at, word in enumerate(words)]


def preset_of(*, fast: bool, best: bool) -> str:
    """The preset that two switches mean."""
    if fast and best:
        raise UsageError("Give --fast or --best, not both.")
    return "fast" if fast else "best" if best else FitSettings.preset


def parse_names(text: str | None) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]
