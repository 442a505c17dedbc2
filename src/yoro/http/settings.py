"""What a service allows and where it listens; each default stands here and nowhere else."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, fields

from yoro.errors import InputError
from yoro.limits import MB


@dataclass(frozen=True)
class ServeSettings:
    """How much a client may ask for, and how long it may take.

    host, port : where it listens; port 0 takes one that is free.
    feedback : whether labelled images may be sent, which change the model.
    most_images : of one request.
    most_megabytes : of the body of one request.
    held_megabytes : of the bodies of all requests together.
    waiting_images : of all requests together; what comes beyond is told to come again later.
    connections : open at once.
    batch_images : of one forward pass.
    read_seconds : that a client may take to send a body.
    answer_seconds : that an answer may take after that.
    idle_seconds : that a connection may be open without a whole request, or with an answer that nobody reads.
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
            raise InputError(f"The port is {self.port}; expected 0 to 65535.")
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name not in ("host", "port", "feedback") and not value > 0:
                said = field.name.replace("_", "-")
                raise InputError(f"--{said} is {value}; expected a number above 0.")
        if self.most_images > self.waiting_images:
            raise InputError(
                f"{self.most_images} images of one request could never wait, where {self.waiting_images} may at once. "
                "Give a larger --waiting-images or a smaller --most-images."
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
