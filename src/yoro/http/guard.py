"""The guard in front of both servers: DNS rebinding, cross-site requests, token, size and time limits; and the log."""

from __future__ import annotations

import asyncio
import hmac
import math
import re
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from yoro.errors import plain
from yoro.http.errors import RefusedError, busy
from yoro.http.settings import ServeSettings

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})  # they change nothing
WITHOUT_TOKEN = frozenset({"/healthz"})
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[\w.-]+)(?::\d*)?", re.ASCII)
LOGGED_LENGTH = 200  # characters of a path in the log
SAFE_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
PAGE_HEADERS = {  # of a server whose pages load nothing from elsewhere
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; media-src 'self' blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "permissions-policy": "camera=(self), microphone=(), geolocation=()",
    "referrer-policy": "no-referrer",
}

Log = Callable[[str], None]


@dataclass(frozen=True)
class Access:
    """Who may ask, beside the limits that the settings declare.

    token : that every request must carry; None if there is none.
    private : prefix of paths that pages of other sites may not even read.
    open : paths that need no token.
    headers : added to every response.
    """

    token: str | None = None
    private: str | None = None
    open: frozenset[str] = WITHOUT_TOKEN
    headers: Mapping[str, str] = field(default_factory=dict)


class Guard:
    """An ASGI application in front of another, which sees a request once its body has arrived.

    The bodies of all requests together are bounded; where they are too many bytes, the largest that has not arrived
    whole makes room.

    record : called with path, status and seconds of every request that has ended.
    shut_down : called as soon as a graceful shutdown begins, so that long polls can return.
    """

    def __init__(
        self, app: ASGIApp, settings: ServeSettings, access: Access, log: Log,
        record: Callable[[str, int, float], None] = lambda *_: None, shut_down: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._app, self._settings, self._access, self.log, self._record = app, settings, access, log, record
        self.shut_down = shut_down
        self._held = 0  # bytes of bodies
        self._arriving: dict[_Body, None] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange, body = _Exchange(send, {**SAFE_HEADERS, **self._access.headers}), _Body(receive)
        try:
            self._check(scope)
            if await self._collect(body):
                await self._app(scope, body.receive, exchange.send)
        except RefusedError as refusal:
            await refusal.response()(scope, receive, exchange.send)
        except Exception:  # it was answered with 500, or the answer had begun
            self.log(plain(traceback.format_exc(), keep="\n"))
        finally:
            self._held -= body.held
            self._note(scope, exchange, body)

    async def _collect(self, body: _Body) -> bool:
        """Take in a whole body within its limits of size and time; False if the client has left."""
        self._arriving[body] = None
        try:
            async with asyncio.timeout(self._settings.read_seconds) as body.timeout:
                while not body.whole:
                    more = await body.take()
                    if more is None:
                        return False
                    self._check_size(body.size)
                    self._hold(body, more)
        except TimeoutError:
            if not body.dropped:
                said = f"The body did not arrive within {self._settings.read_seconds:g} s."
                raise RefusedError(408, said, {"connection": "close"}) from None
        finally:
            del self._arriving[body]
        if body.dropped:
            raise busy("Too many bytes are being read from other clients", 1)
        return True

    def _hold(self, body: _Body, more: int) -> None:
        """Make room for more bytes of a body, if need be by dropping the largest that is arriving."""
        self._held += more
        body.held += more
        while self._held > self._settings.held_bytes:
            largest = max(self._arriving, key=lambda one: one.held)
            if not largest.held or largest is body:
                raise busy("Too many bytes are being read from other clients", 1)
            self._held -= largest.held
            largest.drop()

    def _check(self, scope: Scope) -> None:
        headers: list[tuple[bytes, bytes]] = scope["headers"]
        host = _only(headers, b"host")
        # DNS rebinding: a page of another site that points its own name at this machine sends that name as its host.
        if self._settings.local and _name(host) not in LOCAL_NAMES | {self._settings.host}:
            raise RefusedError(
                403, f"Unknown host {plain(host)[:LOGGED_LENGTH]!r}: this server answers this machine only."
            )
        private = self._access.private is not None and scope["path"].startswith(self._access.private)
        if (private or scope["method"] not in SAFE_METHODS) and _is_cross_site(headers, host):
            raise RefusedError(403, "Cross-site request refused: pages of other sites may not use this server.")
        if self._access.token is not None and scope["path"] not in self._access.open:
            scheme, _, token = _only(headers, b"authorization").partition(" ")
            known = hmac.compare_digest(token.strip().encode(), self._access.token.encode())
            if scheme.lower() != "bearer" or not known:
                said = "The token is missing or wrong; send the header 'Authorization: Bearer TOKEN'."
                raise RefusedError(401, said, {"www-authenticate": "Bearer"})
        declared = _only(headers, b"content-length")
        self._check_size(int(declared) if declared.isdecimal() else 0)

    def _check_size(self, size: int) -> None:
        if size > self._settings.body_bytes:
            said = f"The body is larger than {self._settings.most_megabytes} MB"
            told = f"{said}; send fewer or smaller files per request."
            raise RefusedError(413, told, {"connection": "close"})

    def _note(self, scope: Scope, exchange: _Exchange, body: _Body) -> None:
        """Record the request, and log one line: of the content only its size."""
        seconds = time.perf_counter() - exchange.started
        self._record(scope["path"], exchange.status, seconds)
        client = scope["client"][0] if scope.get("client") else "-"
        when = datetime.now(UTC).isoformat(timespec="milliseconds")
        what = f"{plain(scope['method'])} {plain(scope['path'])[:LOGGED_LENGTH]}"
        self.log(f"{when} {client} {what} {exchange.status} {1e3 * seconds:.1f} ms, {body.size:,} bytes")


class _Exchange:
    """Sends a response with extra headers, and remembers its status; 499 if the client left first."""

    def __init__(self, send: Send, headers: Mapping[str, str]) -> None:
        self.status, self.started = 499, time.perf_counter()
        self._send, self._headers = send, [(name.encode(), value.encode()) for name, value in headers.items()]

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *self._headers]}
        await self._send(message)


class _Body:
    """The body of a request, as far as it has arrived."""

    def __init__(self, receive: Receive) -> None:
        self.size, self.held = 0, 0  # bytes that have come, and that are kept
        self.whole, self.dropped = False, False
        self.timeout = asyncio.timeout(None)
        self._receive = receive
        self._messages: deque[Message] = deque()

    async def take(self) -> int | None:
        """Wait for the next piece, and say how large it is; None if the client has left."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            return None
        self._messages.append(message)
        self.whole = not message.get("more_body", False)
        more = len(message.get("body", b""))
        self.size += more
        return more

    def drop(self) -> None:
        """Forget what has come, and end the wait for the rest."""
        self.dropped, self.held = True, 0
        self._messages.clear()
        with suppress(RuntimeError):  # it is expiring anyway
            self.timeout.reschedule(-math.inf)

    async def receive(self) -> Message:
        """What has arrived, piece by piece; after that, that the client has left."""
        return self._messages.popleft() if self._messages else await self._receive()


def _is_cross_site(headers: Iterable[tuple[bytes, bytes]], host: str) -> bool:
    """Whether a request comes from a page of another site, by what the browser says of its origin."""
    origin, site = _only(headers, b"origin"), _only(headers, b"sec-fetch-site")
    return bool(origin and origin.partition("://")[2] != host) or site in ("cross-site", "same-site")


def _only(headers: Iterable[tuple[bytes, bytes]], wanted: bytes) -> str:
    """The value of a header; empty if it is missing, or came several times with different values."""
    values = {value.decode("latin-1") for name, value in headers if name == wanted}
    return values.pop() if len(values) == 1 else ""


def _name(host: str) -> str:
    """The name in a Host header, without the port; empty if it holds anything else.

    >>> _name("localhost:8321"), _name("[::1]:8321"), _name("rebound.example"), _name("user@localhost")
    ('localhost', '::1', 'rebound.example', '')
    """
    found = HOST.fullmatch(host)
    return found[1].strip("[]").lower() if found else ""
