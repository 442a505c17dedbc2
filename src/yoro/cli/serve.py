"""`yoro serve`: a saved model as an HTTP service."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from yoro.cli.options import MovedOptions, QuietOption, shown
from yoro.cli.output import UsageError
from yoro.environment import install
from yoro.errors import InputError
from yoro.files.reading import read_bounded, refusing
from yoro.http.settings import ServeSettings
from yoro.http.supervisor import share_metrics
from yoro.model.settings import PipelineSettings
from yoro.option import option

TOKEN = "YORO_TOKEN"  # the variable of the environment
LONGEST_TOKEN = 4096  # bytes of a file that holds one


@shown()
class ServeOptions(ServeSettings):
    """Where the service listens, and what clients may do."""


@shown()
class TokenOptions:
    """What clients must send to be answered."""

    token: str | None = option(
        None, f"Token that clients must send; a file or {TOKEN} hides it from other users.", metavar="T"
    )
    token_file: Path | None = option(None, "File that contains the token.", metavar="FILE")


@shown()
class RespondingOptions:
    """A backbone in place of a model."""

    responses: str | None = option(
        None, "Serve the responses of a backbone instead, for `fit --source http://...`.", metavar="SOURCE"
    )
    read: str | None = option(
        None, "With --responses: layers to read (default: all).", metavar="all|logits|features", expert=True
    )


def serve(
    model: Annotated[Path | None, Parameter(help="A saved model.", name="M.yoro")] = None,
    /,
    *,
    responding: RespondingOptions = RespondingOptions(),
    settings: ServeOptions = ServeOptions(),
    tokens: TokenOptions = TokenOptions(),
    moved: MovedOptions = MovedOptions(),
    output: QuietOption = QuietOption(),
) -> None:
    """Serve a model over HTTP.

    POST /v1/predict takes images as a form, as raw bytes, or as base64 in JSON; see /openapi.json.
    """
    if (model is None) == (responding.responses is None):
        raise UsageError("Give a saved model, or --responses with the name of a backbone.")
    share_metrics(settings.processes)
    try:
        from yoro.serve.app import serve as run
        from yoro.serve.hot_reload import Current
        from yoro.serve.served_model import FixedSource, ServedSource
    except ModuleNotFoundError as error:
        raise InputError(f"The service needs {error.name}: {install('serve')}.") from None

    tell, token = output.tell, find_token(tokens)
    if moved.budget is not None:
        raise UsageError("--budget does not apply to a service; limit the requests of its clients instead.")
    if model is None:
        if settings.feedback or moved.source is not None:
            option = "--feedback" if settings.feedback else "--source"
            raise UsageError(f"{option} needs a model; --responses serves a backbone.")
        name, read = responding.responses or "", responding.read or PipelineSettings.read
        run(name, lambda: FixedSource(ServedSource(name, read, moved.device)), settings, token, tell)
        return
    if responding.read is not None:
        raise UsageError("--read needs --responses; a model is read as it was fitted.")
    run(str(model), lambda: Current(model, moved.source, moved.device), settings, token, tell)


def find_token(given: TokenOptions) -> str | None:
    """The token, wherever it was given; more than one is an error."""
    found = {
        "--token": given.token,
        "--token-file": None if given.token_file is None else _read_token(given.token_file),
        TOKEN: os.environ.get(TOKEN),
    }
    named = [name for name, token in found.items() if token is not None]
    if len(named) > 1:
        raise UsageError(f"The token was given by {' and '.join(named)}; use one of them.")
    token = next((token.strip() for token in found.values() if token is not None), None)
    if token is not None and not (token and token.isascii() and token.isprintable()):
        raise UsageError("The token is empty or has characters that HTTP headers do not allow; use printable ASCII.")
    return token


def _read_token(file: Path) -> str:
    with refusing(InputError, f"Cannot read the token from {file}"):
        return read_bounded(file, LONGEST_TOKEN).decode("utf-8", "replace")
