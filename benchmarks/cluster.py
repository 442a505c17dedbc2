"""What Ray gives: two actors against one, what a block and a byte cost, and what 10^6 to 10^12 images then cost."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as arrow
from pyarrow import parquet

from images import write_photos
from timing import print_machine, print_table
from yoro.cluster.actors import Gathering, Opening
from yoro.cluster.blocks import of_parts
from yoro.cluster.cost import Prices, Shape, cost_of
from yoro.cluster.files import parts_of
from yoro.cluster.passing import add_up
from yoro.cluster.reading import Reading
from yoro.cluster.running import Crew, run_blocks
from yoro.cluster.session import ray_session
from yoro.cluster.storage import Storage
from yoro.data.decoding import decode
from yoro.data.geometry import Geometry
from yoro.model.pipeline import Pipeline, make_pipeline
from yoro.model.settings import ClusterSettings, PipelineSettings, SolveSettings

BUSY = "while True: pass"
SIZES = (10**6, 10**9, 10**12)
GB = 1e9


@contextmanager
def other_core_busy(busy: bool) -> Iterator[None]:
    """A process that computes for nothing beside the block, if wanted."""
    spinning = subprocess.Popen([sys.executable, "-c", BUSY]) if busy else None
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

    def timed(self, name: str, *, actors: int, block: int, images: int) -> tuple[float, float, float]:
        """Images a second once every actor has done a block, seconds until then, and seconds in all."""
        solve = SolveSettings()
        blocks = of_parts(parts_of([str(self.file)], block)[: images // block], {})
        opening = Opening(self.settings, 1, 32, self.pipeline.describe())
        work = Gathering(self.pipeline.origin(), self.pipeline.layout, solve.reservoir, solve.seed, True)
        reading = Reading(dict(self.pipeline.geometry.config()))
        crew = Crew(actors, 1, opening, work, Storage(str(self.folder / name)), reading)
        started = time.perf_counter()
        moments = [(time.perf_counter(), done.images) for done in run_blocks(blocks, crew)]
        warm, last = moments[actors - 1][0], moments[-1][0]
        return sum(images for _, images in moments[actors:]) / (last - warm), warm - started, last - started


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
    one, two, starts = [], [], []
    for turn in range(rounds):
        with other_core_busy(True):
            rate, warm, _ = bench.timed(f"one{turn}", actors=1, block=32, images=bench.images // 2)
        one.append(rate)
        starts.append(warm)
        two.append(bench.timed(f"two{turn}", actors=2, block=32, images=bench.images)[0])
    ratios = [b / (2 * a) for a, b in zip(one, two, strict=True)]
    rows = [[f"{a:.1f}", f"{b:.1f}", f"{ratio:.2f}"] for a, b, ratio in zip(one, two, ratios, strict=True)]
    rows.append([f"{statistics.median(one):.1f}", f"{statistics.median(two):.1f}", f"{statistics.median(ratios):.2f}"])
    print_table(
        "Images a second on decoded input, one thread an actor, blocks of 32; the last row has the medians",
        ["one actor, other core busy", "two actors", "of twice one"], rows,
    )  # fmt: skip
    return statistics.median(starts)


def checked(bench: Bench, start: float, widths: list[int]) -> Prices:
    """What an image, a block and a byte cost, found at two sizes of blocks; and runs that were foretold by them."""
    seconds = {}
    with other_core_busy(True):
        for block in (32, 128):
            rate, _, _ = bench.timed(f"b{block}", actors=1, block=block, images=bench.images)
            seconds[block] = 1 / rate  # of an image, its share of the block among it
    block_price = max(0.0, (seconds[32] - seconds[128]) / (1 / 32 - 1 / 128))
    shards = sorted(path.name for path in (bench.folder / "b32").iterdir())[:16]
    size = sum((bench.folder / "b32" / shard).stat().st_size for shard in shards)
    started = time.perf_counter()
    add_up(Storage(str(bench.folder / "b32")), shards, "1-0-x.stats")
    byte = (time.perf_counter() - started) / size
    found = Prices(seconds[128] - block_price / 128, block_price, byte, start)
    shape = Shape(widths, 4, 32)
    print_table(
        "Prices of one core", ["an image, ms", "a block, ms", "a GB to add up, s", "shard of 32, MB", "foretold, MB"],
        [[f"{1000 * found.image:.1f}", f"{1000 * found.block:.0f}", f"{GB * byte:.1f}", f"{size / 16 / 1e6:.2f}",
          f"{shape.shard_bytes(32) / 1e6:.2f}"]],
    )  # fmt: skip
    rows = []
    for images, block in ((bench.images // 4, 64), (bench.images // 2, 64), (bench.images, 64)):
        with other_core_busy(True):
            _, warm, whole = bench.timed(f"check{images}", actors=1, block=block, images=images)
        told = 3600 * cost_of(images - block, Shape(widths, 4, block), found).core_hours
        rows.append([f"{images:,}", f"{told:.1f}", f"{whole - warm:.1f}", f"{told / (whole - warm):.2f}"])
    print_table(
        "Seconds after the first block of 64, one actor while the other core is busy",
        ["images", "foretold", "measured", "ratio"], rows,
    )  # fmt: skip
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
