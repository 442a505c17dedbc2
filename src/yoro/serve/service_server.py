"""The service as a process: opens the model, listens, and answers until it is told to stop."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from yoro.http.guard import Log
from yoro.http.metrics import Metrics
from yoro.http.priority import alone, stand_back
from yoro.http.server import listening, run
from yoro.http.settings import ServeSettings
from yoro.serve.app import Service, make_app
from yoro.serve.hot_reload import Current
from yoro.serve.response_service import ServedSource, Still


def serve(
    path: Path, settings: ServeSettings, *, source: str | None = None, device: str = "auto",
    token: str | None = None, tell: Callable[[str], None], log: Log,
) -> None:  # fmt: skip
    """Serve a model until the process is told to end; `tell` is called with sentences, `log` with each request."""
    _serve(str(path), lambda: Current(path, source, device), settings, token, tell, log)


def serve_source(
    name: str, read: str, settings: ServeSettings, *, device: str = "auto",
    token: str | None = None, tell: Callable[[str], None], log: Log,
) -> None:  # fmt: skip
    """The same for a source without a classifier."""
    _serve(name, lambda: Still(ServedSource(name, read, device)), settings, token, tell, log)


def _serve(
    what: str, make: Callable[[], Current | Still], settings: ServeSettings, token: str | None,
    tell: Callable[[str], None], log: Log,
) -> None:  # fmt: skip
    with listening(settings) as sock:
        with ThreadPoolExecutor(1, initializer=stand_back) as opener:  # the threads of the network are its children
            current = opener.submit(make).result()
        current.tell = tell
        alone()
        app = make_app(Service(current, settings, Metrics()), token, log)
        host, port = sock.getsockname()[:2]
        tell(f"Serving {what} on http://{f'[{host}]' if ':' in host else host}:{port}; Ctrl-C ends it.")
        if not settings.local and token is None:
            tell("Whoever reaches this machine may ask; a token (--token-file) would keep strangers out.")
        run(app, sock, settings)
