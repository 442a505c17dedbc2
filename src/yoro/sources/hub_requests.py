"""Requests to a model hub by the standard library: redirects, the token and errors judged here."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from http.client import HTTPException, HTTPResponse
from typing import TypeAlias
from urllib import request
from urllib.error import HTTPError
from urllib.parse import urljoin, urlsplit
from urllib.response import addinfourl

from yoro.environment import __version__
from yoro.errors import SourceError, one_line, plain
from yoro.sources.weight_caches import HUB

TRUE = ("1", "on", "yes", "true")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
MOVED = (301, 302, 303, 307, 308)
REDIRECTS = 5
TIMEOUT = 20.0  # seconds without a byte
# HTTP and HTTPS, through the proxies of the environment, and no other scheme; redirects are errors.
HANDLERS = (
    *(request.ProxyHandler, request.UnknownHandler, request.HTTPHandler, request.HTTPSHandler),
    *(request.HTTPDefaultErrorHandler, request.HTTPErrorProcessor),
)


class HubAwayError(SourceError):
    """The hub cannot be reached, is out of order, or must not be asked."""


class HubRefusalError(SourceError):
    """The hub's answer was an error; `status` is that of HTTP."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


HubAnswer: TypeAlias = HTTPResponse | addinfourl


def ask(method: str, url: str, what: str, *, headers: Mapping[str, str] | None = None, stay: bool = False) -> HubAnswer:
    """The answer to a request; `stay` asks no other host, and takes a redirect that states a digest as the answer."""
    if os.environ.get("HF_HUB_OFFLINE", "").lower() in TRUE:
        raise HubAwayError(f"{what} would have to be downloaded, but HF_HUB_OFFLINE is set.")
    opener = request.OpenerDirector()
    for handler in HANDLERS:
        opener.add_handler(handler())
    for _ in range(REDIRECTS):
        sent = {"User-Agent": f"yoro/{__version__}", "Accept-Encoding": "identity", **(headers or {}), **_token(url)}
        try:
            found: HTTPResponse = opener.open(request.Request(url, method=method, headers=sent), timeout=TIMEOUT)
            return found
        except HTTPError as error:
            error.close()  # its headers can still be read
            if error.code not in MOVED:
                raise _refusal(error, what) from None
            place = _redirected(url, error.headers.get("Location") or "", what)
            if stay and ("X-Linked-ETag" in error.headers or _origin(place) != _origin(url)):
                return error
            url = place
        except Exception as error:  # of urllib, of sockets, or of a guard over them
            reason = getattr(error, "reason", error)  # of urllib's wrapping
            why = getattr(reason, "strerror", None) or one_line(error)
            raise HubAwayError(f"{urlsplit(url).netloc} cannot be reached ({str(why)[:120]}).") from None
    raise SourceError(f"{hub_host()} redirects more than {REDIRECTS} times for {what}.")


def read_some(answer: HubAnswer, amount: int) -> bytes:
    """Some bytes of an answer; none if the connection broke."""
    with suppress(OSError, HTTPException):
        return answer.read(amount)
    return b""


def _redirected(url: str, location: str, what: str) -> str:
    """Where a redirect leads; one to another scheme than HTTPS (or HTTP from HTTP) is an error."""
    place = urljoin(url, location)
    parts = urlsplit(place)
    allowed = ("https",) if urlsplit(url).scheme == "https" else ("https", "http")
    if not location or parts.scheme not in allowed or not parts.hostname or "@" in parts.netloc:
        raise SourceError(f"{hub_host()} redirects {what} to {plain(place)[:120]!r}, which is not followed.")
    return place


def _refusal(error: HTTPError, what: str) -> SourceError:
    """What an error of HTTP means, in a sentence."""
    host, kind = hub_host(), error.headers.get("X-Error-Code", "")
    if error.code >= 500 or error.code == 429:
        return HubAwayError(f"{host} is unavailable (HTTP {error.code}); try again later.")
    if error.code == 403 or kind == "GatedRepo":
        said = f"{host} refuses access to {what}: request it on its page, and set HF_TOKEN to your token."
    elif error.code == 401:
        said = f"{host} has no public {what}. If it is private or gated, set HF_TOKEN to your token."
    elif error.code == 404:
        said = f"{host} has no {what}. Check the spelling on its page."
    else:
        said = f"{host} refused {what} (HTTP {error.code})."
    return HubRefusalError(said, error.code)


def hub_address() -> str:
    """The address of the hub: HF_ENDPOINT, else Hugging Face's own."""
    address = (os.environ.get("HF_ENDPOINT") or HUB).rstrip("/")
    parts = urlsplit(address)
    if parts.scheme not in ("https", "http") or not parts.hostname or parts.query or "@" in parts.netloc:
        raise SourceError(f"HF_ENDPOINT is {plain(address)[:120]!r}; expected the address of a hub, such as {HUB}.")
    return address


def hub_host() -> str:
    """The host of the hub, and its port if it has one of its own."""
    return urlsplit(hub_address()).netloc


def _origin(url: str) -> tuple[str, str]:
    return urlsplit(url).scheme, urlsplit(url).netloc.lower()


def _token(url: str) -> dict[str, str]:
    """HF_TOKEN for the hub's own address, if nobody can listen; for any other address nothing."""
    token, parts = os.environ.get("HF_TOKEN", "").strip(), urlsplit(url)
    private = parts.scheme == "https" or parts.hostname in LOOPBACK
    return {"Authorization": f"Bearer {token}"} if token and private and _origin(url) == _origin(hub_address()) else {}
