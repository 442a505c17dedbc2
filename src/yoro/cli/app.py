"""The command `yoro`: its verbs, error handling and shell completion."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import BoundArguments
from typing import Annotated, Literal

from cyclopts import App, CycloptsError, Group, MissingArgumentError, Parameter

from yoro.cli.options import OPTIONS, UsageError, spelled_out
from yoro.cli.output import Columns, abandon_stdout, prepare_streams, print_text, say
from yoro.environment import __version__, refuse_telemetry
from yoro.errors import YoroError, one_line

DAILY = Group("Common", sort_key=1)
CHANGES = Group("Changing a model", sort_key=2)
FURTHER = Group("More", sort_key=3)
LAST = Group("Options", sort_key=9)
VERBS = {  # what each takes, and its group; a verb lives in a module of `cli`, which is imported when it is called
    "demo": ("demo", "[--out FOLDER]", DAILY),
    "fit": ("fit", "DATA... --out M.yoro [OPTIONS]", DAILY),
    "predict": ("predict", "M.yoro IMAGES... [OPTIONS]", DAILY),
    "evaluate": ("predict", "M.yoro DATA... [OPTIONS]", DAILY),
    "inspect": ("inspect", "M.yoro [DATA... --issues] [OPTIONS]", DAILY),
    "explain": ("explain", "M.yoro [IMAGES...] [OPTIONS]", DAILY),
    "label": ("label", "PILE --into FOLDER|--list FILE.csv|--groups FOLDER [OPTIONS]", DAILY),
    "advise": ("advise", "DATA... [--more IMAGES] [OPTIONS]", DAILY),
    "models": ("inspect", "[--json]", DAILY),
    "update": ("change", "M.yoro DATA... [--out N.yoro] [OPTIONS]", CHANGES),
    "forget": ("change", "M.yoro DATA... [--out N.yoro] [--receipt FILE.json] [OPTIONS]", CHANGES),
    "verify": ("verify", "M.yoro FILE.json [DATA...] [OPTIONS]", CHANGES),
    "relabel": ("change", "M.yoro OLD=NEW... [--out N.yoro] [OPTIONS]", CHANGES),
    "clean": ("issues", "M.yoro LIST [--out N.yoro] [OPTIONS]", CHANGES),
    "merge": ("stats", "A.yoro|A.stats B... --out C.yoro|C.stats [OPTIONS]", CHANGES),
    "refine": ("refine", "M.yoro DATA... --out N.yoro [--val DATA] [OPTIONS]", CHANGES),
    "export": ("inspect", "M.yoro [--onnx FILE] [--web FOLDER] [OPTIONS]", FURTHER),
    "serve": ("serve", "M.yoro|--responses SOURCE [--port N] [OPTIONS]", FURTHER),
    "studio": ("studio", "[DATA...] [--work FOLDER] [--open] [OPTIONS]", FURTHER),
    "compare": ("compare", "DATA... [OPTIONS]", FURTHER),
    "stats": ("stats", "DATA... --out S.stats [--part I/N] [--sums-only] [OPTIONS]", FURTHER),
    "respond": ("predict", "DATA... --out Z.npz [OPTIONS]", FURTHER),
    "completion": ("app", "bash|zsh|fish", FURTHER),
}
GROUPS = ("attributes", "bench", "endpoint", "parties")  # of verbs, each an app in a module of its own

app = App(
    name="yoro",
    help="Turn labelled images and a frozen pretrained model into a classifier: one pass, no training.",
    help_epilogue="Add --debug to any command to see the traceback of an error.",
    version=f"yoro {__version__}",
    help_format="plaintext",
    help_formatter=Columns(),
    suppress_keyboard_interrupt=False,
    group_parameters=OPTIONS,
    default_parameter=Parameter(negative_iterable=()),  # no --empty-data beside --data
)
for _place, (_verb, (_module, _usage, _group)) in enumerate(VERBS.items()):
    app.command(
        f"yoro.cli.{_module}:{_verb}", name=_verb, usage=f"Usage: yoro {_verb} {_usage}", group=_group, sort_key=_place
    )
for _name in GROUPS:
    app.command(f"yoro.cli.{_name}:app", name=_name, group=FURTHER, sort_key=100)
for _flag in ("--help", "--version"):
    app[_flag].group = (LAST,)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with 0, 1 (failure), 2 (usage) or 130 (interrupted)."""
    refuse_telemetry()
    prepare_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = spelled_out([word for word in words if word != "--debug"])
    if words[:1] in ([], ["-h"], ["--help"]):
        load_verbs()
    try:
        verb, bound = _parse(words, debug)
        verb(*bound.args, **bound.kwargs)
        sys.stdout.flush()
    except UsageError as error:
        known = f"{words[0]} " if words and words[0] in app else ""
        _fail(f"{one_line(error)} Try `yoro {known}--help`.", 2)
    except BrokenPipeError:  # the reader of a pipe has gone, as `yoro predict ... | head` does
        abandon_stdout()
        sys.exit(1)
    except KeyboardInterrupt as interrupt:
        _fail(str(interrupt) or "interrupted.", 130)
    except MemoryError:
        if debug:
            raise
        _fail("out of memory. A smaller --batch-size needs less.", 1)
    except (YoroError, OSError) as error:
        if debug:
            raise
        abandon_stdout()
        _fail(one_line(error), 1)
    if not words:
        sys.exit(2)


def load_verbs() -> None:
    """Import every verb, for its line in the overview."""
    for name in (*VERBS, *GROUPS):
        app[name]


def completion(shell: Annotated[Literal["bash", "zsh", "fish"], Parameter(help="Your shell.")], /) -> None:
    """Print a script that completes commands in bash, zsh or fish.

    For this shell: `source <(yoro completion bash)`; for every shell, put that line into ~/.bashrc or ~/.zshrc.
    """
    load_verbs()
    script = app.generate_completion(shell=shell)
    if shell == "bash":  # where it has no suggestion, the names of files
        script = script.replace("complete -F", "complete -o bashdefault -o default -F")
    print_text(script)


def _parse(words: list[str], debug: bool) -> tuple[Callable[..., object], BoundArguments]:
    """The verb and its arguments; any problem with them is a usage error."""
    try:
        verb, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except (CycloptsError, YoroError) as error:
        if debug:
            raise
        raise UsageError(_missing(error) or one_line(error)) from None
    return verb, bound


def _missing(error: Exception) -> str:
    """Which required argument is missing, if that is the problem and not a typo."""
    if not isinstance(error, MissingArgumentError) or error.argument is None or "Did you mean" in str(error):
        return ""
    if error.argument.tokens or error.keyword is not None:
        return ""
    return f"{' '.join(filter(None, (error.argument.name, error.argument.parameter.metavar)))} is missing."


def _fail(text: str, code: int) -> None:
    say(f"yoro: {text}")
    sys.exit(code)
