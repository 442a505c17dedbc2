"""The command `yoro`: its verbs, and what becomes of errors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import BoundArguments

from cyclopts import App, CycloptsError, Parameter

from yoro.cli import attributes, bench
from yoro.cli.change import forget, merge, relabel, update
from yoro.cli.compare import compare
from yoro.cli.demo import demo
from yoro.cli.fit import fit
from yoro.cli.inspect import export, inspect, models
from yoro.cli.options import UsageError
from yoro.cli.output import Columns, abandon_stdout, prepare_streams, say
from yoro.cli.predict import evaluate, predict, respond
from yoro.cli.refine import refine
from yoro.environment import __version__, refuse_telemetry
from yoro.errors import YoroError, one_line

VERBS = (
    demo,
    fit,
    predict,
    evaluate,
    update,
    forget,
    relabel,
    merge,
    refine,
    inspect,
    compare,
    respond,
    export,
    models,
)

app = App(
    name="yoro",
    help="A frozen pretrained model and labelled images in, a classifier out: one pass, no training.",
    help_epilogue="--debug, anywhere on the line, shows the traceback of an error.",
    version=f"yoro {__version__}",
    help_format="plaintext",
    help_formatter=Columns(),
    suppress_keyboard_interrupt=False,
    default_parameter=Parameter(negative_iterable=()),  # no --empty-data beside --data
)
for _verb in VERBS:
    app.command(_verb, sort_key=VERBS.index(_verb))
app.command(attributes.app)
app.command(bench.app)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with 0, 1 (failure), 2 (usage) or 130 (interrupted)."""
    refuse_telemetry()
    prepare_streams()
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
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
    except KeyboardInterrupt:
        sys.exit(130)
    except MemoryError:
        if debug:
            raise
        _fail("there is not enough memory for this. Smaller batches (--batch-size) need less.", 1)
    except (YoroError, OSError) as error:
        if debug:
            raise
        abandon_stdout()
        _fail(one_line(error), 1)
    if not words:
        sys.exit(2)


def _parse(words: list[str], debug: bool) -> tuple[Callable[..., object], BoundArguments]:
    """The verb and its arguments; whatever is wrong with them is wrong usage."""
    try:
        verb, bound, _ = app.parse_args(words, exit_on_error=False, print_error=False)
    except (CycloptsError, YoroError) as error:
        if debug:
            raise
        raise UsageError(one_line(error)) from None
    return verb, bound


def _fail(text: str, code: int) -> None:
    say(f"yoro: {text}")
    sys.exit(code)
