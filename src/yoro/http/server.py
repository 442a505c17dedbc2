"""A web server as a process: its socket, idle connections closed, and a graceful shutdown."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from yoro.errors import InputError
from yoro.http.settings import ServeSettings

SPARE = 5.0  # seconds beyond the longest request that an end waits for


class Connection(H11Protocol):
    """One connection; without a request in work, or with an answer that is not read, it is closed after a while."""

    _timer: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._mind()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._mind()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._mind()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        for timer in (self._timer, self._stuck):
            if timer is not None:
                timer.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stuck is not None:
            self._stuck.cancel()

    def _mind(self) -> None:
        """While a request is in work it has limits of its own; else the time runs from the end of the last one."""
        if self.cycle is not None and not self.cycle.response_complete:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None
        elif self._timer is None:
            self._timer = self.loop.call_later(self.timeout_keep_alive, self.transport.abort)


class Server(uvicorn.Server):
    """Ends with what runs finished on SIGTERM and Ctrl-C; a second Ctrl-C does not wait."""

    interrupted = False
    ending: Callable[[], None]

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
        self.ending()
        super().handle_exit(sig, frame)


def run(app: ASGIApp, sock: socket.socket, settings: ServeSettings, ending: Callable[[], None] = lambda: None) -> None:
    """Answer by an application until the process is told to end; `ending` is called as soon as it is."""
    config = uvicorn.Config(
        app, http=Connection, ws="none", loop="asyncio", lifespan="on", interface="asgi3",
        log_config=None, access_log=False, server_header=False, proxy_headers=False,
        limit_concurrency=settings.connections, backlog=settings.connections,
        timeout_keep_alive=settings.idle_seconds,  # type: ignore[arg-type]  # given on to call_later
        timeout_graceful_shutdown=int(settings.read_seconds + settings.answer_seconds + SPARE),
    )  # fmt: skip
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    server = Server(config)
    server.ending = ending
    asyncio.run(server.serve(sockets=[sock]))
    if server.interrupted:
        raise KeyboardInterrupt


def listening(settings: ServeSettings) -> socket.socket:
    """A socket that clients can already connect to; they wait until the model is there."""
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        sock = socket.create_server((settings.host, settings.port), family=family, backlog=settings.connections)
        # Connections take this over. Without it the body of an answer, written after its head, waits 40 ms for an
        # acknowledgement; asyncio sets it only where the protocol of a socket was named.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    except OSError as error:
        said = error.strerror or str(error)
        raise InputError(
            f"Nothing can listen on {settings.host}, port {settings.port} ({said}). Give another --port or --host."
        ) from None
