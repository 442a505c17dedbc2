"""`yoro studio`: a local web app for building a classifier interactively."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from yoro.cli.options import PipelineOptions, QuietOption, shown
from yoro.cli.output import UsageError, say_tracebacks
from yoro.environment import install
from yoro.errors import InputError
from yoro.option import option


@shown()
class StudioOptions:
    """Where the work is kept, and how the page is opened."""

    work: Path = option(
        Path("studio.yoro-work"),
        "Folder where the work is saved and resumed.",
        flags=("--work", "--folder"),
        metavar="FOLDER",
    )
    port: int = option(8322, "Port; 0 picks a free one.", metavar="N")
    browse: bool = option(True, "Open the page in a browser.", flags=("--browser", "--open"))
    tidy: bool = option(False, "Delete removed photos for good; earlier steps can then not be undone.")
    phone: bool = option(False, "Let a phone in the same network send photos, by a QR code.")
    phone_address: str | None = option(
        None, "With --phone: address of this machine in that network.", metavar="IP", expert=True
    )
    shortcut: bool | None = option(None, "Put a launcher on the desktop, or remove it.")


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
    if options.shortcut is not None:
        _change_shortcut(options, data, output)
        return
    try:
        from yoro.studio.app import StudioSettings, open_studio
    except ModuleNotFoundError as error:
        raise InputError(f"The studio needs {error.name}: {install('serve')}.") from None

    settings = StudioSettings(
        options.work, data, options.port, options.browse, options.tidy, options.phone, options.phone_address
    )
    open_studio(settings, source, tell=output.tell, log=say_tracebacks)


def _change_shortcut(options: StudioOptions, data: tuple[Path, ...], output: QuietOption) -> None:
    from yoro.studio.shortcut import put_shortcut, remove_shortcut

    if data:
        raise UsageError("--shortcut opens the work folder; add photos to it first, or on the page.")
    if options.shortcut:
        output.tell(f"{put_shortcut(options.work)} opens the studio; `yoro studio --no-shortcut` removes it.")
    else:
        removed = remove_shortcut()
        output.tell("There is no launcher on the desktop." if removed is None else f"{removed} removed.")
