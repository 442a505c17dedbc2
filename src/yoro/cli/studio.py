"""`yoro studio`: a page on which a classifier is made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from yoro.cli.options import PipelineOptions, Pipelines, QuietOption, Quiets, flag
from yoro.cli.output import say
from yoro.environment import install
from yoro.errors import InputError


def studio(
    *data: Annotated[
        Path, Parameter(help="What to begin with: a model; labelled photos as folders, archives or lists.")
    ],
    work: Annotated[
        Path,
        Parameter(name=["--work", "--folder"], metavar="FOLDER", help="Where the work is kept, and gone on with."),
    ] = Path("studio.yoro-work"),
    port: Annotated[int, Parameter(metavar="N", help="0 takes one that is free.")] = 8322,
    browse: Annotated[bool, flag("Open the page in a browser.", "--open")] = False,
    tidy: Annotated[bool, flag("Delete for good what was removed; steps before cannot be undone then.")] = False,
    source: Pipelines = PipelineOptions(),
    output: Quiets = QuietOption(),
) -> None:
    """Make a classifier by hand, on a page of this machine.

    Drop photos, watch it learn, try it, correct it. Everything stays here, and the work is saved with every step.
    """
    try:
        from yoro.studio.studio_server import StudioSettings, open_studio
    except ModuleNotFoundError as error:
        raise InputError(f"The studio needs {error.name}: {install('serve')}.") from None

    def tell(sentence: str) -> None:
        say(sentence, output.quiet)

    def log(line: str) -> None:  # a page asks all the time; only what went wrong is worth a line
        if line.startswith("Traceback"):
            say(line)

    open_studio(StudioSettings(work, data, port, browse, tidy), source, tell=tell, log=log)
