"""`yoro serve`: a saved model as a service."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from yoro.cli.options import Moved, MovedOptions, QuietOption, Quiets, UsageError, flag
from yoro.cli.output import say
from yoro.environment import install
from yoro.errors import InputError
from yoro.files.reading import read_bounded
from yoro.http.settings import ServeSettings
from yoro.model.settings import PipelineSettings

LIMITS = Group("What clients may do", sort_key=30)
TOKEN = "YORO_TOKEN"  # the variable of the environment
LONGEST_TOKEN = 4096  # bytes of a file that holds one


@dataclass(frozen=True)
class ServeOptions(ServeSettings):
    """See `ServeSettings`."""

    host: Annotated[str, Parameter(help="Where to listen; by default only this machine can connect.")] = (
        ServeSettings.host
    )
    port: Annotated[int, Parameter(metavar="N", help="0 takes one that is free.")] = ServeSettings.port
    feedback: Annotated[bool, flag("Let clients send labelled images, which change the model.")] = (
        ServeSettings.feedback
    )
    most_images: Annotated[int, Parameter(help="Images of one request.")] = ServeSettings.most_images
    most_megabytes: Annotated[int, Parameter(help="Size of one request.")] = ServeSettings.most_megabytes
    held_megabytes: Annotated[int, Parameter(help="Size of all requests together.")] = ServeSettings.held_megabytes
    waiting_images: Annotated[int, Parameter(help="Images that may wait; more get 429.")] = ServeSettings.waiting_images
    connections: Annotated[int, Parameter(help="Connections open at once.")] = ServeSettings.connections
    batch_images: Annotated[int, Parameter(help="Images of one forward pass.")] = ServeSettings.batch_images
    read_seconds: Annotated[float, Parameter(help="Time to send a request.")] = ServeSettings.read_seconds
    answer_seconds: Annotated[float, Parameter(help="Time to answer it.")] = ServeSettings.answer_seconds
    idle_seconds: Annotated[float, Parameter(help="Time without a whole request before a connection is closed.")] = (
        ServeSettings.idle_seconds
    )


@dataclass(frozen=True)
class TokenOptions:
    """What clients must send to be answered."""

    token: Annotated[
        str | None,
        Parameter(metavar="T", help=f"Clients must send it; others here may see it: better a file or {TOKEN}."),
    ] = None
    token_file: Annotated[Path | None, Parameter(metavar="FILE", help="The same, from a file.")] = None


@dataclass(frozen=True)
class RespondingOptions:
    """A source in place of a model."""

    responses: Annotated[
        str | None,
        Parameter(metavar="SOURCE", help="No model: the responses of a source, for `fit --source http://...`."),
    ] = None
    read: Annotated[
        str | None, Parameter(metavar="all|logits|features", help="With --responses: where the source is read. [all]")
    ] = None


def serve(
    model: Annotated[Path | None, Parameter(help="A saved model.", name="M.yoro")] = None,
    /,
    *,
    responding: Annotated[RespondingOptions, Parameter(name="*")] = RespondingOptions(),
    settings: Annotated[ServeOptions, Parameter(name="*", group=LIMITS)] = ServeOptions(),
    tokens: Annotated[TokenOptions, Parameter(name="*")] = TokenOptions(),
    moved: Moved = MovedOptions(),
    output: Quiets = QuietOption(),
) -> None:
    """Answer over HTTP until it is told to end.

    POST /v1/predict takes images as a form, as they are, or as base64 in JSON; /openapi.json describes all of it.
    """
    if (model is None) == (responding.responses is None):
        raise UsageError("Give a saved model, or --responses with the name of a source.")
    try:
        from yoro.serve.service_server import serve as run
        from yoro.serve.service_server import serve_source
    except ModuleNotFoundError as error:
        raise InputError(f"The service needs {error.name}: {install('serve')}.") from None

    def tell(sentence: str) -> None:
        say(sentence, output.quiet)

    token = find_token(tokens)
    if moved.budget is not None:
        raise UsageError(
            "--budget is for verbs that end; what clients may ask of a service is limited by its own options."
        )
    if model is None:
        _check_responding(settings, moved)
        name, read = responding.responses or "", responding.read or PipelineSettings.read
        serve_source(name, read, settings, device=moved.device, token=token, tell=tell, log=tell)
        return
    if responding.read is not None:
        raise UsageError("--read goes with --responses; a model is read as it was fitted.")
    run(model, settings, source=moved.source, device=moved.device, token=token, tell=tell, log=tell)


def _check_responding(settings: ServeSettings, moved: MovedOptions) -> None:
    if settings.feedback or moved.source is not None:
        option = "--feedback" if settings.feedback else "--source"
        raise UsageError(f"{option} is for a model; --responses serves a source by its name.")


def find_token(given: TokenOptions) -> str | None:
    """The token, from wherever it was given; two of them are one too many."""
    found = {
        "--token": given.token,
        "--token-file": None if given.token_file is None else _read_token(given.token_file),
        TOKEN: os.environ.get(TOKEN),
    }
    named = [name for name, token in found.items() if token is not None]
    if len(named) > 1:
        raise UsageError(f"A token came by {' and by '.join(named)}; give one.")
    token = next((token.strip() for token in found.values() if token is not None), None)
    if token is not None and not (token and token.isascii() and token.isprintable()):
        raise UsageError("The token is empty or has characters that no header can carry; expected printable ASCII.")
    return token


def _read_token(file: Path) -> str:
    try:
        return read_bounded(file, LONGEST_TOKEN).decode("utf-8", "replace")
    except ValueError as error:
        raise InputError(f"No token can be read from {file}: {error}.") from None
