"""Images per second of the catalogue's backbones on this machine: measured, or forecast from those that were."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from yoro.sources.models import CatalogueRow
from yoro.sources.open import open_source

IMAGES = 32  # of one call
SECONDS = 0.5  # that a measurement takes at least
MEASURED = "embedded:"  # what is here, and opened in a moment


def with_speeds(rows: Sequence[CatalogueRow]) -> list[CatalogueRow]:
    """The rows with their speeds; one that is not measured is forecast by the multiply-adds a second of the others."""
    speeds = {row.name: images_per_second(row.name) for row in rows if row.multiply_adds and _is_measured(row)}
    rates = [speeds[row.name] * row.multiply_adds for row in rows if row.name in speeds and row.multiply_adds]
    filled = []
    for row in rows:
        if row.name in speeds:
            row = replace(row, speed=speeds[row.name], measured=True)
        elif row.multiply_adds and rates:
            row = replace(row, speed=float(np.median(rates)) / row.multiply_adds, measured=False)
        filled.append(row)
    return filled


def images_per_second(name: str) -> float:
    """How many images a second a source reads, decoding not included."""
    source = open_source(name)
    images = np.random.default_rng(0).integers(0, 256, (IMAGES, source.side, source.side, 3), dtype=np.uint8)
    source.respond(images)
    calls, start = 0, time.perf_counter()
    while (taken := time.perf_counter() - start) < SECONDS:
        source.respond(images)
        calls += 1
    return calls * IMAGES / taken


def _is_measured(row: CatalogueRow) -> bool:
    return bool(row.weights) and row.name.startswith(MEASURED)
