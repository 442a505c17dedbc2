"""Options of the service: where it listens, and its limits."""

import ipaddress
from dataclasses import dataclass, fields
from typing import Annotated

from yoro.errors import InputError
from yoro.limits import MB, PROCESSES, SERVICE_NUMBER
from yoro.option import LAST_PORT, Option, check_range


@dataclass(frozen=True)
class ServeSettings:
    """Where a service listens, and what clients may do."""

    host: Annotated[str, Option("Address to listen on; by default only this machine can connect.")] = "127.0.0.1"
    port: Annotated[int, Option("Port; 0 picks a free one.", metavar="N")] = 8321
    feedback: Annotated[bool, Option("Accept labelled images from clients and update the model with them.")] = False
    processes: Annotated[
        int, Option("Processes that share the port (Linux); the limits below hold for each.", metavar="N", expert=True)
    ] = 1
    most_images: Annotated[int, Option("Maximum images per request.", expert=True)] = 64
    most_megabytes: Annotated[int, Option("Maximum size of a request.", expert=True)] = 32
    held_megabytes: Annotated[int, Option("Maximum size of all requests together.", expert=True)] = 256
    waiting_images: Annotated[int, Option("Queue length, in images; beyond it clients get 429.", expert=True)] = 256
    connections: Annotated[int, Option("Maximum open connections.", expert=True)] = 256
    batch_images: Annotated[int, Option("Images per forward pass.", expert=True)] = 32
    read_seconds: Annotated[float, Option("Time limit for sending a request.", expert=True)] = 30.0
    answer_seconds: Annotated[float, Option("Time limit for answering it.", expert=True)] = 60.0
    header_seconds: Annotated[float, Option("Time limit for the first request of a connection.", expert=True)] = 5.0
    idle_seconds: Annotated[
        float,
        Option(
            "Time limit for idle connections.",
            "A connection is idle if its request is incomplete or its answer is not being read.",
            expert=True,
        ),
    ] = 15.0

    def __post_init__(self) -> None:
        check_range("port", self.port, 0, LAST_PORT)
        for field in fields(self):
            value, most = getattr(self, field.name), PROCESSES if field.name == "processes" else SERVICE_NUMBER
            if field.name not in ("host", "port", "feedback") and not 0 < value <= most:
                said = field.name.replace("_", "-")
                raise InputError(f"--{said} is {value}; expected a number above 0, at most {most:,}.")
        if self.most_images > self.waiting_images:
            raise InputError(
                f"A request of {self.most_images} images does not fit into a queue of {self.waiting_images}. "
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
