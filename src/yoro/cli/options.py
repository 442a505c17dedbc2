"""The arguments and options that verbs share.

Options are declared on the fields of a settings class (see `yoro.option`). A verb takes such a class as one parameter,
and the command line shows its fields.
"""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, TypeVar, Union, get_args, get_origin

from cyclopts import Group, Parameter

from yoro.cli.output import UsageError as UsageError
from yoro.cli.output import say
from yoro.model.question import Question
from yoro.model.settings import ClusterSettings, FitSettings, Loading, PipelineSettings, SolveSettings
from yoro.option import Declared, Option, declared
from yoro.text.settings import SentenceSettings

if TYPE_CHECKING:
    from yoro.model.open_model import OpenModel
    from yoro.sources.protocol import Calls

Settings = TypeVar("Settings")

OPTIONS = Group("Options", sort_key=10)
EXPERT_OPTIONS = Group("Expert options", sort_key=50)

KINDS = "Folders, archives (.zip, .tar), lists (.csv, .jsonl), Parquet, WebDataset or URLs of images"
Data = Annotated[str, Parameter(name="DATA", help=f"{KINDS}.")]
Images = Annotated[str, Parameter(name="DATA", help=f"{KINDS}, or responses (.npz).")]
Pictures = Annotated[str, Parameter(name="IMAGES", help=f"Images; {KINDS[0].lower()}{KINDS[1:]}, or responses (.npz).")]
ModelPath = Annotated[Path, Parameter(help="A saved model.", name="M.yoro")]
Out = Annotated[Path, Parameter(metavar="M.yoro", help="Where to write the model.")]
Elsewhere = Annotated[
    Path | None, Parameter(metavar="N.yoro", help="Write the changed model here instead of in place.")
]
Statistics = Annotated[Path, Parameter(metavar="S.stats", help="Where to write the statistics.")]
LABEL_FROM = Option("Take labels from file names, e.g. '{label}_{n}.jpg'; or folders, subfolders.", metavar="PATTERN")
LabelFrom = Annotated[str | None, Parameter(help=LABEL_FROM.help, metavar=LABEL_FROM.metavar)]
DRY_RUN = Option("Estimate the cost of the API calls without making any.", expert=True)
OTHER_PRIOR = next(one.option for one in declared(Question) if one.name == "prior")
NOISE = Option("Differential privacy: add noise, and keep sums only.", metavar="EPSILON,DELTA", expert=True)
CLIP = Option("With --noise: clip responses to this length.", metavar="C", expert=True)
SHARED = {one.name: one.option for one in declared(FitSettings)}  # to be used where the same option is needed alone


def shown(*hidden: str) -> Callable[[type[Settings]], type[Settings]]:
    """Make a settings class a group of options: all that its fields declare but for the hidden ones.

    Fields that declare none keep their defaults, unless they are groups of options themselves.
    """

    def mark(group: type[Settings]) -> type[Settings]:
        options = {one.name: one for one in declared(group, groups=False)}
        own, made = {}, group()
        for name, default in vars(made).items():
            if name in options and name not in hidden and not options[name].option.python_only:
                one = options[name]
                own[name] = Annotated[_typed(one.kind), one.option, _parameter(one)]
            elif name in hidden or not hasattr(default, "__cyclopts__"):
                own[name] = Annotated[object, Parameter(parse=False)]
        group.__annotations__ = {**group.__annotations__, **own}
        return group if hasattr(group, "__cyclopts__") else Parameter(name="*")(group)

    return mark


def _typed(kind: object) -> object:
    """The type of an option on the command line, where what may be a string is one."""
    kinds = get_args(kind) if isinstance(kind, UnionType) or get_origin(kind) is Union else ()
    return kind if str not in kinds else str | None if type(None) in kinds else str


def _parameter(declaration: Declared) -> Parameter:
    option, default = declaration.option, declaration.default
    return Parameter(
        name=option.flags or None,
        help=option.help,
        metavar=option.metavar,
        group=EXPERT_OPTIONS if option.expert else OPTIONS,
        negative=() if default is False else None,  # what is on by default has a --no- form
        show_default=False if default is False or default == () else None,
    )


@shown()
class LoadingOptions(Loading):
    """How images are read."""


@shown()
class ClusterOptions(ClusterSettings):
    """Where the pass runs."""


@shown()
@dataclass(frozen=True)
class RayOptions(ClusterOptions):
    """The same for verbs that can resume on Ray only."""

    resume: Annotated[bool, Option("With --ray: resume an interrupted run.")] = False


@shown()
class PipelineOptions(PipelineSettings):
    """The backbone behind a visual prompt."""


@shown("prompt", "frame", "image_side", "views")
@dataclass(frozen=True)
class SourceOptions(PipelineSettings):
    """The backbone alone."""

    read: Annotated[str, Option("Layer to read.", metavar="logits|features", expert=True)] = "logits"


@shown()
class SolveOptions(SolveSettings):
    """How the mapping is solved."""


@shown("shrinkage", "prior", "protocol")
class SeedOption(SolveOptions):
    """The seed alone."""


@shown()
class VotingOptions(SentenceSettings):
    """The sentences of classes."""


@shown("zero_shot")
class SentenceOptions(VotingOptions):
    """The same where the zero-shot head does not take part."""


@shown()
@dataclass(frozen=True)
class PresetFlags:
    """A preset by two switches."""

    fast: Annotated[bool, Option("Faster, less accurate: one layer, smaller input.")] = False
    best: Annotated[bool, Option("More accurate, slower: two views, larger network or input.")] = False

    @property
    def chosen(self) -> str:
        """The preset that the switches mean."""
        if self.fast and self.best:
            raise UsageError("Give --fast or --best, not both.")
        return "fast" if self.fast else "best" if self.best else FitSettings.preset


@shown()
@dataclass(frozen=True)
class FitOptions(FitSettings, PresetFlags):
    """All options of a fit."""

    pipeline: PipelineOptions = field(default_factory=PipelineOptions)
    loading: LoadingOptions = field(default_factory=LoadingOptions)
    solve: SolveOptions = field(default_factory=SolveOptions)
    sentences: VotingOptions = field(default_factory=VotingOptions)
    cluster: ClusterOptions = field(default_factory=ClusterOptions)

    def __post_init__(self) -> None:
        object.__setattr__(self, "preset", self.chosen)
        super().__post_init__()


@shown()
@dataclass(frozen=True)
class MovedOptions:
    """Where the backbone of a saved model is."""

    source: Annotated[
        str | None, Option("Location of the backbone, if it moved or is a Python callable.", metavar="S")
    ] = None
    device: Annotated[str, SHARED["device"]] = PipelineSettings.device
    budget: Annotated[int | None, SHARED["budget"]] = PipelineSettings.budget

    @property
    def calls(self) -> "Calls":
        """How many API calls may be made."""
        from yoro.sources.protocol import Calls

        return Calls(self.budget)

    def load(self, model: Path) -> "OpenModel":
        """Load a saved model."""
        from yoro.model.open_model import load

        return load(model, source=self.source, device=self.device, calls=self.calls)


@shown()
@dataclass(frozen=True)
class ReadingOptions(LoadingOptions, MovedOptions):
    """How a saved model reads images."""


@shown()
@dataclass(frozen=True)
class QuietOption:
    """How much is said."""

    quiet: Annotated[bool, Option("Print nothing but errors.", flags=("--quiet", "-q"))] = False

    def tell(self, message: str) -> None:
        """Print a message on stderr, unless told to be quiet."""
        from yoro.cli.output import say

        say(message, self.quiet)


@shown()
@dataclass(frozen=True)
class WriteOptions(QuietOption):
    """For verbs that write a file."""

    force: Annotated[bool, Option("Overwrite existing output.")] = False

    def check(self, *files: Path | None) -> None:
        """Raise if one of the files that were asked for cannot be written."""
        from yoro.model.store import check_output

        for file in files:
            if file is not None:
                check_output(file, force=self.force)


@shown()
@dataclass(frozen=True)
class JsonOption:
    """For verbs with machine-readable results."""

    as_json: Annotated[bool, Option("Print JSON on stdout.", flags=("--json",))] = False


@shown()
@dataclass(frozen=True)
class JsonOptions(JsonOption, WriteOptions):
    """For verbs that have both."""


@shown()
@dataclass(frozen=True)
class ReportOptions(JsonOptions):
    """For verbs that may also write a page."""

    html: Annotated[Path | None, Option("Also write a report as a web page.", metavar="REPORT")] = None


def given(paths: Sequence[str], label_from: str | None = None) -> object:
    """The data of a verb: a path, several of them, or images with labels by a pattern."""
    if not paths:
        raise UsageError("No data given; expected a folder, an archive, a list, a Parquet file, a URL or responses.")
    data: object = paths[0] if len(paths) == 1 else list(paths)
    label_from = label_from or _answered(data)
    if label_from is None:
        return data
    from yoro.data.filename_labels import find_named

    return find_named(data, label_from)


def _answered(data: object) -> str | None:
    """What a person at a terminal says of folders that look like splits: where the labels are."""
    if not (isinstance(data, str) and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    if not Path(data).is_dir():
        return None
    from yoro.data.examples import listed
    from yoro.data.file_trees import on_disk
    from yoro.data.folders import like_splits

    names = like_splits(on_disk(Path(data)))
    while names:
        say(f"The folders {listed(names)} look like splits. Are they [s]plits, each with class folders, or [c]lasses?")
        answer = sys.stdin.readline()
        if not answer or answer.strip().lower()[:1] in ("s", "c"):
            return {"s": "subfolders", "c": "folders"}.get(answer.strip().lower()[:1])
    return None


def given_for(path: str | None, label_from: str | None) -> object | None:
    """The same for data of one purpose, such as --val."""
    return None if path is None else given([path], label_from)


def called(paths: Sequence[str]) -> str:
    """The name of data on a page; a folder given as a dot has a name."""
    paths = [path if Path(path).name.strip(".") else Path(path).resolve().name for path in paths]
    return ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")


ADDRESS = re.compile(r"auto|local|ray://\S+|[\w.-]+:\d+")  # of a Ray
BARE = {  # options whose value may be left out: what a value looks like, and what its absence means
    "--ray": (ADDRESS, "local"),
    "--fix": (re.compile(r".*\.(csv|tsv|jsonl|ndjson)"), "review"),
}


def spelled_out(words: list[str]) -> list[str]:
    """The words of a command, with the value of a --ray or --fix that is not followed by one, and -o as --out.

    >>> spelled_out(["fit", "--ray", "photos"]), spelled_out(["fit", "photos", "--ray", "10.0.0.7:6379"])
    (['fit', '--ray=local', 'photos'], ['fit', 'photos', '--ray', '10.0.0.7:6379'])
    """
    found = []
    for at, word in enumerate(words):
        looks, usual = BARE.get(word, (None, ""))
        bare = looks is not None and not looks.fullmatch("".join(words[at + 1 : at + 2]))
        found.append(f"{word}={usual}" if bare else "--out" if word == "-o" else word)
    return found


def list_format(out: Path | None, usual: str = "csv") -> str:
    """The format of a list by the suffix of its file."""
    from yoro.files.rows import FORMATS

    found = out.suffix.removeprefix(".").lower() if out else usual
    if found not in FORMATS:
        raise UsageError(f"Unknown format {found!r}; choose one of {', '.join(FORMATS)}.")
    return found


def parse_names(text: str | None) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in (text or "").split(",") if name.strip()]
