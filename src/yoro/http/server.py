"""A web server as a process: its socket, idle connections closed, graceful shutdown."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import math
import os
import signal
import socket
import ssl
import sys
import threading
import webbrowser
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from types import FrameType
from typing import TypeVar, cast

import uvicorn
from fastapi import FastAPI
from fastapi.responses import Response
from uvicorn.protocols.http.h11_impl import H11Protocol

from yoro.errors import InputError
from yoro.http.guard import Guard, Log
from yoro.http.priority import lower_priority, prompt_event_loop, single_threaded_blas
from yoro.http.settings import ServeSettings
from yoro.http.supervisor import Supervisor

SPARE_CONNECTIONS = 32  # beyond the limit, for `/healthz` while all others are being answered
ADDRESS_SHARE = 0.5  # share of the connections that one client address may hold
SPARE_FILES = 256  # that a server needs beside its connections
ACCEPTED_AT_ONCE = 16  # new connections; then those that are open have their turn
LISTEN_AGAIN = 2.0  # seconds: without descriptors, asyncio stops accepting for one, and sets a backlog of its own
BACKLOG = 4096  # connections that the system keeps until they are accepted; a client beyond it waits a second
SECONDS_BETWEEN_WARNINGS = 60.0
SPARE_SECONDS = 5.0  # seconds that a graceful shutdown waits beyond the longest request
Loaded = TypeVar("Loaded")


class _Room:
    """The open connections of a server, and which of them wait for their clients to send a whole request.

    When there are too many, one that has been waited for longest, of the client that has most of them, makes room for a
    new one, so that clients which open connections and never send a whole request keep nobody out. No address may hold
    more than its share of them, except this machine's own, which is that of a reverse proxy.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()
        self._waiting: dict[str, dict[Connection, None]] = {}  # by address, the longest waited for first

    def enter(self, one: Connection) -> None:
        """Take a new connection in, if need be for another, or close it."""
        held, mine = self._open.total(), self._open[one.address]
        self._open[one.address] += 1
        self._waiting.setdefault(one.address, {})
        if mine >= ADDRESS_SHARE * self._most and not _is_own(one.address):
            if not self._close_one(one.address):
                one.transport.abort()
        elif held >= self._most and not self._close_one() and held >= self._most + SPARE_CONNECTIONS:
            one.transport.abort()
        self.wait_for(one)

    def leave(self, one: Connection) -> None:
        """A connection has been closed."""
        self.wait_for(one, False)
        self._open[one.address] -= 1
        if not self._open[one.address]:
            del self._open[one.address], self._waiting[one.address]

    def wait_for(self, one: Connection, waits: bool = True) -> None:
        """Whether a connection waits for its client from now on; otherwise a request of it is being answered."""
        waiting = self._waiting.get(one.address, {})  # none of an address that has left
        if waits:
            waiting.setdefault(one)
        else:
            waiting.pop(one, None)

    def _close_one(self, address: str | None = None) -> bool:
        """Close the connection that has been waited for longest, of one address or of that with most; False if none."""
        waiting = max(self._waiting.values(), key=len, default={}) if address is None else self._waiting[address]
        one = next(iter(waiting), None)
        if one is not None:
            del waiting[one]
            one.transport.abort()
        return one is not None


class Connection(H11Protocol):
    """One connection; it is closed after a while without a request, or with a response that nobody reads."""

    room: _Room
    header_seconds: float
    address = ""
    _idle: asyncio.TimerHandle | None = None
    _stuck: asyncio.TimerHandle | None = None
    _asked = False  # whether the head of a request has arrived

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(cast("asyncio.Transport", transport))
        self.address = self.client[0] if self.client else ""
        self._watch_idle()
        self.room.enter(self)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch_idle()
        self.room.wait_for(self, self._idle is not None or bool(self.cycle.more_body))

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch_idle()
        self.room.wait_for(self, not self.transport.is_closing())

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.room.leave(self)
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

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for sock in sockets or ():
            sock.listen(BACKLOG)  # asyncio took what it accepts at once for that

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


class SecondServer(uvicorn.Server):
    """A server beside another in one process, which alone hears signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def second_server(
    app: Guard, sock: socket.socket, settings: ServeSettings, context: ssl.SSLContext
) -> AsyncIterator[None]:
    """Serve a second application, by TLS, on the running event loop."""
    config = _config(app, settings)
    config.lifespan = "off"
    config.load()
    config.ssl = context
    server = SecondServer(config)
    task = asyncio.create_task(server.serve(sockets=[sock]))
    try:
        yield
    finally:
        server.should_exit = True
        await task


def add_file(app: FastAPI, path: str, content: bytes, kind: str) -> None:
    """Give a file of a page, which is held in memory, at an address."""

    async def file() -> Response:
        return Response(content, media_type=kind)

    app.get(path, include_in_schema=False)(file)


def open_browser(page: str) -> None:
    """Open a page in the user's browser, which may take its time; without a screen, nothing happens."""
    if _has_screen():
        threading.Thread(target=webbrowser.open, args=(page,), daemon=True).start()


def _has_screen() -> bool:
    if os.environ.get("CI"):
        return False
    if sys.platform in ("win32", "darwin"):
        return not os.environ.get("SSH_CONNECTION")
    return any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))


def run_server(
    settings: ServeSettings, load: Callable[[], Loaded], build: Callable[[Loaded, str], Guard], log: Log = print
) -> None:
    """Listen, load, build the application and serve it until the process is told to stop.

    load : opens the network, in a helper thread of lower priority, which the threads of the network inherit.
    build : makes the application of what was loaded; it is given the address and may announce it. With several
        processes, only the first is given one.
    """
    with ExitStack() as stack:
        sockets = [stack.enter_context(listen(settings))]
        port = sockets[0].getsockname()[1]
        sockets += [stack.enter_context(listen(settings, port)) for _ in range(1, settings.processes)]
        supervisor = Supervisor(sockets, log) if settings.processes > 1 else None
        number = 0 if supervisor is None else supervisor.run()
        sock = sockets[number]
        with ThreadPoolExecutor(1, initializer=lower_priority) as helper:
            loaded = helper.submit(load).result()
        single_threaded_blas()
        prompt_event_loop()
        host, port = sock.getsockname()[:2]
        address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
        app = build(loaded, "" if number else address)
        if supervisor is not None:
            supervisor.loaded(number)
        logging.getLogger("uvicorn").setLevel(logging.CRITICAL)
        gc.freeze()  # no collection need look at what stays
        server = Server(_config(app, settings), app.shut_down)
        asyncio.run(_run(server, sock, app.log))
        if server.interrupted:
            raise KeyboardInterrupt


def _config(app: Guard, settings: ServeSettings) -> uvicorn.Config:
    _allow_files(settings.connections)
    limits = {"room": _Room(settings.connections), "header_seconds": settings.header_seconds}
    connection = type("LimitedConnection", (Connection,), limits)
    return uvicorn.Config(
        app, http=connection, ws="none", loop="asyncio", lifespan="on", interface="asgi3",
        log_config=None, access_log=False, server_header=False, proxy_headers=False,
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=settings.idle_seconds,  # type: ignore[arg-type]  # passed on to call_later
        timeout_graceful_shutdown=int(settings.read_seconds + settings.answer_seconds + SPARE_SECONDS),
    )  # fmt: skip


async def _run(server: Server, sock: socket.socket, log: Log) -> None:
    last = -math.inf

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        nonlocal last
        if isinstance(context.get("exception"), OSError) and "accept" in str(context.get("message")):
            if loop.time() - last > SECONDS_BETWEEN_WARNINGS:
                last = loop.time()
                log(f"No more connections can be accepted for now: {context['exception']}.")
            loop.call_later(LISTEN_AGAIN, sock.listen, BACKLOG)
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
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))


def listen(settings: ServeSettings, port: int | None = None) -> socket.socket:
    """A socket that clients can already connect to; they wait until the model is loaded."""
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        place = settings.host, settings.port if port is None else port
        sock = socket.create_server(place, family=family, backlog=BACKLOG, reuse_port=settings.processes > 1)
        # Connections inherit this. Without it the body of a response, written after its head, waits 40 ms for an
        # acknowledgement; asyncio sets it only where the protocol of a socket was named.
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock
    except OSError as error:
        said = f"Cannot listen on {settings.host}, port {settings.port} ({error.strerror or error})."
        raise InputError(f"{said} Choose another --port or --host.") from None
