"""Metrics of the service for Prometheus."""

from __future__ import annotations

import os

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from yoro.http.supervisor import METRICS

BATCHES = (1, 2, 4, 8, 16, 32, 64)
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Counters of one service; no label of them comes from a client."""

    routes: frozenset[str] = frozenset()  # the paths that are counted by name; all others are "other"

    def __init__(self) -> None:
        self._registry = at = CollectorRegistry()
        ProcessCollector(registry=at)
        self._requests = Counter("yoro_requests", "Requests by route and status.", ["route", "status"], registry=at)
        self._seconds = Histogram(
            "yoro_request_seconds", "Seconds from the start of a request to the end of its response.", ["route"],
            buckets=SECONDS, registry=at,
        )  # fmt: skip
        self._batches = Histogram("yoro_batch_images", "Images per forward pass.", buckets=BATCHES, registry=at)
        self._forward = Counter("yoro_forward_seconds", "Seconds spent in forward passes.", registry=at)
        self._models = Counter("yoro_models", "Hot reloads, by outcome.", ["outcome"], registry=at)
        self.waiting = Gauge("yoro_waiting_images", "Images in the queue.", registry=at)

    def request(self, path: str, status: int, seconds: float) -> None:
        route = path if path in self.routes else "other"
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def batch(self, images: int, seconds: float) -> None:
        self._batches.observe(images)
        self._forward.inc(seconds)

    def model(self, taken_up: bool) -> None:
        self._models.labels("taken up" if taken_up else "refused").inc()

    def text(self) -> bytes:
        """All counters in Prometheus' text format; with several processes, their sums."""
        if METRICS not in os.environ:
            return generate_latest(self._registry)
        together = CollectorRegistry()
        MultiProcessCollector(together)  # type: ignore[no-untyped-call]
        return generate_latest(together)
