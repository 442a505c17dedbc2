"""The command `yoro`: its verbs, and what becomes of errors."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from yoro.cli import (
    attributes,
    bench,
    compare,
    demo,
    evaluate,
    export,
    fit,
    forget,
    inspect,
    merge,
    models,
    predict,
    refine,
    relabel,
    respond,
    update,
)
from yoro.errors import YoroError, one_line
from yoro.version import __version__

app = typer.Typer(
    name="yoro",
    help="A frozen pretrained model and labelled images in, a classifier out: one pass, no training.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain text: errors on one line, help that reads well in a log
)
app.add_typer(attributes.app, name="attributes")
app.add_typer(bench.app, name="bench")
for verb in (
    demo, fit, predict, evaluate, update, forget, relabel, merge, refine, inspect, compare, respond, export, models,
):  # fmt: skip
    app.command(verb.__name__.rpartition(".")[2])(verb.run)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"yoro {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error (may stand anywhere).")
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with 0, 1 (failure), 2 (usage) or 130 (interrupted)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"]
    try:
        app(words)  # usage errors, --help and Ctrl-C end in SystemExit
    except BrokenPipeError:  # the reader of a pipe has gone, as `yoro predict ... | head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (YoroError, OSError, MemoryError) as error:
        if debug:
            raise
        typer.echo(f"yoro: {_one_line(error)}", err=True)
        sys.exit(1)


def _one_line(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory for this. Smaller batches (--batch-size) need less."
    return one_line(error)
