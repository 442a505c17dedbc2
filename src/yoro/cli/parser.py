"""The verbs with their options, as cyclopts reads and explains them, and shell completion."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from inspect import BoundArguments
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, CycloptsError, MissingArgumentError, Parameter
from cyclopts.help import PlainFormatter

from yoro.cli.app import EARLIER, GROUPS, VERBS, check_address_space
from yoro.cli.arguments import spelled_out
from yoro.cli.options import EXPERT_OPTIONS, OPTIONS
from yoro.cli.output import UsageError, print_text, say
from yoro.errors import YoroError, did_you_mean, one_line

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

SUBVERBS = 13  # characters of the column of verbs in the help of a group
NAMES = 24  # characters of the column of names in a help; a longer name has a line of its own
WIDEST = 110  # of a help
ALIKE = {  # verbs, and their names in other tools
    "fit": "train learn", "evaluate": "test eval val score", "predict": "infer classify", "update": "add",
    "refine": "finetune fine-tune", "export": "convert", "models": "list", "inspect": "info show", "studio": "gui ui",
}  # fmt: skip
OTHERS = {word: verb for verb, words in ALIKE.items() for word in words.split()}


@dataclass
class Columns(PlainFormatter):
    """The plain formatter of cyclopts, in columns; expert options are shown with --help-all only."""

    whole: bool = False

    def __call__(self, console: Console, options: ConsoleOptions, panel: HelpPanel) -> None:
        """Print one group of verbs or options."""
        if not panel.entries:
            return
        lines = [f"{panel.title}:"] if panel.title else []
        width = min(console.width, WIDEST)
        if panel.title == EXPERT_OPTIONS.name and not self.whole:
            lines = [f"{len(panel.entries)} more for experts: --help-all shows them."]
        else:
            options_shown = panel.format == "parameter" or any(name.startswith("-") for name in panel.entries[0].names)
            column = NAMES if options_shown else SUBVERBS
            for entry in panel.entries:
                lines += _lines(entry, width, column, options=panel.format == "parameter")
            lines.append("")  # the next group stands apart
        for line in lines:
            console.print(line, highlight=False, markup=False, soft_wrap=True)


COLUMNS = Columns()
app = App(
    name="yoro",
    help_format="plaintext",
    help_formatter=COLUMNS,
    version_flags=(),
    suppress_keyboard_interrupt=False,
    group_parameters=OPTIONS,
    default_parameter=Parameter(negative_iterable=()),  # no --empty-data beside --data
)
for _verb, (_module, _usage, *_) in {**VERBS, **EARLIER}.items():
    app.command(f"yoro.cli.{_module}:{_verb}", name=_verb, usage=f"Usage: yoro {_verb} {_usage}")
for _name in GROUPS:
    app.command(f"yoro.cli.{_name}:app", name=_name)


def run_verb(words: list[str], debug: bool) -> None:
    """Run the verb that the words of a command name."""
    COLUMNS.whole = "--help-all" in words
    words = spelled_out(["--help" if word == "--help-all" else word for word in words])
    if "--help" in words and words[0] in VERBS:  # paragraphs, not the lines of the source
        page = app[words[0]]
        page.help = "\n\n".join(textwrap.fill(" ".join(part.split()), 79) for part in page.help.split("\n\n"))
    verb, bound = _parse(words, debug)
    if words[0] in EARLIER and not {"--help", "-h", "--quiet", "-q"} & set(words):
        say(f"Note: {EARLIER[words[0]][-1]}")
    if verb.__module__.startswith("yoro.cli."):  # help needs little
        check_address_space()
    verb(*bound.args, **bound.kwargs)


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Your shell.")], /) -> None:
    """Print a script that completes commands in bash, zsh or fish.

    For this shell: `source <(yoro completion bash)`; for every shell, put that line into ~/.bashrc or ~/.zshrc.
    """
    for name in (*VERBS, *GROUPS):
        app[name]  # imports it
    script = app.generate_completion(shell=shell)
    if shell == "bash":  # where it has no suggestion, the names of files
        script = script.replace("complete -F", "complete -o bashdefault -o default -F")
    print_text(script)


def _parse(words: list[str], debug: bool) -> tuple[Callable[..., object], BoundArguments]:
    """The verb and its arguments; any problem with them is a usage error."""
    if words[0] not in app:
        raise UsageError(_unknown(words[0]))
    try:
        verb, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except (CycloptsError, YoroError) as error:
        if debug:
            raise
        from yoro.model.settings import elsewhere

        brought = [told for word in words if word.startswith("--") and (told := elsewhere(word.partition("=")[0]))]
        if words[0] == "fit" and brought and "Unknown option" in str(error):
            raise UsageError(brought[0]) from None
        raise UsageError(_missing(error) or _plainly(one_line(error))) from None
    return verb, bound


def _unknown(word: str) -> str:
    """The error for an unknown command."""
    if word.lower() in OTHERS:
        return f"{word!r} is called `yoro {OTHERS[word.lower()]}` here."
    near = did_you_mean(word, [*VERBS, *GROUPS], alike=0.6, else_all=False)
    return f"Unknown command {word!r}. {near or '`yoro --help-all` lists the verbs.'}"


def _plainly(told: str) -> str:
    """A message of cyclopts in plain words.

    >>> _plainly('Command "predict" parameter --out requires an argument.')
    '--out needs a value.'
    >>> _plainly('Invalid value for --seed: unable to convert "x" into int.')
    'Invalid value for --seed: expected a whole number, got "x".'
    """
    told = re.sub(r'^Command ".*?" parameter (\S+) requires an argument', r"\1 needs a value", told)
    for kind, name in (("int", "a whole number"), ("float", "a number")):
        told = re.sub(rf'unable to convert (".*?") into {kind}\b', rf"expected {name}, got \1", told)
    return told


def _missing(error: Exception) -> str:
    """The error for a missing argument, unless it is a typo."""
    if not isinstance(error, MissingArgumentError) or error.argument is None or "Did you mean" in str(error):
        return ""
    if error.argument.tokens or error.keyword is not None:
        return ""
    return f"{' '.join(filter(None, (error.argument.name, error.argument.parameter.metavar)))} is missing."


def _text(shown: object) -> str:
    """A description as one line of plain text."""
    if shown is None:
        return ""
    from rich.console import Console

    page = io.StringIO()
    Console(file=page, width=10_000, no_color=True, highlight=False, markup=False).print(shown)
    return " ".join(page.getvalue().split())


def _lines(entry: HelpEntry, width: int, column: int, *, options: bool) -> list[str]:
    """An entry as lines of at most `width` characters, of which `column` are for its names."""
    names = entry.display_labels_with_metavar if options else entry.positive_names + entry.positive_shorts
    label = "  " + ", ".join(names)
    about = _text(entry.description)
    if options and entry.default is not None:
        about += f" [{entry.default}]"
    if entry.required and about:
        about += " (required)"
    wrapped = textwrap.wrap(about, width - column) or [""]
    if len(label) < column:
        wrapped[0] = f"{label:<{column}}{wrapped[0]}"
    else:
        wrapped[0] = " " * column + wrapped[0]
        wrapped.insert(0, label)
    return [wrapped[0], *(line if line.startswith(" ") else " " * column + line for line in wrapped[1:])]
