"""A million synthetic images through statistics, ledger and reservoir: memory, and time a thousand, as they go."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from timing import print_machine, print_table, resident_memory
from yoro.data.responses import ResponseBatch
from yoro.discriminant.readings import Layout
from yoro.mappings.batches import row_digests
from yoro.model.gathered import Gathered
from yoro.model.settings import SolveSettings

CLASSES = 100
TOGETHER = 256  # as a pass adds them
ENTRY = 20  # bytes of an image in the ledger


@dataclass(frozen=True)
class Row:
    """What was measured up to so many images."""

    images: int
    seconds: float  # of the thousand images since the row before, on average
    memory: float  # resident, MB
    ledger: float  # of which the ledger, MB
    kept: int


def batches(most: int, width: int) -> Iterator[ResponseBatch]:
    """Synthetic responses in batches; no two are alike."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(CLASSES, width)).astype(np.float32)
    for start in range(0, most, TOGETHER):
        codes = rng.integers(0, CLASSES, min(TOGETHER, most - start))
        responses = rng.standard_normal((len(codes), width), dtype=np.float32) + means[codes]
        names = [f"image {start + i}" for i in range(len(codes))]
        labels = [f"class {code:02d}" for code in codes.tolist()]
        yield ResponseBatch(responses, labels, None, row_digests(responses), names)


def measured(most: int, width: int, capacity: int, *, noting: bool = True) -> list[Row]:
    """A row for every power of ten, and for the end."""
    gathered = Gathered.empty(capacity, 0, Layout.of(width), noting=noting)
    rows, spent, last = list[Row](), 0.0, 0
    marks = [10**power for power in range(3, 10) if 10**power < most] + [most]
    for batch in batches(most, width):
        began = time.perf_counter()
        gathered.add([batch])
        spent += time.perf_counter() - began
        if gathered.images >= marks[len(rows)]:
            ledger = len(gathered.ledger) * ENTRY / 2**20
            kept = len(gathered.reservoir) if gathered.reservoir is not None else 0
            each = 1000 * spent / (gathered.images - last)
            rows.append(Row(gathered.images, each, resident_memory(), ledger, kept))
            spent, last = 0.0, gathered.images
    return rows


def bench(most: int, width: int, capacity: int, noting: bool) -> None:
    rows = measured(most, width, capacity, noting=noting)
    what = "with a ledger" if noting else "without a ledger"
    print_table(
        f"Up to {most:,} synthetic responses of width {width}, {capacity:,} of them kept, {what} "
        "(bars: time a thousand flat, memory flat but for the 20 bytes an image of the ledger)",
        ["images", "ms a thousand", "memory (MB)", "of it ledger (MB)", "responses kept"],
        [[f"{row.images:,}", f"{1e3 * row.seconds:.1f}", f"{row.memory:.0f}", f"{row.ledger:.1f}", f"{row.kept:,}"]
         for row in rows],
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000, help="images")
    parser.add_argument("--width", type=int, default=256, help="of a response")
    parser.add_argument("--reservoir", type=int, default=SolveSettings.reservoir, help="responses kept")
    parser.add_argument("--no-ledger", action="store_true", help="keep no list of what was fitted")
    given = parser.parse_args()
    print_machine()
    bench(given.most, given.width, given.reservoir, not given.no_ledger)
