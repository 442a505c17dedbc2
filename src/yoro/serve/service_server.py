"""The service as a process: loads a model or a backbone, listens, and serves until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from yoro.http.guard import Guard, Log
from yoro.http.server import run_server
from yoro.http.settings import ServeSettings
from yoro.serve.app import Service, make_app
from yoro.serve.hot_reload import Current
from yoro.serve.metrics import Metrics
from yoro.serve.response_service import FixedSource, ServedSource


def serve(
    path: Path, settings: ServeSettings, *, source: str | None = None, device: str = "auto",
    token: str | None = None, tell: Callable[[str], None], log: Log,
) -> None:  # fmt: skip
    """Serve a model until the process is told to stop; `tell` is called with notes, `log` with a line per request."""
    _serve(str(path), lambda: Current(path, source, device), settings, token, tell, log)


def serve_source(
    name: str, read: str, settings: ServeSettings, *, device: str = "auto",
    token: str | None = None, tell: Callable[[str], None], log: Log,
) -> None:  # fmt: skip
    """The same for a backbone without a classifier."""
    _serve(name, lambda: FixedSource(ServedSource(name, read, device)), settings, token, tell, log)


def _serve(
    what: str, load: Callable[[], Current | FixedSource], settings: ServeSettings, token: str | None,
    tell: Callable[[str], None], log: Log,
) -> None:  # fmt: skip
    def build(current: Current | FixedSource, address: str) -> Guard:
        current.tell = tell
        app = make_app(Service(current, settings, Metrics()), token, log)
        if not address:
            return app
        tell(f"Serving {what} on {address}; Ctrl-C stops it.")
        tell(f"Try it at {address}/ in a browser; its API is described at {address}/docs.")
        if not settings.local and token is None:
            tell("Anyone who can reach this machine may use it; set a token (--token-file) to restrict access.")
        return app

    run_server(settings, load, build, log)
