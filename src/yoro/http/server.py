"""A web server as a process: its socket, idle connections closed, graceful shutdown."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import math
import signal
import socket
import sys
import threading
import webbrowser
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar, cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from yoro.errors import InputError
from yoro.http.guard import Guard, Log
from yoro.http.priority import lower_priority, single_threaded_blas
from yoro.http.settings import ServeSettings

SPARE_CONNECTIONS = 32  # beyond the limit, for `/healthz` while all others are being answered
ADDRESS_SHARE = 0.5  # of the connections that one client address may hold
SPARE_FILES = 256  # that a server needs beside its connections
SECONDS_BETWEEN_WARNINGS = 60.0
SPARE_SECONDS = 5.0  # that a graceful shutdown waits beyond the longest request
Loaded = TypeVar("Loaded")


class Connection(H11Protocol):
    """One connection; it is closed after a while without a request, or with a response that nobody reads.

    When there are too many, one that has been waited for longest, of the client that has most of them, makes room for a
    new one, so that clients which open connections and never send a whole request keep nobody out. No address may hold
    more than its share of them, except this machine's own, which is that of a reverse proxy.
    """

    most: int
    header_seconds: float
    _idle: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None
    _asked = False  # whether the head of a request has arrived
    _since = 0.0  # the loop's time when it began to wait for a request

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self._since = self.loop.time()
        self._watch_idle()
        others = [
            one
            for one in self.connections
            if isinstance(one, Connection) and one is not self and not one.transport.is_closing()
        ]
        mine = [one for one in others if one._address == self._address]
        if len(mine) >= ADDRESS_SHARE * self.most and not _is_own(self._address):
            self._make_room(mine, 0)
        elif len(others) >= self.most:
            self._make_room(others, SPARE_CONNECTIONS)

    def _make_room(self, others: list[Connection], spare: int) -> None:
        waiting = [one for one in others if one._waits]
        if waiting:
            counts = Counter(one._address for one in waiting)
            min(waiting, key=lambda one: (-counts[one._address], one._since)).transport.abort()
        elif not spare or len(others) >= self.most + spare:
            self.transport.abort()

    @property
    def _waits(self) -> bool:
        """Whether it waits for its client to send a whole request; otherwise one is being answered."""
        return self._idle is not None or (self.cycle is not None and bool(self.cycle.more_body))

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_idle()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._since = self.loop.time()
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
            self._asked = True
            if self._idle is not None:
                self._idle.cancel()
            self._idle = None
        elif self._idle is None:
            seconds = self.timeout_keep_alive if self._asked else min(self.header_seconds, self.timeout_keep_alive)
            self._idle = self.loop.call_later(seconds, self.transport.abort)


def _is_own(address: str) -> bool:
    """Whether a client runs on this machine, as a reverse proxy does; a socket of the file system has no address.

    >>> _is_own("127.0.0.1"), _is_own("::1"), _is_own("10.0.0.7"), _is_own("")
    (True, True, False, True)
    """
    return not address or ipaddress.ip_address(address.partition("%")[0]).is_loopback


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


def open_browser(page: str) -> None:
    """Open a page in the user's browser, which may take its time."""
    threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()


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
    _allow_files(settings.connections)
    limits = {"most": settings.connections, "header_seconds": settings.header_seconds}
    connection = type("LimitedConnection", (Connection,), limits)
    config = uvicorn.Config(
        app, http=connection, ws="none", loop="asyncio", lifespan="on", interface="asgi3",
        log_config=None, access_log=False, server_header=False, proxy_headers=False,
        backlog=settings.connections,
        timeout_keep_alive=settings.idle_seconds,  # type: ignore[arg-type]  # passed on to call_later
        timeout_graceful_shutdown=int(settings.read_seconds + settings.answer_seconds + SPARE_SECONDS),
    )  # fmt: skip
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
    server = Server(config, app.shut_down)
    asyncio.run(_run(server, sock, app.log))
    if server.interrupted:
        raise KeyboardInterrupt


async def _run(server: Server, sock: socket.socket, log: Log) -> None:
    last = -math.inf

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        nonlocal last
        if isinstance(context.get("exception"), OSError) and "accept" in str(context.get("message")):
            if loop.time() - last > SECONDS_BETWEEN_WARNINGS:
                last = loop.time()
                log(f"No more connections can be accepted for now: {context['exception']}.")
        else:
            loop.default_exception_handler(context)

    asyncio.get_running_loop().set_exception_handler(handle)
    await server.serve(sockets=[sock])


def _allow_files(connections: int) -> None:
    """Raise this process's limit on open files so that every connection has one, as far as the system allows."""
    if sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard)
        )


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
