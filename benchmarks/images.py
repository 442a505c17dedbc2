"""The budget of images: rate of `fit` against the ideal, memory as images grow, start-up of the command.

Run: python images.py [--only TABLE]     --only networks: the fit of two networks alone
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from timing import peak_memory, print_machine, print_table, processor_seconds
from yoro.data import processes
from yoro.data.decoding import decode
from yoro.data.find import find
from yoro.discriminant.joint import JointStatistics
from yoro.discriminant.readings import Layout
from yoro.discriminant.reservoir import Reservoir
from yoro.environment import cores as available_cores
from yoro.fit import fit
from yoro.model import one_pass
from yoro.model.ledger import Ledger
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import Loading, PipelineSettings
from yoro.sources import runtime

CLASSES = 20
TRIALS = 200  # images by which decoding and the bare forward pass are priced


def write_photos(folder: Path, count: int, width: int, height: int, classes: int = CLASSES) -> Path:
    """`count` JPEG crops of real photographs, of the given size, in a folder per class."""
    rng = np.random.default_rng(0)
    photos = [np.asarray(image) for image in load_sample_images().images]
    for label in range(classes):
        (folder / f"class {label:02d}").mkdir(parents=True)
    for i in range(count):
        photo = photos[i % len(photos)]
        side = int(rng.integers(150, 400))
        top, left = rng.integers(0, photo.shape[0] - side), rng.integers(0, photo.shape[1] - side)
        crop = Image.fromarray(photo[top : top + side, left : left + side]).resize((width, height))
        crop.save(folder / f"class {i % classes:02d}" / f"{i:05d}.jpg", quality=90)
    return folder


def core_seconds(folder: Path) -> tuple[float, float]:
    """Core-seconds of decoding one image, and of its bare forward pass, each on one core."""
    pipeline = make_pipeline(PipelineSettings(read="logits"), threads=1)
    examples = find(folder).examples[:TRIALS]
    started = time.process_time()
    images = np.stack([decode(example.image, pipeline.geometry) for example in examples])
    decoding = (time.process_time() - started) / len(images)
    pipeline.source.respond(images[:16])
    started = time.process_time()
    pipeline.source.respond(images)
    return decoding, (time.process_time() - started) / len(images)


def bench_rate() -> None:
    rows = []
    cores = available_cores()
    with tempfile.TemporaryDirectory() as temporary:
        for count, width, height in [(2000, 320, 256), (2000, 500, 375), (500, 2048, 1536)]:
            folder = write_photos(Path(temporary) / f"{width}", count, width, height)
            for _ in range(3):
                decoding, forward = core_seconds(folder)
                ideal = cores / (decoding + forward)
                started = time.perf_counter()
                stream = make_pipeline(PipelineSettings(read="logits")).stream(find(folder).examples, Loading())
                first = None
                done = 0
                for batch in stream:  # start-up apart: the clock begins when the first batch is there
                    first = first or time.perf_counter()
                    done += len(batch.names)
                passed = (done - 32) / (time.perf_counter() - first)
                whole = time.perf_counter()
                fit(folder, workers=None)
                fitted = count / (time.perf_counter() - whole)
                rows.append(
                    [f"{count:,} of {width}x{height}", f"{1e3 * decoding:.2f}", f"{1e3 * forward:.2f}", f"{ideal:.0f}",
                     f"{passed:.0f}", f"{passed / ideal:.2f}", f"{fitted:.0f}", f"{first - started:.2f}"]
                )  # fmt: skip
    print_table(
        f"`fit` against the ideal on {cores} cores: cores / (decoding + bare forward) (bar: pass / ideal at least 0.9)",
        [
            "images",
            "decode (ms)",
            "forward (ms)",
            "ideal (/s)",
            "pass (/s)",
            "pass / ideal",
            "fit, all (/s)",
            "start (s)",
        ],
        rows,
    )


@contextmanager
def accounted(spent: dict[str, float]) -> Iterator[None]:
    """Seconds of the processor that each stage of a fit takes, in whichever thread it runs."""
    stages = [
        (runtime, "run_session", "network", time.thread_time),
        (JointStatistics, "update", "statistics", time.thread_time),
        (Reservoir, "add", "reservoir", time.thread_time),
        (Ledger, "add", "ledger", time.thread_time),
        (Layout, "transformed", "transform", time.thread_time),
        (processes._Running, "_receive", "transfer", time.thread_time),
        (one_pass, "solve", "choose and solve", time.process_time),
    ]
    lock = threading.Lock()

    def timed(do: Callable[..., object], stage: str, clock: Callable[[], float]) -> Callable[..., object]:
        def run(*args: object, **options: object) -> object:
            began = clock()
            try:
                return do(*args, **options)
            finally:
                with lock:
                    spent[stage] = spent.get(stage, 0.0) + clock() - began

        return run

    with ExitStack() as patches:
        for owner, name, stage, clock in stages:
            patches.enter_context(patch.object(owner, name, timed(getattr(owner, name), stage, clock)))
        yield


def children_seconds() -> float:
    """Seconds of the processor of children that have ended."""
    return sum(os.times()[2:4])


def bench_whole(counts: Sequence[int], repeats: int) -> None:
    """The default's whole fit against decoding and the bare network on all cores; and where its time goes.

    Both are priced on TRIALS images in the round of the fit. Starting processes, opening the graph, and all that
    follows the pass count as loss. On a busy machine the ratio of core-seconds still means something.
    """
    rows, told, cores = [], [], available_cores()
    stages = ("decoding", "network", "statistics", "reservoir", "transfer", "ledger", "transform", "choose and solve")
    bare = make_pipeline(PipelineSettings(read="logits"))
    with tempfile.TemporaryDirectory() as temporary:
        for count in counts:
            folder = write_photos(Path(temporary) / f"{count}", count, 320, 256)
            priced, found = find(folder).examples[:TRIALS], list[tuple[float, ...]]()
            for _ in range(repeats):
                spent: dict[str, float] = {}
                share, own = count / len(priced), time.process_time()
                few = np.stack([decode(example.image, bare.geometry) for example in priced])
                decoding = (time.process_time() - own) * share
                bare.respond(few[:16])
                began, own = time.perf_counter(), time.process_time()
                bare.respond(few)
                forward, network = (time.perf_counter() - began) * share, (time.process_time() - own) * share
                began, own, children = time.perf_counter(), time.process_time(), children_seconds()
                with accounted(spent):
                    fit(folder, workers=None)
                whole, own = time.perf_counter() - began, time.process_time() - own
                spent["decoding"] = children_seconds() - children
                core_seconds = own + spent["decoding"]
                spent["rest"] = core_seconds - sum(spent.values())
                found.append((decoding / cores, forward, whole, decoding + network, core_seconds))
            decoding, forward, whole, needed, core_seconds = np.median(found, axis=0)
            ratios = (decoding + forward) / whole, needed / core_seconds
            rows.append([f"{count:,}", *(f"{value:.2f}" for value in (decoding, forward, whole, *ratios))])
            told.append([f"{count:,}", *(f"{spent.get(stage, 0.0):.2f}" for stage in (*stages, "rest"))])
    print_table(
        f"The default's whole fit, {CLASSES} classes, against decoding and the bare network on {cores} cores, medians "
        f"of {repeats} (bar: 0.9)",
        ["images", "decoding (s)", "network (s)", "whole fit (s)", "ratio", "ratio of core-seconds"],
        rows,
    )
    print_table("Where the core-seconds of the last of these fits go", ["images", *stages, "rest"], told)


def bench_networks(count: int = 200) -> None:
    """A whole fit of two networks, readings weighed, against a pass of each over the same images."""
    networks = ("embedded:lite0", "embedded:lite2")
    with tempfile.TemporaryDirectory() as temporary:
        folder = write_photos(Path(temporary) / "photos", count, 320, 256)

        def passed(source: str) -> None:
            for _ in make_pipeline(PipelineSettings(source)).stream(find(folder).examples, Loading()):
                pass

        def seconds(task: Callable[[], object]) -> tuple[float, float]:
            clock, processor = time.perf_counter(), processor_seconds()
            task()
            return time.perf_counter() - clock, processor_seconds() - processor

        tasks = [*(partial(passed, source) for source in networks), partial(fit, folder, source=[*networks])]
        *alone, whole = np.median([[seconds(task) for task in tasks] for _ in range(3)], axis=0)
    rows = [
        [name, *(f"{one[i]:.2f}" for one in (*alone, whole)), f"{whole[i] / sum(one[i] for one in alone):.2f}"]
        for i, name in enumerate(("clock", "processor"))
    ]
    print_table(
        f"The whole fit of two networks against the sum of their passes, {count} images (bar: at most 1.1 times)",
        ["seconds", *(f"pass of {name}" for name in networks), "fit of both", "fit / sum"],
        rows,
    )


CHEAP_SOURCE = """
import numpy as np
def respond(images):
    flat = images.reshape(len(images), -1)
    return np.ascontiguousarray(flat[:, :: flat.shape[1] // 1000][:, :1000], dtype=np.float32)
respond.side = 64
"""


def bench_memory() -> None:
    """With a source that costs nothing, so that many images take little time; the rest is the same."""
    rows, peaks = [], []
    with tempfile.TemporaryDirectory() as temporary:
        write_photos(Path(temporary) / "photos", 2000, 64, 64)
        (Path(temporary) / "cheap.py").write_text(CHEAP_SOURCE)
        for times in (5, 25):
            code = (
                f"import sys; sys.path.insert(0, {temporary!r})\n"
                "from yoro.fit import fit; from yoro.data.find import find; from yoro.data.examples import Example\n"
                f"found = list(find({str(Path(temporary) / 'photos')!r}))\n"
                f"many = [Example(e.image, e.label, f'{{n}} {{e.name}}') for n in range({times}) for e in found]\n"
                "fit(many, source='callable:cheap:respond', workers=1)"
            )
            peaks.append(peak_memory(code))
            rows.append([f"{2000 * times:,}", f"{peaks[-1]:.0f}"])
    print_table(
        f"Peak memory of `fit` on small images (bar: equal within 5 %; ratio {peaks[1] / peaks[0]:.3f})",
        ["images", "peak (MB)"],
        rows,
    )


STARTS = {
    "yoro --version": (("-m", "yoro", "--version"), "0.14"),
    "yoro --help": (("-m", "yoro", "--help"), "0.2"),
    "import yoro": (("-c", "import yoro"), "0.15"),
    "yoro predict, one image": (("-m", "yoro", "predict", "{model}", "{image}"), "1"),
}


def bench_start() -> None:
    """Seconds from nothing to the answer, with graphs cached and files in memory."""
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder, model = write_photos(Path(temporary) / "photos", 100, 500, 375), Path(temporary) / "m.yoro"
        fit(folder).save(model)
        image = next(folder.rglob("*.jpg"))
        for name, (words, bar) in STARTS.items():
            command = [sys.executable, *(word.format(model=model, image=image) for word in words)]
            seconds = []
            for _ in range(5):
                started = time.perf_counter()
                subprocess.run(command, capture_output=True, check=True)
                seconds.append(time.perf_counter() - started)
            rows.append([name, f"{sorted(seconds)[2]:.2f}", bar])
    print_table("Start-up", ["command", "median (s)", "bar (s)"], rows)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("start", "whole", "networks", "rate", "memory"), help="one of the tables")
    parser.add_argument("--counts", type=int, nargs="*", default=[200, 2000, 20000], help="images of the whole fits")
    parser.add_argument("--repeats", type=int, default=3, help="of the whole fits")
    given = parser.parse_args()
    benches: dict[str, Callable[[], None]] = {
        "start": bench_start,
        "whole": lambda: bench_whole(given.counts, given.repeats),
        "networks": bench_networks,
        "rate": bench_rate,
        "memory": bench_memory,
    }
    print_machine()
    for name, bench in benches.items():
        if given.only in (None, name):
            bench()
