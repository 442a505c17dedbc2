"""Settings of a server: where it listens, and its limits; the only place of each default."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields

from yoro.errors import InputError
from yoro.limits import MB


@dataclass(frozen=True)
class ServeSettings:
    """Where a server listens, how much a client may send, and how long it may take.

    host, port : where it listens; port 0 takes one that is free.
    feedback : whether labelled images may be sent, which change the model.
    most_images : of one request.
    most_megabytes : of the body of one request.
    held_megabytes : of the bodies of all requests together.
    waiting_images : of all requests together; the queue is bounded, and more get 429 with a Retry-After.
    connections : open at once.
    batch_images : of one forward pass.
    read_seconds : that a client may take to send a body.
    answer_seconds : that an answer may take after that.
    idle_seconds : that a connection may stay open without a complete request, or with a response that nobody reads.
    """

    host: str = "127.0.0.1"
    port: int = 8321
    feedback: bool = False
    most_images: int = 64
    most_megabytes: int = 32
    held_megabytes: int = 256
    waiting_images: int = 256
    connections: int = 256
    batch_images: int = 32
    read_seconds: float = 30.0
    answer_seconds: float = 60.0
    idle_seconds: float = 15.0

    def __post_init__(self) -> None:
        if not 0 <= self.port < 2**16:
            raise InputError(f"Port {self.port} is out of range; expected 0 to 65535.")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("host", "port", "feedback") and not value > 0:
                said = field.name.replace("_", "-")
                raise InputError(f"--{said} is {value}; expected a number above 0.")
        if self.most_images > self.waiting_images:
            raise InputError(
                f"A request of {self.most_images} images does not fit a queue of {self.waiting_images}. "
                "Raise --waiting-images or lower --most-images."
            )

    @property
    def body_bytes(self) -> int:
        """Of one request."""
        return self.most_megabytes * MB

    @property
    def held_bytes(self) -> int:
        """Of all requests together."""
        return max(self.held_megabytes, self.most_megabytes) * MB

    @property
    def local(self) -> bool:
        """Whether only this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"
