"""The TOML file of an endpoint: address, headers, body, the path of the vector, rate limit and retries."""

from __future__ import annotations

import ipaddress
import math
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, get_args, get_type_hints
from urllib.parse import SplitResult, urlsplit

from yoro import limits
from yoro.errors import SourceError, did_you_mean
from yoro.files.reading import json_digest, read_bounded
from yoro.sources.endpoint import answer_parsing as answers
from yoro.sources.endpoint.template import check_template, is_repeatable

NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")  # of a header
VARIABLE = re.compile(r"[A-Za-z_]\w{0,99}")
RATE = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)/(s|min)")
SECRET = ("authorization", "proxy-authorization", "cookie", "x-api-key", "api-key", "x-goog-api-key", "x-auth-token")
OWN = ("content-type", "content-length", "host", "idempotency-key", "accept-encoding", "transfer-encoding")
RESPONSES = "/v1/responses"  # of `yoro serve --responses`
OURS = "responses[].response"  # where its vector is

Check = Callable[[str, object], object]  # the checked value of a setting, from its name and value


@dataclass(frozen=True)
class Header:
    """A header: the text in the file, or an environment variable whose value is stored nowhere."""

    text: str = ""
    env: str = ""

    def value(self, name: str) -> str:
        if not self.env:
            return self.text
        found = os.environ.get(self.env, "").strip()
        if not found or not found.isascii() or not found.isprintable():
            came = "is not set" if not found else "contains characters that a header cannot have"
            raise SourceError(f"The header {name!r} needs the environment variable {self.env}, which {came}.")
        return self.text + found


@dataclass(frozen=True)
class EndpointConfig:
    """A checked endpoint. Without `answer` it is a `yoro serve --responses`, which describes itself.

    Each field names the check of what a file says of it.
    """

    url: Annotated[str, check_url]
    method: Annotated[str, choice_check("POST", "PUT")] = "POST"
    headers: Annotated[Mapping[str, Header], _headers] = field(default_factory=dict)  # besides our own
    body: Annotated[Mapping[str, object] | None, check_template] = None  # JSON with placeholders for the image
    # The field of a form; with neither body nor form, the image is the body.
    form: Annotated[str | None, _text] = None
    answer: Annotated[str | None, _place] = None  # path of the vector in the JSON that comes back
    # In a request: the item of a list in the body that holds the image is repeated for each.
    images: Annotated[int, number_check(1, limits.ENDPOINT_IMAGES, whole=True)] = 1
    side: Annotated[int, number_check(1, limits.CANVAS_SIDE, whole=True)] = 224  # of the square that is sent
    encoding: Annotated[str, choice_check("png", "jpeg")] = "png"
    quality: Annotated[int, number_check(1, 100, whole=True)] = 95  # of a JPEG
    width: Annotated[int | None, number_check(1, limits.RESPONSE_WIDTH, whole=True)] = None  # of the vector, if known
    # Requests at once.
    concurrency: Annotated[int, number_check(1, limits.ENDPOINT_CONCURRENCY, whole=True)] = 8
    rate: Annotated[float | None, _rate] = None  # requests a second
    timeout: Annotated[float, number_check(0.01, 3600)] = 60.0  # seconds for one request
    retries: Annotated[int, number_check(0, 100, whole=True)] = 6  # of a failed request
    # The longest Retry-After that is obeyed, in seconds.
    longest_wait: Annotated[float, number_check(0, 86_400)] = 60.0
    price: Annotated[float | None, number_check(0, 1e6)] = None  # of one call
    currency: Annotated[str, _text] = "USD"
    journal: Annotated[Path | None, _file] = None  # the file in which answers are kept
    proxy: Annotated[str | None, check_url] = None
    certificates: Annotated[Path | None, _file] = None  # a file of certificates to trust instead of the usual ones
    batch_url: Annotated[str | None, _text] = None  # address in the lines for a batch API; by default the url's path

    @property
    def ours(self) -> bool:
        """Whether it is a `yoro serve --responses`."""
        return self.answer is None

    @property
    def address(self) -> str:
        parts = urlsplit(self.url)
        return parts._replace(path=RESPONSES).geturl() if self.ours and parts.path in ("", "/") else self.url

    @property
    def place(self) -> answers.Path:
        return self.place_of(0)

    def place_of(self, number: int) -> answers.Path:
        """Path of the vector of one of several images."""
        return answers.parse_path((self.answer or OURS).replace("[]", f"[{number}]"))

    @property
    def listed(self) -> answers.Path | None:
        """Path of the list with an item for each image, if there is one."""
        before, several, _ = (self.answer or OURS).partition("[]")
        return answers.parse_path(before) if several else None

    @property
    def shown(self) -> str:
        """The address without its query, which may hold a secret."""
        return urlsplit(self.address)._replace(query="", fragment="").geturl()

    def digest(self) -> str:
        """Of everything that determines an answer; credentials, rates and prices do not."""
        plain = {name: header.text for name, header in self.headers.items() if not header.env}
        answer = self.answer and self.answer.replace("[]", "[0]")  # the same answer, however many images are sent
        sent = [self.address, self.method, plain, self.body, self.form, answer]
        image = [self.side, self.encoding, self.quality if self.encoding == "jpeg" else None]
        return json_digest([sent, image])


def read_config(path: Path) -> EndpointConfig:
    """The endpoint of a TOML file."""
    if not path.is_file():
        raise SourceError(f"There is no file '{path}'; expected the TOML file of an endpoint.")
    try:
        table = tomllib.loads(read_bounded(path, limits.ENDPOINT_FILE_BYTES).decode())
    except (ValueError, RecursionError) as error:  # errors of TOML and UTF-8 are ValueErrors
        raise SourceError(f"'{path}' cannot be used: {' '.join(str(error).split())[:200]}.") from None
    try:
        config = make_config(table)
    except SourceError as error:
        raise SourceError(f"'{path}': {error}") from None
    here = path.resolve().parent  # paths in the file are relative to it
    return replace(
        config,
        journal=None if config.journal is None else here / config.journal,
        certificates=None if config.certificates is None else here / config.certificates,
    )


def make_config(table: Mapping[str, object]) -> EndpointConfig:
    """The endpoint of a table of settings, each checked."""
    checks = {name: get_args(hint)[1] for name, hint in get_type_hints(EndpointConfig, include_extras=True).items()}
    for name in table:
        if name not in checks:
            raise SourceError(f"unknown setting {name[:60]!r}. {did_you_mean(name[:60], sorted(checks))}")
    made: dict[str, object] = {name: checks[name](name, value) for name, value in table.items()}
    if "url" not in made:
        raise SourceError("url is missing; expected one such as https://host/path.")
    config = EndpointConfig(**made)  # type: ignore[arg-type]
    if config.answer is None and made.keys() & {"body", "form", "side", "encoding", "quality", "method", "batch_url"}:
        raise SourceError(
            "answer is missing: the path of the vector in the JSON that comes back, such as data[0].embedding."
        )
    if config.images > 1 and not config.ours and (config.answer or "").count("[]") != 1:
        raise SourceError(
            "images is more than 1, so answer must say where the vector of each image is, such as data[].embedding."
        )
    if config.images > 1 and config.form is None and not config.ours and not is_repeatable(config.body):
        raise SourceError(
            "images is more than 1, so the image in the body must be the only item of a list, such as "
            "input = ['{{image_data_url}}'], or form must name a field."
        )
    if config.body is not None and config.form is not None:
        raise SourceError("body and form are both set; keep one of them.")
    secret = any(header.env for header in config.headers.values())
    if secret and config.url.startswith("http:") and not _local(urlsplit(config.url).hostname or ""):
        raise SourceError("a credential would be sent to another machine unencrypted; use https.")
    return config


def check_url(name: str, value: object) -> str:
    """An http or https address without credentials."""
    text = _text(name, value)
    try:
        parts: SplitResult | None = urlsplit(text)
        _ = parts.port if parts else None
    except ValueError:
        parts = None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname or not text.isprintable():
        raise SourceError(f"{name} is {text[:100]!r}; expected an address such as https://host/path.")
    if parts.username is not None or parts.password is not None or "@" in parts.netloc:
        raise SourceError(
            f"{name} contains a user or a password; put credentials into [headers] with env = 'VARIABLE'."
        )
    if parts.fragment or " " in text:
        raise SourceError(f"{name} has a fragment (#...) or a space; remove it.")
    return text


def _local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _text(name: str, value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= limits.ENDPOINT_TEXT:
        raise SourceError(
            f"{name} is {str(value)[:60]!r}; expected a string of 1 to {limits.ENDPOINT_TEXT:,} characters."
        )
    return value


def number_check(low: float, high: float, *, whole: bool = False) -> Check:
    """A check that a setting is a number, or a whole number, in a range."""

    def check(name: str, value: object) -> float:
        kinds: tuple[type, ...] = (int,) if whole else (int, float)
        if type(value) not in kinds or not isinstance(value, int | float):
            raise SourceError(f"{name} is {str(value)[:60]!r}; expected a {'whole ' if whole else ''}number.")
        if not (math.isfinite(value) and low <= value <= high):
            raise SourceError(f"{name} is {value}; expected {low:g} to {high:g}.")
        return value

    return check


def choice_check(*words: str) -> Check:
    """A check that a setting is one of these words."""

    def check(name: str, value: object) -> str:
        if value not in words:
            raise SourceError(f"{name} is {str(value)[:60]!r}; expected {' or '.join(words)}.")
        return str(value)

    return check


def _rate(name: str, value: object) -> float:
    found = RATE.fullmatch(value) if isinstance(value, str) else None
    if found is None or float(found[1]) <= 0:
        raise SourceError(f"{name} is {str(value)[:60]!r}; expected a rate limit such as '10/s' or '600/min'.")
    return float(found[1]) / (60 if found[2] == "min" else 1)


def _headers(name: str, value: object) -> dict[str, Header]:
    if not isinstance(value, dict) or len(value) > limits.ENDPOINT_HEADERS:
        raise SourceError(f"{name} must be a table of at most {limits.ENDPOINT_HEADERS} headers.")
    return {key.lower(): _header(key, given) for key, given in value.items()}


def _header(name: str, value: object) -> Header:
    if not NAME.fullmatch(name) or name.lower() in OWN:
        raise SourceError(f"the header {name[:60]!r} cannot be set.")
    if isinstance(value, dict):
        env, prefix = value.get("env"), value.get("prefix", "")
        if set(value) - {"env", "prefix"} or not isinstance(env, str) or not VARIABLE.fullmatch(env):
            raise SourceError(f"the header {name!r} must be a string or {{env = 'VARIABLE', prefix = '...'}}.")
        if not isinstance(prefix, str) or len(prefix) > 100 or not (prefix.isascii() and prefix.isprintable()):
            raise SourceError(f"the header {name!r} has a prefix with characters that a header cannot have.")
        return Header(prefix, env)
    text = _text(f"the header {name!r}", value)
    if name.lower() in SECRET:
        raise SourceError(
            f"the header {name!r} is a credential: name an environment variable instead, {{env = 'VARIABLE'}}."
        )
    if not (text.isascii() and text.isprintable()):
        raise SourceError(f"the header {name!r} contains characters that a header cannot have.")
    return Header(text)


def _place(name: str, value: object) -> str:
    text = _text(name, value)
    answers.parse_path(text.replace("[]", "[0]", 1))
    return text


def _file(name: str, value: object) -> Path:
    text = _text(name, value)
    if not text.isprintable():
        raise SourceError(f"{name} is {text[:60]!r}; expected a path.")
    return Path(text).expanduser()
