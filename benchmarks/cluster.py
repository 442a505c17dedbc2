"""What Ray gives: two actors against one, what a block and a byte cost, and what 10^6 to 10^12 images then cost."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as arrow
from pyarrow import parquet

from cluster_cost import Prices, Shape, cost_of
from images import write_photos
from timing import print_machine, print_table
from yoro.cluster.actors import GatherWork, Opening
from yoro.cluster.block_decoding import Decoding
from yoro.cluster.blocks import of_parts
from yoro.cluster.engine import add_up
from yoro.cluster.ray_data import Crew, run_blocks
from yoro.cluster.session import ray_session
from yoro.cluster.storage import Storage
from yoro.data.decoding import decode
from yoro.data.geometry import Geometry
from yoro.data.row_files import RowFiles
from yoro.model.pipeline import Pipeline, make_pipeline
from yoro.model.settings import ClusterSettings, PipelineSettings, SolveSettings

BUSY = "while True: pass"
SIZES = (10**6, 10**9, 10**12)
GB = 1e9
TICKS = os.sysconf("SC_CLK_TCK")
WASTE: set[int] = set()  # processes that compute for nothing
SEEN: dict[int, float] = {}  # seconds of every process when it was last looked at


@dataclass(frozen=True)
class Timed:
    """A run, from the moment when every actor has done a block."""

    images: int
    seconds: float  # by the clock
    processor: float  # seconds of all processes of Ray and of this one
    start: float  # seconds before that moment

    @property
    def rate(self) -> float:
        """Images a second."""
        return self.images / self.seconds


def processor_seconds() -> float:
    """Seconds of the processor of this process and of all that it started, waste left out; also of those that ended."""
    parents, seconds = {}, dict[int, float]()
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = place.read_text().rpartition(")")[2].split()
            number = int(place.parent.name)
            parents[number], seconds[number] = int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS
    found, ours = [os.getpid()], set()
    while found:
        ours.add(one := found.pop())
        found += [child for child, parent in parents.items() if parent == one and child not in WASTE]
    SEEN.update({one: seconds[one] for one in ours if one in seconds})
    return sum(SEEN.values())


@contextmanager
def other_core_busy(busy: bool) -> Iterator[None]:
    """A process that computes for nothing beside the block, if wanted."""
    spinning = subprocess.Popen([sys.executable, "-c", BUSY]) if busy else None
    WASTE.update({spinning.pid} if spinning is not None else ())
    try:
        yield
    finally:
        if spinning is not None:
            spinning.kill()
            spinning.wait()


def write_pixels(folder: Path, side: int, images: int) -> Path:
    """A Parquet file of decoded photographs of four classes."""
    photos = write_photos(folder / "photos", 24, 320, 240)
    files = sorted(photos.rglob("*.jpg"))
    pixels = [decode(file, Geometry(side)) for file in files]
    rng = np.random.default_rng(0)
    rows = []
    for i in range(images):
        image = pixels[i % len(pixels)].copy()
        image[:4, :4] = rng.integers(0, 256, (4, 4, 3))  # so that no two are the same
        rows.append({"pixels": image.tobytes(), "height": side, "width": side, "label": f"class {i % 4}"})
    parquet.write_table(arrow.Table.from_pylist(rows), folder / "pixels.parquet", row_group_size=32, compression="none")
    return folder / "pixels.parquet"


@dataclass(frozen=True)
class Bench:
    """A Parquet file of decoded images, and what reads it."""

    file: Path
    folder: Path
    settings: PipelineSettings
    pipeline: Pipeline
    images: int

    def timed(self, name: str, *, actors: int, block: int, images: int) -> Timed:
        """A run of so many images in such blocks, its shards in a folder of that name."""
        solve = SolveSettings()
        blocks = of_parts(RowFiles((str(self.file),)).parts(block)[: images // block], {})
        opening = Opening(self.settings, 1, 32, self.pipeline.describe())
        work = GatherWork(self.pipeline.origin(), self.pipeline.layout, solve.reservoir, solve.seed, True)
        decoding = Decoding(dict(self.pipeline.geometry.config()))
        crew = Crew(actors, 1, opening, work, Storage(str(self.folder / name)), decoding)
        began, moments = time.perf_counter(), []
        for done in run_blocks(blocks, crew):
            moments.append((time.perf_counter(), processor_seconds(), done.images))  # noqa: PERF401  a clock
        warm, last = moments[actors - 1], moments[-1]
        return Timed(sum(m[2] for m in moments[actors:]), last[0] - warm[0], last[1] - warm[1], warm[0] - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--source", default="embedded:lite0")
    parser.add_argument("--read", default="all")
    parser.add_argument("--images", type=int, default=768, help="of a timed run")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    settings = PipelineSettings(source=chosen.source, read=chosen.read)
    pipeline = make_pipeline(settings)
    widths = [reading.width for reading in pipeline.layout.readings]
    print_machine()
    with tempfile.TemporaryDirectory() as name, ray_session(ClusterSettings(ray="local")):
        folder = Path(name)
        file = write_pixels(folder, pipeline.geometry.side, chosen.images)
        bench = Bench(file, folder, settings, pipeline, chosen.images)
        start = scaling(bench, chosen.rounds)
        prices = checked(bench, start, widths)
    forecast(Shape(widths, classes=1000), prices)


def scaling(bench: Bench, rounds: int) -> float:
    """Two actors against twice one, while the other core is busy; gives the seconds until one has done a block."""
    one, two = [], []
    for turn in range(rounds):
        with other_core_busy(True):
            one.append(bench.timed(f"one{turn}", actors=1, block=32, images=bench.images // 2))
        two.append(bench.timed(f"two{turn}", actors=2, block=32, images=bench.images))
    rows = [
        [f"{a.rate:.1f}", f"{b.rate:.1f}", f"{b.rate / (2 * a.rate):.2f}", f"{1000 * a.processor / a.images:.1f}",
         f"{1000 * b.processor / b.images:.1f}"]
        for a, b in zip(one, two, strict=True)
    ]  # fmt: skip
    print_table(
        "Decoded input, one thread an actor, blocks of 32: images a second, and ms of the processor an image",
        ["one, other core busy", "two", "of twice one", "one, ms", "two, ms"], rows,
    )  # fmt: skip
    return statistics.median(run.start for run in one)


def checked(bench: Bench, start: float, widths: list[int]) -> Prices:
    """What an image, a block and a byte cost, found at two sizes of blocks; and runs that were foretold by them.

    Seconds of the processor: they say what a core does, whoever else is on it.
    """
    seconds = {}
    for block in (32, 128):
        run = bench.timed(f"b{block}", actors=1, block=block, images=bench.images)
        seconds[block] = run.processor / run.images  # of an image, its share of the block among it
    block_price = max(0.0, (seconds[32] - seconds[128]) / (1 / 32 - 1 / 128))
    shards = sorted(path.name for path in (bench.folder / "b32").iterdir())[:16]
    size = sum((bench.folder / "b32" / shard).stat().st_size for shard in shards)
    started = time.process_time()
    add_up(Storage(str(bench.folder / "b32")), shards, "1-0-x.stats")
    byte = (time.process_time() - started) / size
    found = Prices(seconds[128] - block_price / 128, block_price, byte, start)
    shape = Shape(widths, 4, 32)
    print_table(
        "Prices of one core", ["an image, ms", "a block, ms", "a GB to add up, s", "shard of 32, MB", "foretold, MB"],
        [[f"{1000 * found.image:.1f}", f"{1000 * found.block:.0f}", f"{GB * byte:.1f}",
          f"{size / len(shards) / 1e6:.2f}", f"{shape.shard_bytes(32) / 1e6:.2f}"]],
    )  # fmt: skip
    rows = []
    for images in (bench.images // 2, bench.images):
        run = bench.timed(f"check{images}", actors=1, block=64, images=images)
        told = 3600 * cost_of(run.images, Shape(widths, 4, 64), found).core_hours
        rows.append([f"{run.images:,}", f"{told:.1f}", f"{run.processor:.1f}", f"{told / run.processor:.2f}"])
    print_table(
        "Seconds of the processor after the first block of 64", ["images", "foretold", "measured", "ratio"], rows
    )
    return found


def forecast(shape: Shape, prices: Prices) -> None:
    """The table of very many images."""
    rows = []
    for ledger in (True, False):
        for images in SIZES:
            cost = cost_of(images, Shape(shape.widths, shape.classes, shape.block, shape.reservoir, ledger), prices)
            rows.append([
                f"10^{len(str(images)) - 1}", "yes" if ledger else "no", f"{cost.blocks:,}", f"{cost.core_hours:,.0f}",
                f"{cost.merge_hours:,.1f}", f"{cost.written / GB:,.0f}", f"{cost.most / GB:,.1f}",
                f"{cost.ledger / GB:,.2f}",
            ])  # fmt: skip
    print_table(
        f"A pass in blocks of {shape.block}, {shape.classes:,} classes, a reservoir of {shape.reservoir:,}",
        ["images", "ledger", "blocks", "core-hours", "to add up", "GB written", "GB at once", "GB of ledger"], rows,
    )  # fmt: skip


if __name__ == "__main__":
    main()
