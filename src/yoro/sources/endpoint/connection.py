"""One exchange with an endpoint: what is sent, and what comes back within its bounds."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from yoro import limits
from yoro.environment import __version__
from yoro.errors import AnswerError, SourceError
from yoro.sources.endpoint.config import EndpointConfig
from yoro.sources.endpoint.template import Encoded, filled


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    content: bytes


def make_clients(config: EndpointConfig, credentials: Mapping[str, str]) -> list[httpx.AsyncClient]:
    """A client a connection: one pool of many would look through all of them for each request.

    They follow no redirect, and ask no environment for proxies or passwords.
    """
    usual = {"user-agent": f"yoro/{__version__}", "accept": "application/json", "accept-encoding": "identity"}
    verify = _trusted(config.certificates)
    return [
        httpx.AsyncClient(
            timeout=config.timeout, verify=verify, proxy=config.proxy, trust_env=False, follow_redirects=False,
            headers=usual | dict(credentials), limits=httpx.Limits(max_connections=1),
        )
        for _ in range(config.concurrency)
    ]  # fmt: skip


def request_fields(config: EndpointConfig, key: bytes, image: Encoded) -> dict[str, object]:
    """What a client is given to send an image: headers and a body."""
    named = {"idempotency-key": key.hex()}
    if config.body is not None:
        return {"json": filled(config.body, image.values), "headers": named}
    if config.form is not None:
        ending = image.media_type.partition("/")[2]
        return {"files": {config.form: (f"image.{ending}", image.content, image.media_type)}, "headers": named}
    return {"content": image.content, "headers": named | {"content-type": image.media_type}}


async def exchanged(
    client: httpx.AsyncClient, method: str, url: str, seconds: float, sent: Mapping[str, object]
) -> Answer:
    """The answer to a request, none of it longer than it may be; as a whole within the time given.

    What took too long is a ConnectTimeout where nothing was sent, and a ReadTimeout where something was.
    """
    begun = False

    async def trace(event: str, _: object) -> None:
        nonlocal begun
        begun = begun or event.startswith("http11.send_request")

    try:
        async with (
            asyncio.timeout(seconds),
            client.stream(method, url, extensions={"trace": trace}, **sent) as answer,  # type: ignore[arg-type]
        ):
            content = bytearray()
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise AnswerError("the answer came compressed, which was not asked for")
            async for part in answer.aiter_raw():
                content += part
                if len(content) > limits.ENDPOINT_ANSWER_BYTES:
                    raise AnswerError(f"the answer has more than {limits.ENDPOINT_ANSWER_BYTES:,} bytes")
            return Answer(answer.status_code, answer.headers, bytes(content))
    except TimeoutError:
        late = httpx.ReadTimeout if begun else httpx.ConnectTimeout
        raise late(f"nothing whole within {seconds:g} s") from None


def _trusted(certificates: Path | None) -> ssl.SSLContext:
    """Whose certificates are trusted: those of the usual authorities, or those of a file and no other."""
    if certificates is None:
        return httpx.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=certificates)
    except (OSError, ssl.SSLError) as error:
        said = error.strerror or str(error)
        raise SourceError(f"'{certificates}' holds no certificates that can be read ({said}).") from None
