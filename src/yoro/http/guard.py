"""What every request passes: checks of host, origin, token, size and time; and the log of what became of it."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
import traceback
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from yoro.errors import plain
from yoro.http.metrics import Metrics
from yoro.http.refusals import RefusedError, busy
from yoro.http.settings import ServeSettings

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})  # methods that change nothing
OPEN = frozenset({"/healthz"})  # paths that need no token
SHOWN = 200  # characters of a path in the log

Log = Callable[[str], None]


class Guard:
    """An application in front of another. It holds no request, but counts the bytes that all of them hold."""

    def __init__(
        self, app: ASGIApp, settings: ServeSettings, token: str | None, metrics: Metrics, log: Log,
        routes: Collection[str],
    ) -> None:  # fmt: skip
        self._app, self._settings, self._metrics, self._log = app, settings, metrics, log
        self._token = None if token is None else token.encode()
        self._routes = frozenset(routes)  # that the metrics know; others are one
        self._held = 0  # bytes of bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(send)
        body = _Body(self, receive)
        try:
            self._check(scope)
            await self._app(scope, body.receive, exchange.send)
        except RefusedError as refusal:
            await refuse(refusal, exchange.send)
        except Exception:  # it was answered with 500, or the answer had begun
            self._log(plain(traceback.format_exc(), keep="\n"))
        finally:
            self._held -= body.size
            self._note(scope, exchange, body)

    def hold(self, more: int, size: int) -> None:
        """Make room for more bytes of a body that has `size` with them; a RefusedError if there is none."""
        if size > self._settings.body_bytes:
            raise too_large(self._settings)
        if self._held + more > self._settings.held_bytes:
            raise busy("Too many bytes are being read from other clients", 1)
        self._held += more

    @property
    def read_seconds(self) -> float:
        """That a client may take to send a body."""
        return self._settings.read_seconds

    def _check(self, scope: Scope) -> None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        host = _one(headers, b"host")
        if self._settings.local and _name(host) not in LOCAL_NAMES | {self._settings.host}:
            raise RefusedError(403, f"This service listens for this machine alone, not as {plain(host)[:SHOWN]!r}.")
        if scope["method"] not in HARMLESS:
            origin = _one(headers, b"origin")
            if (origin and origin.partition("://")[2] != host) or _one(headers, b"sec-fetch-site") in (
                "cross-site",
                "same-site",
            ):
                raise RefusedError(
                    403, "The request comes from a page of another site, which may not ask this service."
                )
        if self._token is not None and scope["path"] not in OPEN:
            scheme, _, token = _one(headers, b"authorization").partition(" ")
            if scheme.lower() != "bearer" or not hmac.compare_digest(token.strip().encode(), self._token):
                said = "The token is missing or wrong; send the header 'Authorization: Bearer TOKEN'."
                raise RefusedError(401, said, {"www-authenticate": "Bearer"})
        declared = _one(headers, b"content-length")
        if declared.isdecimal() and int(declared) > self._settings.body_bytes:
            raise too_large(self._settings)

    def _note(self, scope: Scope, exchange: _Exchange, body: _Body) -> None:
        """Count the request, and write a line of the log: of what came only its size."""
        seconds = time.perf_counter() - exchange.started
        path = scope["path"]
        self._metrics.request(path if path in self._routes else "other", exchange.status, seconds)
        client = scope["client"][0] if scope.get("client") else "-"
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        what = f"{plain(scope['method'])} {plain(path)[:SHOWN]}"
        self._log(f"{when} {client} {what} {exchange.status} {1e3 * seconds:.1f} ms, {body.size:,} bytes")


def too_large(settings: ServeSettings) -> RefusedError:
    """The body is beyond the limit."""
    most = settings.most_megabytes
    return RefusedError(413, f"The body has more than {most} MB; send fewer or smaller images, or several requests.")


async def refuse(refusal: RefusedError, send: Send) -> None:
    """Answer with what a refusal says."""
    body = json.dumps({"error": refusal.sentence}, ensure_ascii=False).encode()
    headers = {"content-type": "application/json", "content-length": str(len(body)), **refusal.headers}
    pairs = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": refusal.status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})


class _Exchange:
    """Sends an answer, and remembers its status; 499 is that of nobody having waited for one."""

    def __init__(self, send: Send) -> None:
        self.status, self.started = 499, time.perf_counter()
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            safe = [(b"x-content-type-options", b"nosniff"), (b"cache-control", b"no-store")]
            message = {**message, "headers": [*message.get("headers", ()), *safe]}
        await self._send(message)


class _Body:
    """Receives a body within its limits of size and time."""

    def __init__(self, guard: Guard, receive: Receive) -> None:
        self.size = 0
        self._guard, self._receive = guard, receive
        self._until = asyncio.get_running_loop().time() + guard.read_seconds
        self._whole = False

    async def receive(self) -> Message:
        if self._whole:  # what comes now is that the client has gone
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = await self._receive()
        except TimeoutError:
            said = f"The body was not there after {self._guard.read_seconds:g} s."
            raise RefusedError(408, said, {"connection": "close"}) from None
        more = len(message.get("body", b""))
        self._guard.hold(more, self.size + more)
        self.size += more
        self._whole = not message.get("more_body", False)
        return message


def _one(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str:
    """The value of a header; nothing where there is none, or where there are several that differ."""
    values = {value.decode("latin-1") for name, value in headers if name == wanted}
    return values.pop() if len(values) == 1 else ""


def _name(host: str) -> str:
    """The name in a Host header, without the port.

    >>> _name("localhost:8321"), _name("[::1]:8321"), _name("rebound.example")
    ('localhost', '::1', 'rebound.example')
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
