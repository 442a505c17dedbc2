"""`yoro studio`: a local web app for building a classifier interactively."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from yoro.cli.options import PipelineOptions, QuietOption, shown
from yoro.cli.output import say_tracebacks
from yoro.environment import install
from yoro.errors import InputError
from yoro.option import Option


@shown()
@dataclass(frozen=True)
class StudioOptions:
    """Where the work is kept, and how the page is opened."""

    work: Annotated[
        Path, Option("Folder where the work is saved and resumed.", flags=("--work", "--folder"), metavar="FOLDER")
    ] = Path("studio.yoro-work")
    port: Annotated[int, Option("Port; 0 picks a free one.", metavar="N")] = 8322
    browse: Annotated[bool, Option("Open the page in a browser.", flags=("--open",))] = False
    tidy: Annotated[bool, Option("Delete removed photos for good; earlier steps can then not be undone.")] = False


def studio(
    *data: Annotated[
        Path, Parameter(help="What to start with: a model, or labelled photos as folders, archives or lists.")
    ],
    options: StudioOptions = StudioOptions(),
    source: PipelineOptions = PipelineOptions(),
    output: QuietOption = QuietOption(),
) -> None:
    """Build a classifier interactively, in a local web app.

    Drop photos, watch it learn, try it, correct it. Everything stays on this machine, and every step is saved.
    """
    try:
        from yoro.studio.studio_server import StudioSettings, open_studio
    except ModuleNotFoundError as error:
        raise InputError(f"The studio needs {error.name}: {install('serve')}.") from None

    settings = StudioSettings(options.work, data, options.port, options.browse, options.tidy)
    open_studio(settings, source, tell=output.tell, log=say_tracebacks)
