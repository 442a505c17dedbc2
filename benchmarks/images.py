"""The budget of images: rate of `fit` against the ideal, memory as images grow, start-up of the command.

Run: python images.py [--quick] [--networks]      --networks: the fit of two networks alone
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

from timing import medians, peak_memory, print_machine, print_table, processor_seconds
from yoro.data.decoding import decode
from yoro.data.find import find
from yoro.environment import cores as available_cores
from yoro.fit import fit
from yoro.model.pipeline import make_pipeline
from yoro.model.settings import Loading, PipelineSettings

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


def bench_default() -> None:
    """The default's whole fit, readings weighed, against a bare pass that reads the logits of the same images."""
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        for count in (200, 600, 2000):
            folder = write_photos(Path(temporary) / f"{count}", count, 320, 256)

            def bare(folder: Path = folder) -> None:
                for _ in make_pipeline(PipelineSettings(read="logits")).stream(find(folder).examples, Loading()):
                    pass

            passed, whole = medians(bare, lambda folder=folder: fit(folder, workers=None), repeats=3)
            rows.append([f"{count:,}", f"{passed:.2f}", f"{whole:.2f}", f"{whole / passed:.2f}"])
    print_table(
        f"The default's whole fit against a bare pass of one view, {CLASSES} classes (bar: at most 1.3 times)",
        ["images", "bare pass (s)", "fit (s)", "ratio"],
        rows,
    )


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


def bench_start() -> None:
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "yoro", "--help"], capture_output=True, check=True)
        seconds.append(time.perf_counter() - started)
    print_table("`yoro --help` (bar: under 0.5 s)", ["median (s)"], [[f"{sorted(seconds)[2]:.2f}"]])


if __name__ == "__main__":
    print_machine()
    if "--networks" in sys.argv:
        bench_networks()
        sys.exit()
    bench_start()
    bench_default()
    bench_rate()
    if "--quick" not in sys.argv:
        bench_memory()
