"""An endpoint as a response source: every image is sent once and its answer kept, so that no call is paid for twice."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from yoro.errors import SourceError, StoreError, counted
from yoro.sources.endpoint.client import CallBudget, EndpointClient, ImageRequest
from yoro.sources.endpoint.config import EndpointConfig, check_url, make_config, read_config
from yoro.sources.endpoint.description import SourceDescription, parse_description, source_url
from yoro.sources.endpoint.journal import Journal, call_key, default_journal
from yoro.sources.endpoint.template import encoded
from yoro.sources.names import SourceName
from yoro.sources.protocol import Calls, IdentifiedSource, Identity, Images, Responses

MEAN, STD = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)  # colours are sent as they are
DESCRIPTION = "source"  # the journal's name for what a server says of its source
GREY = 127


@dataclass(frozen=True)
class CallForecast:
    """What a run would cost: images, those answered before, and calls to be made."""

    images: int = 0
    answered: int = 0
    calls: int = 0

    def summary(self, config: EndpointConfig) -> str:
        known = f"{counted(self.images, 'image')}, {self.answered:,} answered before"
        calls = counted(self.calls, "call")
        if config.price is None:
            return f"{known}: {calls} to {config.shown}; the file sets no price."
        cost = f"{self.calls * config.price:,.6f}".rstrip("0").rstrip(".")
        price = f"{cost} {config.currency} at {config.price:g} each"
        return f"{known}: {calls} to {config.shown}, {price}; failed calls may cost extra."


class EndpointSource(IdentifiedSource):
    """Sends composed images to an endpoint, unless the journal has their answers.

    Large batches keep all connections busy while one image waits for a slow answer or a retry.
    """

    preferred_batch = 256

    def __init__(self, name: str, config: EndpointConfig, calls: Calls) -> None:
        self.config = config
        path = config.journal or default_journal(config.digest())
        self.journal = Journal(path, create=not calls.dry)
        self.calls = CallBudget(calls.budget)
        self.known_width: int | None = None
        self._lock = threading.Lock()
        self._client: EndpointClient | None = None
        self._confirmed = False  # whether the server was asked in this run what it serves
        if not calls.dry:
            self._client = EndpointClient(config, self.journal, self.calls)
        described = self._description()
        if described is None:
            identity = Identity(name, "logits", config.side, MEAN, STD, config.digest(), digest_of="endpoint")
        else:
            identity = replace(described.identity, name=name)
            self.layout = described.layout
        super().__init__(identity)
        served = "" if described is None else described.digest()
        self.request = hashlib.sha256(f"{config.digest()} {served}".encode()).digest()
        self.width = self._width(None if described is None else described.width)
        if self._client is not None:
            self._client.request, self._client.width = self.request, self.width

    @property
    def unknown_width(self) -> bool:
        """Whether the width of an answer must still be found by a call."""
        return self.known_width is None and not self.config.ours

    @property
    def notes(self) -> list[str]:
        """Where the answers go, to be shown before the first call."""
        return [f"Answers of {self.config.shown} are kept in {self.journal.path}."]

    def outcome(self) -> str:
        """How many calls this run made, and the totals of all runs."""
        return f"{counted(self.calls.calls, 'call')} made now. {self.journal.totals(self.request).summary()}"

    def key(self, pixels: NDArray[np.uint8]) -> bytes:
        """The journal's key of an image, also sent as the Idempotency-Key."""
        return call_key(self.request, pixels)

    def unanswered(self, images: Images) -> list[int]:
        """Rows of the images without an answer in the journal; of equal images the first."""
        keys = [self.key(image) for image in self.sendable(images)]
        known = self.journal.vectors(keys)
        first = {key: row for row, key in reversed(list(enumerate(keys)))}
        return sorted(row for key, row in first.items() if key not in known)

    def sendable(self, images: Images) -> NDArray[np.uint8]:
        """The images, if their pixels are whole numbers as in an image file."""
        if images.dtype != np.uint8:
            raise SourceError(
                f"{self.name!r} takes image files, whose pixels are whole numbers; this prompt adds fractions. "
                "Use the default prompt 'watermark', untrained, or a source that runs on this machine."
            )
        return images  # type: ignore[return-value]

    def _ask(self, images: Images) -> object:
        pixels = self.sendable(images)
        keys = [self.key(image) for image in pixels]
        with self._lock:
            known = self.journal.vectors(keys, self.width)
            rows = {key: row for row, key in reversed(list(enumerate(keys))) if key not in known}
            if rows:
                known |= self._asked(pixels, rows)
        return np.stack([known[key] for key in keys])

    def _asked(self, pixels: NDArray[np.uint8], rows: dict[bytes, int]) -> dict[bytes, Responses]:
        if self._client is None:
            raise SourceError(f"{self.name!r} was opened for a dry run, which makes no calls.")
        self._confirm(self._client)
        form = self.config.encoding, self.config.quality
        requests = [ImageRequest(key, row, partial(encoded, pixels[row], *form)) for key, row in rows.items()]
        requests.sort(key=lambda request: request.row)
        try:
            return self._client.ask(requests)
        except (SourceError, StoreError) as error:
            error.args = (f"{error} {self._kept()}",)
            raise
        except KeyboardInterrupt:
            raise KeyboardInterrupt(self._kept()) from None

    def _kept(self) -> str:
        try:
            kept = self.outcome()
        except StoreError:  # a full disk may keep it from being read, too
            return ""
        return f"{kept} Run the same command again to resume; answered images are not sent again."

    def _description(self) -> SourceDescription | None:
        """What a `yoro serve --responses` says of its source; in a dry run what it said last."""
        if not self.config.ours:
            return None
        known = self.journal.fact(DESCRIPTION)
        if known is not None:  # nobody is asked until an image is sent
            return parse_description(known.encode(), self.config.shown)
        return None if self._client is None else self._described(self._client)

    def _described(self, client: EndpointClient) -> SourceDescription:
        """What the server says of its source now; the journal keeps it."""
        response = client.describe(source_url(self.config.address))
        if response.status != 200:
            raise SourceError(
                f"{self.config.shown} answered {response.status} when asked to describe itself; expected a `yoro serve "
                "--responses`. For any other endpoint write a TOML file: `--source endpoint:FILE.toml`."
            )
        description = parse_description(response.content, self.config.shown)
        self.journal.store_fact(DESCRIPTION, response.content.decode())
        self._confirmed = True
        return description

    def _confirm(self, client: EndpointClient) -> None:
        """Before the first image is sent: the server must serve what the journal says it served last."""
        before = self.journal.fact(DESCRIPTION)
        if not self.config.ours or self._confirmed or before is None:
            return
        old = parse_description(before.encode(), self.config.shown)
        if self._described(client).digest() != old.digest():
            raise SourceError(
                f"{self.config.shown} serves another model than when it was last asked. Answers of both would not fit "
                "together; run the command again to use the new one for all images."
            )

    def _width(self, described: int | None) -> int:
        """The width as described, configured or seen before; otherwise that of the answer to a grey image: one call."""
        before = self.journal.width(self.request)
        self.known_width = described or self.config.width or before
        if before not in (None, self.known_width):
            raise SourceError(
                f"{self.config.shown} has width {self.known_width:,} now, but its answers in '{self.journal.path}' "
                f"have {before:,}. Correct the width, or set another journal."
            )
        if self.known_width is not None or self._client is None:
            return self.known_width or 1  # a dry run does not need it
        self._client.request = self.request
        grey = np.full((1, self.side, self.side, 3), GREY, np.uint8)
        return len(next(iter(self._asked(grey, {self.key(grey[0]): 0}).values())))


def open_endpoint(name: SourceName, read: str, calls: Calls) -> EndpointSource:
    """The endpoint of an address, or of a TOML file."""
    if name.prefix == "endpoint":
        config, called = read_config(Path(name.rest)), name.text
    else:
        config = make_config({"url": check_url("the source", name.text)})
        called = name.text.partition("?")[0]  # the query may hold a secret
    source = EndpointSource(called, config, calls)
    gives = str(source.describe()["read"])
    if read != "all" and read != gives and not (calls.dry and config.ours):
        raise SourceError(f"{called!r} serves its {gives}; it cannot be read at {read!r}.")
    return source
