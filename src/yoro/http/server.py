"""A web server as a process: its socket, idle connections closed, graceful shutdown."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from yoro.errors import InputError
from yoro.http.guard import Guard
from yoro.http.priority import lower_priority, single_threaded_blas
from yoro.http.settings import ServeSettings

SPARE_SECONDS = 5.0  # that a graceful shutdown waits beyond the longest request
Loaded = TypeVar("Loaded")


class Connection(H11Protocol):
    """One connection; it is closed after a while without a request, or with a response that nobody reads."""

    _idle: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._watch_idle()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_idle()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_idle()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._idle, self._stuck):
            if timer is not None:
                timer.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()

    def _watch_idle(self) -> None:
        """Start the idle timer, unless a request is being served: that has time limits of its own."""
        if self.cycle is not None and not self.cycle.response_complete:
            if self._idle is not None:
                self._idle.cancel()
            self._idle = None
        elif self._idle is None:
            self._idle = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)


class Server(uvicorn.Server):
    """Shuts down gracefully on SIGTERM and Ctrl-C: running requests are finished; a second Ctrl-C does not wait."""

    interrupted = False

    def __init__(self, config: uvicorn.Config, shut_down: Callable[[], None]) -> None:
        super().__init__(config)
        self._shut_down = shut_down

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.interrupted |= sig == signal.SIGINT
        self._shut_down()
        super().handle_exit(sig, frame)


def run_server(settings: ServeSettings, load: Callable[[], Loaded], build: Callable[[Loaded, str], Guard]) -> None:
    """Listen, load, build the application and serve it until the process is told to stop.

    load : opens the network, in a helper thread of lower priority, which the threads of the network inherit.
    build : makes the application of what was loaded; it is given the address and may announce it.
    """
    with listen(settings) as sock:
        with ThreadPoolExecutor(1, initializer=lower_priority) as helper:
            loaded = helper.submit(load).result()
        single_threaded_blas()
        host, port = sock.getsockname()[:2]
        _serve(build(loaded, f"http://{f'[{host}]' if ':' in host else host}:{port}"), sock, settings)


def _serve(app: Guard, sock: socket.socket, settings: ServeSettings) -> None:
    config = uvicorn.Config(
        app, http=Connection, ws="none", loop="asyncio", lifespan="on", interface="asgi3",
        log_config=None, access_log=False, server_header=False, proxy_headers=False,
        limit_concurrency=settings.connections, backlog=settings.connections,
        timeout_keep_alive=settings.idle_seconds,  # type: ignore[arg-type]  # passed on to call_later
        timeout_graceful_shutdown=int(settings.read_seconds + settings.answer_seconds + SPARE_SECONDS),
    )  # fmt: skip
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    server = Server(config, app.shut_down)
    asyncio.run(server.serve(sockets=[sock]))
    if server.interrupted:
        raise KeyboardInterrupt


def listen(settings: ServeSettings) -> socket.socket:
    """A socket that clients can already connect to; they wait until the model is loaded."""
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        sock = socket.create_server((settings.host, settings.port), family=family, backlog=settings.connections)
        # Connections inherit this. Without it the body of a response, written after its head, waits 40 ms for an
        # acknowledgement; asyncio sets it only where the protocol of a socket was named.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    except OSError as error:
        said = error.strerror or str(error)
        raise InputError(
            f"Cannot listen on {settings.host}, port {settings.port} ({said}). Choose another --port or --host."
        ) from None
