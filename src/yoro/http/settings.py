"""Options of the service: where it listens, and its limits."""

import ipaddress
from dataclasses import dataclass, fields

from yoro.errors import InputError
from yoro.limits import MB, PROCESSES, SERVICE_NUMBER
from yoro.option import LAST_PORT, check_range, option


@dataclass(frozen=True)
class ServeSettings:
    """Where a service listens, and what clients may do."""

    host: str = option("127.0.0.1", "Address to listen on; by default only this machine can connect.")
    port: int = option(8321, "Port; 0 picks a free one.", metavar="N")
    feedback: bool = option(False, "Accept labelled images from clients and update the model with them.")
    processes: int = option(
        1, "Processes that share the port (Linux); the limits below hold for each.", metavar="N", expert=True
    )
    most_images: int = option(64, "Maximum images per request.", expert=True)
    most_megabytes: int = option(32, "Maximum size of a request.", expert=True)
    held_megabytes: int = option(256, "Maximum size of all requests together.", expert=True)
    waiting_images: int = option(256, "Queue length, in images; beyond it clients get 429.", expert=True)
    connections: int = option(256, "Maximum open connections.", expert=True)
    batch_images: int = option(32, "Images per forward pass.", expert=True)
    read_seconds: float = option(30.0, "Time limit for sending a request.", expert=True)
    answer_seconds: float = option(60.0, "Time limit for answering it.", expert=True)
    header_seconds: float = option(5.0, "Time limit for the first request of a connection.", expert=True)
    idle_seconds: float = option(
        15.0,
        "Time limit for idle connections.",
        "A connection is idle if its request is incomplete or its answer is not being read.",
        expert=True,
    )

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
