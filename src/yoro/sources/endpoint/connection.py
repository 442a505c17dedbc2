"""One HTTP exchange with an endpoint, bounded in time and size."""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx

from yoro import limits
from yoro.environment import __version__
from yoro.errors import AnswerError, SourceError
from yoro.sources.endpoint.config import EndpointConfig
from yoro.sources.endpoint.template import Encoded, filled


@dataclass(frozen=True)
class HttpResponse:
    """A response that was read whole."""

    status: int
    headers: Mapping[str, str]
    content: bytes


def make_clients(config: EndpointConfig, credentials: Mapping[str, str]) -> list[httpx.AsyncClient]:
    """One client per connection, because a shared pool would search all its connections for every request.

    They follow no redirects, and take no proxies or passwords from the environment.
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


def request_fields(config: EndpointConfig, keys: Sequence[bytes], images: Sequence[Encoded]) -> dict[str, object]:
    """The keyword arguments of an httpx request that sends the images: headers and a body."""
    image, several = images[0], hashlib.sha256(b"".join(keys)).digest()
    named = {"idempotency-key": (keys[0] if len(keys) == 1 else several).hex()}
    if config.body is not None:
        return {"json": filled(config.body, [one.values for one in images]), "headers": named}
    if config.form is not None or len(images) > 1:
        ending = image.media_type.partition("/")[2]
        parts = [(config.form or "images", (f"image.{ending}", one.content, one.media_type)) for one in images]
        return {"files": parts, "headers": named}
    return {"content": image.content, "headers": named | {"content-type": image.media_type}}


async def send_request(
    client: httpx.AsyncClient, method: str, url: str, seconds: float, fields: Mapping[str, object]
) -> HttpResponse:
    """The response to a request, bounded in size, within `seconds` in all.

    Too late is a ConnectTimeout if nothing was sent yet, and a ReadTimeout otherwise.
    """
    begun = False

    async def trace(event: str, _: object) -> None:
        nonlocal begun
        begun = begun or event.startswith("http11.send_request")

    try:
        async with (
            asyncio.timeout(seconds),
            client.stream(method, url, extensions={"trace": trace}, **fields) as answer,  # type: ignore[arg-type]
        ):
            content = bytearray()
            if answer.headers.get("content-encoding", "identity") != "identity":
                raise AnswerError("the answer is compressed, although we asked for none")
            async for part in answer.aiter_raw():
                content += part
                if len(content) > limits.ENDPOINT_ANSWER_BYTES:
                    raise AnswerError(f"the answer has more than {limits.ENDPOINT_ANSWER_BYTES:,} bytes")
            return HttpResponse(answer.status_code, answer.headers, bytes(content))
    except TimeoutError:
        late = httpx.ReadTimeout if begun else httpx.ConnectTimeout
        raise late(f"no complete response within {seconds:g} s") from None


def _trusted(certificates: Path | None) -> ssl.SSLContext:
    """Trust the usual certificate authorities, or those of the file and no others."""
    if certificates is None:
        return httpx.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=certificates)
    except (OSError, ssl.SSLError) as error:
        said = error.strerror or str(error)
        raise SourceError(f"No certificates can be read from '{certificates}' ({said}).") from None
