"""Speed and fidelity of decoding: full against reduced scale, and the loader with 0, 1 and 2 workers.

Run: python benchmarks/decoding.py [--side 224]. Needs scikit-image for its photographs. Times are CPU seconds of one
core, medians of several repetitions; loader rates are wall-clock, from the second batch on.
"""

from __future__ import annotations

import argparse
import io
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import skimage
from PIL import Image

from yoro.data import decoding as decoding_module
from yoro.data.decoding import decode
from yoro.data.examples import Example
from yoro.data.geometry import Geometry
from yoro.data.loading import load

PHOTOS = Path(skimage.__file__).parent / "data"
TILES = ("astronaut.png", "coffee.png", "chelsea.png", "motorcycle_left.png", "rocket.jpg", "ihc.png")
SIZES = ((500, 375), (640, 480), (1024, 768), (2048, 1536), (4000, 3000))


def mosaic(width: int, height: int) -> bytes:
    """A JPEG of real photographs side by side at their own resolution, so that fine detail is as in a sharp photo."""
    tiles = itertools.cycle([Image.open(PHOTOS / name).convert("RGB") for name in TILES])
    canvas = Image.new("RGB", (width, height))
    for top in range(0, height, 300):
        left = 0
        while left < width:
            tile = next(tiles)
            canvas.paste(tile, (left, top))
            left += tile.width
    buffer = io.BytesIO()
    canvas.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def seconds(action: Callable[[], object], repetitions: int = 7) -> float:
    """Median CPU seconds."""
    action()
    times = []
    for _ in range(repetitions):
        begun = time.process_time()
        action()
        times.append(time.process_time() - begun)
    return statistics.median(times)


def with_margin(content: bytes, geometry: Geometry, margin: float) -> np.ndarray:
    chosen, decoding_module.MARGIN = decoding_module.MARGIN, margin  # type: ignore[assignment]
    try:
        return decode(content, geometry)
    finally:
        decoding_module.MARGIN = chosen


def decoding_table(side: int) -> None:
    cases = {name: (PHOTOS / name).read_bytes() for name in ("rocket.jpg", "hubble_deep_field.jpg", "retina.jpg")}
    cases |= {f"mosaic {width} x {height}": mosaic(width, height) for width, height in SIZES}
    print(f"\nDecoding to {side} x {side}, images a second and core; |d|: difference from full, mean and largest")
    print(f"{'photo':24s}{'full':>8s}{'margin 2':>10s}{'ratio':>7s}{'|d|':>8s}{'max':>5s}", end="")
    print(f"{'margin 1':>10s}{'ratio':>7s}{'|d|':>8s}{'max':>5s}")
    for name, content in cases.items():
        exact = decode(content, Geometry(side, reduced=False)).astype(int)
        full = seconds(lambda content=content: decode(content, Geometry(side, reduced=False)))  # type: ignore[misc]
        print(f"{name:24s}{1 / full:8.0f}", end="")
        for margin in (2, 1):
            taken = seconds(lambda c=content, m=margin: with_margin(c, Geometry(side), m))  # type: ignore[misc]
            off = np.abs(with_margin(content, Geometry(side), margin).astype(int) - exact)
            print(f"{1 / taken:10.0f}{full / taken:7.1f}{off.mean():8.3f}{off.max():5d}", end="")
        print()


def loader_table(side: int, folder: Path) -> None:
    print("\nLoading, images a second (wall clock), and CPU ms an image in the calling process")
    print(f"{'photo':24s}{'0 workers':>16s}{'1 worker':>16s}{'2 workers':>16s}")
    for (width, height), count in (((500, 375), 1600), ((2048, 1536), 320)):
        path = folder / f"{width}.jpg"
        path.write_bytes(mosaic(width, height))
        examples = [Example(path, "photo", path.name)] * count
        print(f"{f'mosaic {width} x {height}':24s}", end="")
        for workers in (0, 1, 2):
            rates = sorted(rate(examples, side, workers) for _ in range(3))
            print(f"{rates[1][0]:9.0f}{rates[1][1]:7.2f}", end="")
        print()


def rate(examples: list[Example], side: int, workers: int) -> tuple[float, float]:
    """Images a second and CPU milliseconds an image, once the first batch is there."""
    batches = load(examples, Geometry(side), batch_size=32, workers=workers)
    next(batches)
    begun, used = time.perf_counter(), time.process_time()
    count = sum(len(batch.good) for batch in batches)
    return count / (time.perf_counter() - begun), 1000 * (time.process_time() - used) / count


def start_up(folder: Path) -> None:
    path = folder / "500.jpg"
    begun = time.perf_counter()
    next(load([Example(path, "photo", path.name)], Geometry(224), batch_size=1, workers=1))
    print(f"\nFirst image from a new worker after {1000 * (time.perf_counter() - begun):.0f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=224)
    side = parser.parse_args().side
    load_before = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    print(f"Python {sys.version.split()[0]}, Pillow {Image.__version__}, {os.cpu_count()} cores, load {load_before}")
    decoding_table(side)
    with tempfile.TemporaryDirectory() as folder:
        loader_table(side, Path(folder))
        start_up(Path(folder))


if __name__ == "__main__":
    main()
