"""An endpoint as a response source: each image is asked about once, whatever happens."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from yoro.errors import SourceError, StoreError, counted
from yoro.sources.endpoint.client import Asker, Question, Spent
from yoro.sources.endpoint.config import EndpointConfig, check_url, make_config, read_config
from yoro.sources.endpoint.description import Described, described_in, source_url
from yoro.sources.endpoint.journal import Journal, call_key, default_journal, spoken
from yoro.sources.endpoint.template import encoded
from yoro.sources.names import SourceName
from yoro.sources.protocol import Calls, IdentifiedSource, Identity, Images, Responses

if TYPE_CHECKING:
    import onnx

MEAN, STD = (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)  # colours are sent as they are
DESCRIPTION = "source"  # what the journal calls what a server said of itself
GREY = 127


@dataclass(frozen=True)
class Forecast:
    """What images would cost: how many there are, how many of them are answered already, calls, and their price."""

    images: int = 0
    answered: int = 0
    calls: int = 0

    def spoken(self, config: EndpointConfig) -> str:
        """In a sentence."""
        known = f"{counted(self.images, 'image')}, {self.answered:,} answered before"
        calls = counted(self.calls, "call")
        if config.price is None:
            return f"{known}: {calls} to {config.shown}; the file names no price."
        cost = f"{self.calls * config.price:,.6f}".rstrip("0").rstrip(".")
        price = f"{cost} {config.currency} at {config.price:g} each"
        return f"{known}: {calls} to {config.shown}, {price}; failures may come on top."


class EndpointSource(IdentifiedSource):
    """Images are sent as they are composed; answers come from the journal where they are in it.

    The more images are asked about together, the fewer wait for one answer that is slow or comes at the third attempt.
    """

    preferred_batch = 256

    def __init__(self, name: str, config: EndpointConfig, calls: Calls) -> None:
        self.config = config
        path = config.journal or default_journal(config.digest())
        self.journal = Journal(path, create=not calls.dry)
        self.calls = Spent(calls.budget)
        self.known_width: int | None = None
        self._lock = threading.Lock()
        self._asker: Asker | None = None
        if not calls.dry:
            self._asker = Asker(config, self.journal, self.calls)
        described = self._described()
        if described is None:
            identity = Identity(
                name, "logits", config.side, MEAN, STD, config.digest(), licence=None, digest_of="endpoint"
            )
        else:
            identity = replace(described.identity, name=name)
            self.layout = described.layout
        super().__init__(identity)
        told = "" if described is None else described.digest()
        self.request = hashlib.sha256(f"{config.digest()} {told}".encode()).digest()
        self.width = self._width(None if described is None else described.width)
        if self._asker is not None:
            self._asker.request, self._asker.width = self.request, self.width

    @property
    def unknown_width(self) -> bool:
        """Whether nobody knows yet how long an answer is, so that a call must tell."""
        return self.known_width is None and not self.config.ours

    @property
    def notes(self) -> list[str]:
        """What a user may want to know before the first call."""
        return [f"Answers of {self.config.shown} are kept in {self.journal.path}."]

    def outcome(self) -> str:
        """What the calls of this run came to, and those of all runs, in a sentence."""
        return f"{counted(self.calls.calls, 'call')} made now. {spoken(self.journal.totals(self.request))}"

    def key(self, pixels: NDArray[np.uint8]) -> bytes:
        """What the answer to an image is kept under, and what the endpoint is sent to know a repeated request by."""
        return call_key(self.request, pixels)

    def unanswered(self, images: Images) -> list[int]:
        """Which of the images no answer is known to; of equal ones the first."""
        keys = [self.key(image) for image in self.sendable(images)]
        known = self.journal.vectors(keys)
        first = {key: row for row, key in reversed(list(enumerate(keys)))}
        return sorted(row for key, row in first.items() if key not in known)

    def sendable(self, images: Images) -> NDArray[np.uint8]:
        """The images, if a file can carry their pixels."""
        if images.dtype != np.uint8:
            raise SourceError(
                f"{self.name!r} is sent image files, which hold whole pixel values; this prompt adds fractions. "
                "Leave the prompt at 'watermark', untrained, or use a source that runs here."
            )
        return images  # type: ignore[return-value]

    def onnx_model(self) -> onnx.ModelProto:
        """An endpoint has no graph: always an error."""
        raise SourceError(f"{self.name!r} is an endpoint; only sources that are graphs can be exported to ONNX.")

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
        if self._asker is None:
            raise SourceError(f"{self.name!r} was opened without leave to ask.")
        form = self.config.encoding, self.config.quality
        questions = [Question(key, row, partial(encoded, pixels[row], *form)) for key, row in rows.items()]
        questions.sort(key=lambda question: question.row)
        try:
            return self._asker.ask(questions)
        except (SourceError, StoreError) as error:
            error.args = (f"{error} {self._kept()}",)
            raise

    def _kept(self) -> str:
        try:
            kept = self.outcome()
        except StoreError:  # a full disk may keep it from being read, too
            return ""
        return f"{kept} The same command goes on from there: nothing answered is asked again."

    def _described(self) -> Described | None:
        """What a service of our kind says of its source; in a dry run what it last said."""
        if not self.config.ours:
            return None
        if self._asker is None:
            told = self.journal.told(DESCRIPTION)
            return None if told is None else described_in(told.encode(), self.config.shown)
        answer = self._asker.describe(source_url(self.config.address))
        if answer.status != 200:
            raise SourceError(
                f"{self.config.shown} answered {answer.status} when asked what it is; expected a `yoro serve "
                "--responses`. For another endpoint write a file: `--source endpoint:FILE.toml`."
            )
        described = described_in(answer.content, self.config.shown)
        self.journal.tell(DESCRIPTION, answer.content.decode())
        return described

    def _width(self, told: int | None) -> int:
        """Of a response: as it is told, as it was answered before, or as a grey image is answered, which is a call."""
        before = self.journal.width(self.request)
        self.known_width = told or self.config.width or before
        if before not in (None, self.known_width):
            raise SourceError(
                f"{self.config.shown} has width {self.known_width:,} now, but its answers in '{self.journal.path}' "
                f"have {before:,}. Correct the width, or name another journal."
            )
        if self.known_width is not None or self._asker is None:
            return self.known_width or 1  # in a dry run nobody asks
        self._asker.request = self.request
        grey = np.full((1, self.side, self.side, 3), GREY, np.uint8)
        return len(next(iter(self._asked(grey, {self.key(grey[0]): 0}).values())))


def open_endpoint(name: SourceName, read: str, calls: Calls) -> EndpointSource:
    """The endpoint of an address, or of a TOML file."""
    if name.prefix == "endpoint":
        config, called = read_config(Path(name.rest)), name.text
    else:
        config = make_config({"url": check_url("the source", name.text)})
        called = name.text.partition("?")[0]  # what is asked for may be a secret
    source = EndpointSource(called, config, calls)
    gives = str(source.describe()["read"])
    if read != "all" and read != gives and not (calls.dry and config.ours):
        raise SourceError(f"{called!r} is read where its server reads it, at {gives!r}; it cannot be read at {read!r}.")
    return source


def endpoint_of(source: object) -> EndpointSource | None:
    """A source that asks an endpoint, as such."""
    return source if isinstance(source, EndpointSource) else None
