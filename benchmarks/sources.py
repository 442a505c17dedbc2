"""Images a second of the embedded source, in 8-bit arithmetic, and of the same network in eager torch, with ratios.

Run: python benchmarks/sources.py [--variant lite0] [--seconds 2] [--repeats 5]

The engines take turns, so that a load from elsewhere hits both; medians are printed. Without torch and
efficientnet_lite_pytorch the columns of torch stay empty.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import time
from collections.abc import Callable

import numpy as np
from PIL import Image

from yoro.sources import open_source
from yoro.sources.embedded import weight_file

THREADS = (1, 2)
BATCHES = (1, 8, 32)


def photos(side: int, n: int) -> np.ndarray:
    """n real photographs (n, side, side, 3), mirrored and repeated."""
    from skimage import data

    pictures = [Image.fromarray(p).resize((side, side)) for p in (data.cat(), data.coffee(), data.astronaut())]
    stack = np.stack([np.asarray(p) for p in pictures])
    stack = np.concatenate([stack, stack[:, :, ::-1]])
    return np.ascontiguousarray(np.resize(stack, (n, side, side, 3)))


def eager_torch(variant: str, threads: int) -> Callable[[np.ndarray], object]:
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name(f"efficientnet-{variant}")
    network.load_state_dict(torch.load(weight_file(variant), weights_only=True))
    network.eval()

    def respond(images: np.ndarray) -> object:
        torch.set_num_threads(threads)
        with torch.inference_mode():
            pixels = torch.from_numpy(images).permute(0, 3, 1, 2).float().sub(127).div(128)
            return network(pixels)

    return respond


def rate(respond: Callable[[np.ndarray], object], images: np.ndarray, seconds: float) -> float:
    """Images a second over at least `seconds`, after one call to warm up."""
    respond(images)
    done, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        respond(images)
        done += len(images)
    return done / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", default="lite0", choices=("lite0", "lite1", "lite2"))
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    with_torch = all(importlib.util.find_spec(name) for name in ("torch", "efficientnet_lite_pytorch"))
    print(f"embedded:{options.variant}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, images a second")
    print(f"{'threads':>7} {'batch':>6} {'embedded':>9} {'int8':>7} {'ratio':>6} {'torch':>7} {'ratio':>6}")
    for threads in THREADS:
        source = open_source(f"embedded:{options.variant}", threads=threads)
        whole = open_source(f"embedded:{options.variant}?int8=yes", threads=threads)
        torch_respond = eager_torch(options.variant, threads) if with_torch else None
        for batch in BATCHES:
            images = photos(source.side, batch)
            ours, rounded, theirs = [], [], []
            for _ in range(options.repeats):
                ours.append(rate(source.respond, images, options.seconds))
                rounded.append(rate(whole.respond, images, options.seconds))
                if torch_respond is not None:
                    theirs.append(rate(torch_respond, images, options.seconds))
            gained = statistics.median(a / b for a, b in zip(rounded, ours, strict=True))
            row = f"{threads:>7} {batch:>6} {statistics.median(ours):>9.1f}"
            row += f" {statistics.median(rounded):>7.1f} {gained:>6.2f}"
            if theirs:
                ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
                row += f" {statistics.median(theirs):>7.1f} {ratio:>6.2f}"
            print(row, flush=True)
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
