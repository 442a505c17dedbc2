"""The options that verbs share.

Options are declared on the fields of a settings class (see `yoro.option`). A verb takes such a class as one parameter,
and the command line shows its fields.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, TypeVar, Union, dataclass_transform, get_args, get_origin

from cyclopts import App, Group, Parameter

from yoro.cli.app import GROUPS
from yoro.cli.output import UsageError, print_json, print_text, say
from yoro.model.question import Question
from yoro.model.settings import ClusterSettings, FitSettings, Loading, PipelineSettings, SolveSettings
from yoro.option import Declared, Option, declared, option
from yoro.text.settings import SentenceSettings

if TYPE_CHECKING:
    from yoro.model.open_model import OpenModel
    from yoro.sources.protocol import Calls

Settings = TypeVar("Settings")

OPTIONS = Group("Options", sort_key=10)
EXPERT_OPTIONS = Group("Expert options", sort_key=50)

LABEL_FROM = Option("Take labels from file names, e.g. '{label}_{n}.jpg'; or folders, subfolders.", metavar="PATTERN")
DRY_RUN = Option("Estimate the cost of the API calls without making any.", expert=True)
OTHER_PRIOR = next(one.option for one in declared(Question) if one.name == "prior")
NOISE = Option("Differential privacy: add noise, and keep sums only.", metavar="EPSILON,DELTA", expert=True)
CLIP = Option("With --noise: clip responses to this length.", metavar="C", expert=True)
SHARED = {one.name: one.option for one in declared(FitSettings)}  # to be used where the same option is needed alone


def verb_group(name: str) -> App:
    """A group of verbs, which its module fills."""
    return App(name, group_parameters=OPTIONS, help=GROUPS[name][1])


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def shown(*hidden: str) -> Callable[[type[Settings]], type[Settings]]:
    """Make a class a frozen dataclass and a group of options: all that its fields declare but for the hidden ones.

    Fields that declare none keep their defaults, unless they are groups of options themselves.
    """

    def mark(group: type[Settings]) -> type[Settings]:
        group = dataclass(frozen=True)(group)
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
class RayOptions(ClusterOptions):
    """The same for verbs that can resume on Ray only."""

    resume: bool = option(False, "With --ray: resume an interrupted run.", expert=True)


@shown()
class PipelineOptions(PipelineSettings):
    """The backbone behind a visual prompt."""


@shown("prompt", "frame", "image_side", "views")
class SourceOptions(PipelineSettings):
    """The backbone alone."""

    read: str = option("logits", "Layer to read.", metavar="logits|features", expert=True)


@shown()
class SolveOptions(SolveSettings):
    """How the mapping is solved."""


@shown("shrinkage", "prior", "protocol")
class SeedOption(SolveOptions):
    """The seed alone."""


@shown("shrinkage", "prior")
class ProtocolOption(SolveOptions):
    """The seed and the protocol, which decides how images are decoded."""


@shown()
class VotingOptions(SentenceSettings):
    """The sentences of classes."""


@shown("zero_shot")
class SentenceOptions(VotingOptions):
    """The same where the zero-shot head does not take part."""


@shown()
class PresetFlags:
    """A preset by two switches."""

    fast: bool = option(False, "Faster, less accurate: fewer layers, 8-bit arithmetic.")
    best: bool = option(False, "More accurate, slower: several networks, if they help.")

    @property
    def chosen(self) -> str:
        if self.fast and self.best:
            raise UsageError("Give --fast or --best, not both.")
        return "fast" if self.fast else "best" if self.best else FitSettings.preset


@shown()
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
class MovedOptions:
    """Where the backbone of a saved model is."""

    source: str | None = option(None, "Backbone, if it moved, is a callable or an endpoint.", metavar="S")
    device: str = SHARED["device"].field(PipelineSettings.device)
    budget: int | None = SHARED["budget"].field(PipelineSettings.budget)

    @property
    def calls(self) -> "Calls":
        """How many API calls may be made."""
        from yoro.sources.protocol import Calls

        return Calls(self.budget)

    def load(self, model: Path) -> "OpenModel":
        from yoro.model.open_model import load

        return load(model, source=self.source, device=self.device, calls=self.calls)


@shown()
class ReadingOptions(LoadingOptions, MovedOptions):
    """How a saved model reads images."""


@shown()
class QuietOption:
    """Whether to print messages."""

    quiet: bool = option(False, "Print nothing but errors.", flags=("--quiet", "-q"))

    def tell(self, *messages: str) -> None:
        """Print messages on stderr, unless told to be quiet."""
        for message in messages:
            say(message, self.quiet)

    @contextmanager
    def spoken_warnings(self) -> Iterator[None]:
        """Print warnings as plain messages as they happen, each of them once."""
        said = set[str]()

        def speak(message: Warning | str, category: type[Warning], *_: object) -> None:
            if issubclass(category, UserWarning) and str(message) not in said:
                said.add(str(message))
                self.tell(f"Note: {message}")

        with warnings.catch_warnings():
            warnings.simplefilter("always")
            warnings.showwarning = speak  # type: ignore[assignment]
            yield

    def write_page(self, path: Path, page: str) -> None:
        from yoro.files.atomic import write_file

        write_file(path, page.encode())
        self.tell(f"Report written to {path}")


@shown()
class WriteOptions(QuietOption):
    """For verbs that write a file."""

    force: bool = option(False, "Overwrite existing output.")

    def check(self, *files: Path | None) -> None:
        """Raise if one of the files that were asked for cannot be written."""
        from yoro.model.store import check_output

        for file in files:
            if file is not None:
                check_output(file, force=self.force)


@shown()
class JsonOption:
    """For verbs with machine-readable results."""

    as_json: bool = option(False, "Print JSON on stdout.", flags=("--json",))

    def show(self, value: object, text: str) -> None:
        """Print a result on stdout: a value for machines, or the same as text."""
        if self.as_json:
            print_json(value)
        else:
            print_text(text)


@shown()
class JsonOptions(JsonOption, WriteOptions):
    """For verbs that have both."""


@shown()
class ReportOptions(JsonOptions):
    """For verbs that may also write a page."""

    html: Path | None = option(None, "Also write a report as a web page.", metavar="REPORT")
